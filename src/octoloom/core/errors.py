"""The exceptions of Octoloom.

OctoloomError
├── UsageError      the caller's fault: the text names the next step
├── ProtocolError   the peer's fault: the connection ends, with `code` and a text for the peer
└── StoreError      a store cannot be read or written, or belongs to something else

A normal refusal (a gap, busy, a redirect) is a message, not an exception. A broken invariant is an `assert`.
"""

from __future__ import annotations


class OctoloomError(Exception):
    """The root of all errors that Octoloom raises on purpose."""


class UsageError(OctoloomError):
    """The caller asked for something that cannot be done; the text says what to do instead."""


class ProtocolError(OctoloomError):
    """The peer said something that the protocol does not allow."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class StoreError(OctoloomError):
    """A store is damaged, out of reach, or not what it should be."""
