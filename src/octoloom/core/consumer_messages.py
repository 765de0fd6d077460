"""The words between consumer groups and their coordinator: error codes, requests, answers, effects.

They say what Kafka's group requests say, without the versions: what a version lacks, the shell fills in (in
JoinGroup 0 the rebalance timeout is the session timeout; LeaveGroup before 3 names one member), and what only some
versions want is a flag. A ticket is the driver's own number for a request; each is answered once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

TopicPartition = tuple[str, int]


class GroupError(IntEnum):
    """Kafka's codes, as far as a group coordinator uses them."""

    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    """Also said when too much waits to be stored: clients try again and do not look for another coordinator."""
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    """Said when a group would have more offsets than it may."""
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    """Said when a commit would make one group more than there may be."""
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82


# Requests.


@dataclass(frozen=True, slots=True)
class JoinRequest:
    group: str
    member: str
    """Empty for one that has no id yet."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata) in the order of preference."""
    fresh_id: str
    """An id that nobody ever had, for a member that has none; the driver rolls it."""
    instance: str | None = None
    client_id: str = ""
    client_host: str = ""
    requires_member_id: bool = True
    """JoinGroup 4 and later: one without an id is given one and asked to come again with it."""
    may_skip_assignment: bool = False
    """JoinGroup 9 and later."""


@dataclass(frozen=True, slots=True)
class SyncRequest:
    group: str
    member: str
    generation: int
    assignments: tuple[tuple[str, bytes], ...] = ()
    instance: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    group: str
    member: str
    generation: int
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """An empty member id with an instance is how an administrator removes a static member."""

    member: str
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    group: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """A consumer that is in no group's rounds has generation -1 and no member id."""

    group: str
    offsets: tuple[OffsetToCommit, ...]
    member: str = ""
    generation: int = -1
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetsQuery:
    group: str
    partitions: tuple[TopicPartition, ...] | None = None
    """None asks for all that there are."""


@dataclass(frozen=True, slots=True)
class FetchOffsetsRequest:
    groups: tuple[OffsetsQuery, ...]


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    groups: tuple[str, ...]


# Answers.


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member: str
    instance: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    error: GroupError
    member: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    """For the leader: everybody, to assign partitions to."""


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    error: GroupError
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    error: GroupError


@dataclass(frozen=True, slots=True)
class LeaveAnswer:
    error: GroupError
    members: tuple[tuple[LeavingMember, GroupError], ...] = ()


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    results: tuple[tuple[str, int, GroupError], ...]
    """(topic, partition, error) in the order of the request."""


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    """An offset of -1 means that none is committed."""

    topic: str
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class FetchedGroup:
    group: str
    error: GroupError
    offsets: tuple[FetchedOffset, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchOffsetsAnswer:
    groups: tuple[FetchedGroup, ...]


@dataclass(frozen=True, slots=True)
class DeleteAnswer:
    results: tuple[tuple[str, GroupError], ...]


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """Metadata and assignment are only told of a stable group."""

    member: str
    instance: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group that does not exist is `Dead`; DescribeGroups before 6 shows that state and leaves out the error."""

    group: str
    error: GroupError
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupListing:
    group: str
    protocol_type: str
    state: str


Response = JoinAnswer | SyncAnswer | HeartbeatAnswer | LeaveAnswer | CommitAnswer | FetchOffsetsAnswer | DeleteAnswer


# Effects.


@dataclass(frozen=True, slots=True)
class Answer:
    ticket: int
    response: Response


@dataclass(frozen=True, slots=True)
class Store:
    """Append these to the coordinator's partition, as one batch: all of them or none. No value deletes."""

    number: int
    records: list[tuple[bytes, bytes | None]]


Effect = Answer | Store
