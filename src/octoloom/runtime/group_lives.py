"""What members of a group write down, each for itself: what they were handed, in its place.

A *life* is one member from its join to its end, and all that it noted: each message, and each change of the group in
its place among them. The proofs of orders compare lives (`group_proof.py`, `causal_proof.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec


class Heard(msgspec.Struct, array_like=True, frozen=True, tag="heard"):
    """A message: the `number`-th of this member. `seen` counts what its sender had seen of the others by then."""

    at_ms: float
    sender: str
    number: int
    seen: dict[str, int] = {}


class Moved(msgspec.Struct, array_like=True, frozen=True, tag="moved"):
    """Somebody joined or left, and who is there now."""

    at_ms: float
    word: str
    name: str
    names: list[str]


class Ended(msgspec.Struct, array_like=True, frozen=True, tag="ended"):
    """The group went on without this member, which has sent so many; of these numbers it is not sure."""

    at_ms: float
    sent: int
    unsure: list[int]
    why: str


Line = Heard | Moved | Ended


class Life(msgspec.Struct):
    member: str
    founded: bool
    """Was in the first view that counts, with all other founders."""
    lived: bool = True
    to_send: int = 0
    lines: list[Line] = []

    @property
    def heard(self) -> list[Heard]:
        return [line for line in self.lines if isinstance(line, Heard)]

    def stream(self) -> list[object]:
        """All that must be the same for others, in order."""
        return [key_of(line) for line in self.lines if not isinstance(line, Ended)]


def key_of(line: Heard | Moved) -> tuple[object, ...]:
    return (line.sender, line.number) if isinstance(line, Heard) else (line.word, line.name, *line.names)


def longest_pause_ms(lives: Sequence[Life], since_ms: float, until_ms: float) -> float:
    """The longest time without a message, at any of these, whose middle lies in this stretch of time."""
    pauses = [0.0]
    for life in lives:
        times = [heard.at_ms for heard in life.heard]
        pauses += [after - at for at, after in pairwise(times) if since_ms <= (at + after) / 2 < until_ms]
    return max(pauses)
