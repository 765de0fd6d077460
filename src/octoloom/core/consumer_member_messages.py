"""The words between a member of a consumer group and its driver: what it wants asked, what came back, and effects.

Metadata and assignments are topics and partitions here; how they are written is the driver's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Literal

from octoloom.core.consumer_assignment import Places
from octoloom.core.consumer_progress import Place


@dataclass(frozen=True, slots=True)
class MemberSettings:
    topics: tuple[str, ...]
    start: Literal["beginning", "end"] = "beginning"
    """For partitions in which the group has never been."""
    session_ms: int = 10_000
    beat_ms: int = 2_000
    work_ms_max: int = 60_000
    commit_ms: int | None = 5_000
    look_ms: int = 10_000
    """How often the member that divided the partitions looks whether there are others."""
    patience_ms: int = 30_000
    """For how long a commit of the app is tried again."""


class Phase(Enum):
    """Where a member is on its way through a group."""

    OUT = auto()
    ENTERING = auto()
    PLEDGING = auto()
    READING = auto()
    HANDING_OVER = auto()
    CLOSING = auto()
    LEAVING = auto()
    CLOSED = auto()


OVER = (Phase.CLOSING, Phase.LEAVING, Phase.CLOSED)


# What a driver asks the coordinator.


@dataclass(frozen=True, slots=True)
class Join:
    member: str
    """Empty for one that has no id yet."""


@dataclass(frozen=True, slots=True)
class Sync:
    member: str
    generation: int
    assignment: Mapping[str, Places]
    """By member, from the one who leads; empty from all others."""


@dataclass(frozen=True, slots=True)
class Beat:
    member: str
    generation: int


@dataclass(frozen=True, slots=True)
class Commit:
    member: str
    generation: int
    offsets: Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class FetchCommitted:
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    member: str


# What a driver asks any broker.


@dataclass(frozen=True, slots=True)
class Count:
    """How many partitions have these topics?"""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Locate:
    """Where do these partitions begin and end?"""

    places: tuple[Place, ...]


Request = Join | Sync | Beat | Commit | FetchCommitted | Leave | Count | Locate


# Answers. An error is a code of Kafka's, 0 for none.


@dataclass(frozen=True, slots=True)
class Joined:
    error: int
    member: str = ""
    generation: int = -1
    leader: str = ""
    protocol: str = ""
    wanted: Mapping[str, list[str]] = field(default_factory=dict)
    """For the leader: everybody, with the topics that they want."""


@dataclass(frozen=True, slots=True)
class Synced:
    error: int
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    error: int
    offsets: Mapping[Place, int] = field(default_factory=dict)
    """Where the group is, in those partitions in which it has been."""


@dataclass(frozen=True, slots=True)
class Done:
    """To a heartbeat, a commit (the first error, if partitions differ), a leave."""

    error: int


@dataclass(frozen=True, slots=True)
class Counted:
    partitions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Located:
    bounds: Mapping[Place, tuple[int, int]]
    """(first offset, the one after the last)"""


Reply = Joined | Synced | Fetched | Done | Counted | Located


# Effects.


@dataclass(frozen=True, slots=True)
class Ask:
    """Is followed by one `on_reply` or `on_failed` with its ticket, sooner or later."""

    ticket: int
    request: Request


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Whoever coordinated does not any more, or cannot be reached: look for it anew with the next question."""


@dataclass(frozen=True, slots=True)
class Read:
    """Hand out what comes in these partitions, from these offsets on."""

    starts: Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class Halt:
    """Hand out nothing more, not even what is here already."""


@dataclass(frozen=True, slots=True)
class Settle:
    """A commit of the app is over: made if there is no error (0), or refused by a code or for the driver's reason."""

    number: int
    error: int | Exception


@dataclass(frozen=True, slots=True)
class Fail:
    """Whoever waits for the next delivery hears of this: a code, or the driver's own reason."""

    reason: int | Exception


@dataclass(frozen=True, slots=True)
class Note:
    """For the log."""

    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    pass


Effect = Ask | Reconnect | Read | Halt | Settle | Fail | Note | Ended
