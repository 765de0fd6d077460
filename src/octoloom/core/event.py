"""The words of the chain: events, kills, changes, and what a replica of a space consists of.

Payloads, merge patches and states travel as JSON text in ``bytes``. Only the tail, which computes, opens a
payload; only a link that applies a patch opens it; the head hands the tail's text to the devices as it is.
"""

from __future__ import annotations

from enum import IntEnum
from zlib import crc32

import msgspec

SYSTEM = "@"
"""Devices whose name starts with this are the chain's own: no device may take such a name."""
TIMER = "@timer"
PRESENCE = "@presence"

JOIN = "@join"
LEAVE = "@leave"

RULE = 2
"""The rule by which spaces are computed (`rule`). By the first one, deferred events were tried again only at the end of
a change, and an event could not cancel a timer that it had set itself."""


class Outcome(IntEnum):
    """What became of an event. Every kill carries one, and the device that sent the event is told."""

    APPLIED = 0
    REJECTED = 1
    SUPERSEDED = 2
    """A rolled-back device used the number for something else; this event had no effect."""
    QUARANTINED = 3
    """The event killed the process that computed it, twice."""
    FORGOTTEN = 4
    """It was settled too long ago to say how: applied or rejected, once."""

    @property
    def word(self) -> str:
        return _WORDS[self]


_WORDS = tuple(outcome.name.lower() for outcome in Outcome)


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A device's event in its place in the chain. Time and dice are the head's: every replay sees the same."""

    chain_sequencer: int
    device: str
    sequencer: int
    name: str
    payload: bytes
    time_ms: int
    dice: int

    @property
    def digest(self) -> int:
        return digest_of(self.name, self.payload)


class Kill(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event is settled: it leaves every replica, and its device may drop it."""

    chain_sequencer: int
    device: str
    sequencer: int
    outcome: Outcome
    reason: str = ""
    digest: int = 0


class Timer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event that the head will send to the space itself once `due_ms` has come."""

    timer: int
    due_ms: int
    name: str
    payload: bytes


class Change(msgspec.Struct, frozen=True, array_like=True):
    """One step of a space's state: version - 1 becomes version. Kills are in the order of consumption.

    A change says all that a replica needs, so that one which never saw the consumed events can apply it too.
    """

    epoch: int
    version: int
    replace: bool
    merge: bytes
    kills: list[Kill]
    timers: list[Timer] = []
    cancelled: list[int] = []
    presence: list[tuple[str, bool]] = []
    rule: int = 1
    """The rule by which it was computed; those who did not say so had the first one."""

    @property
    def size(self) -> int:
        return len(self.merge) + 64 * len(self.kills)


class Settled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How one of a device's recent events ended, and a digest that tells a reused number from a resent event."""

    sequencer: int
    outcome: Outcome
    reason: str
    digest: int


class DeviceRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a space remembers of a device beyond its live events."""

    device: str
    watermark: int
    done: list[int]
    recent: list[Settled]


class JournalEntry(msgspec.Struct, frozen=True, array_like=True):
    """A change as the journal keeps it, with the events that it consumed.

    An entry with `start` has no change: it says what the space was when a generation took it over from the journal.
    """

    version: int
    change: Change | None
    events: list[Event]
    waiting: list[Event] = []
    """Events that the app defers and that the change has passed over: they are live, and older than what is done."""
    start: SpaceSnapshot | None = None

    @property
    def size(self) -> int:
        start = len(self.start.state) if self.start else 0
        events = sum(64 + len(event.payload) for event in (*self.events, *self.waiting))
        return start + (self.change.size if self.change else 0) + events


class SpaceSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """All of one replica of one space."""

    space: str
    version: int
    state: bytes
    next_chain_sequencer: int
    events: list[Event]
    devices: list[DeviceRecord]
    timers: list[Timer]
    next_timer: int
    present: list[str]
    time_ms: int
    journaled: int = 0
    backlog: list[JournalEntry] = []


def digest_of(name: str, payload: bytes) -> int:
    """Identifies an event's content, so that a reused number is not mistaken for a resent event."""
    return crc32(payload, crc32(name.encode()))
