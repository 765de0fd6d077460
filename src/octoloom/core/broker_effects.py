"""What a broker's core asks its driver to do. A driver obeys effects in order."""

from __future__ import annotations

from dataclasses import dataclass

from octoloom.core.log_messages import BrokerToRegister, Durable, Follow, Part, TopicInfo, TopicPartition
from octoloom.core.replication import Wanted


@dataclass(frozen=True, slots=True)
class Open:
    """Open or make the log of this replica, and tell where it stands (`on_tail`)."""

    name: TopicPartition
    info: TopicInfo


@dataclass(frozen=True, slots=True)
class Close:
    """The topic is deleted: close the log and delete its files."""

    name: TopicPartition
    info: TopicInfo


@dataclass(frozen=True, slots=True)
class Truncate:
    """Drop everything from `offset` on, and tell where the log stands then."""

    name: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class Reset:
    """Drop everything and begin again at `offset`; tell where the log stands then."""

    name: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class Trim:
    """The leader's log begins at `offset`: so may ours."""

    name: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class Dial:
    """Keep a connection to this broker, to follow it; tell `on_leader_up` and `on_leader_down`."""

    peer: str


@dataclass(frozen=True, slots=True)
class HangUp:
    """End the connection to this broker, or the attempt to make one: it is not followed any more."""

    peer: str


@dataclass(frozen=True, slots=True)
class SendFollow:
    peer: str
    follow: Follow


@dataclass(frozen=True, slots=True)
class SendDurable:
    peer: str
    durable: Durable


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Read what is wanted, as much as fits, send it behind the verdicts, and tell `on_sent` how far it got.

    All of `to` are sent the same, but for the number: (follower, its number of the frame).
    """

    to: list[tuple[str, int]]
    wanted: list[Wanted]
    verdicts: list[Part]


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Answer these tickets: (ticket, Kafka's error code)."""

    answers: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the register."""

    message: BrokerToRegister


@dataclass(frozen=True, slots=True)
class Moved:
    """The watermarks of these rose: whoever waits to read may go on."""

    names: list[TopicPartition]


@dataclass(frozen=True, slots=True)
class LeadershipTaken:
    name: TopicPartition
    epoch: int


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    name: TopicPartition


@dataclass(frozen=True, slots=True)
class Fault:
    """The replica has stopped: it would have to give up committed records. An operator has to look."""

    name: TopicPartition
    text: str


Effect = (
    Open
    | Close
    | Truncate
    | Reset
    | Trim
    | Dial
    | HangUp
    | SendFollow
    | SendDurable
    | SendFrame
    | Acknowledge
    | Report
    | Moved
    | LeadershipTaken
    | LeadershipLost
    | Fault
)
