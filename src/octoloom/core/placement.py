"""Which chain serves a space: rendezvous hashing.

Every chain is given a score for the space and the highest wins. Whoever knows the chains' names gets the same answer,
in any process and in any order of the names, and:

1. a new chain takes spaces over, but none moves between the old ones: about 1/n of all spaces move;
2. the spaces of a chain that goes are spread evenly over the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from octoloom.core.errors import UsageError


def place(space: str, chains: Sequence[str]) -> str:
    """The chain that serves `space`; `chains` may come in any order."""
    if not chains:
        raise UsageError("there is no chain to place a space on: name at least one when the register starts")
    return max(chains, key=lambda chain: (_score(space, chain), chain))


def _score(space: str, chain: str) -> bytes:
    # Names hold no NUL, so that no two pairs give the same text. Equal-sized digests compare like numbers.
    return blake2b(f"{chain}\0{space}".encode(), digest_size=8).digest()
