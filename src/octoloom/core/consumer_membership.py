"""Who is in a consumer group, and what its members have in common.

A group is in one of Kafka's five states:

    Empty ──► PreparingRebalance ──► CompletingRebalance ──► Stable
      ▲          members join           the leader assigns     │
      └────────────────┴◄──────────────────┴◄──────────────────┘
    Dead: being deleted

This module keeps the tables and answers questions; what happens when is decided in `consumer_rounds`.

1. Among the members' protocols at least one is supported by all of them.
2. An instance id belongs to one member: of two that claim it, the later one has the place and the earlier is fenced.
3. `waiting` counts the members that have a join request open, so that "has everybody joined" costs nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from octoloom.core.consumer_messages import (
    GroupDescription,
    GroupError,
    JoinedMember,
    JoinRequest,
    MemberDescription,
)
from octoloom.core.consumer_records import GroupRecord, MemberRecord, encode
from octoloom.core.group_offsets import GroupOffsets

Protocols = tuple[tuple[str, bytes], ...]


class GroupState(StrEnum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class Member:
    member_id: str
    instance: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join_ticket: int | None = None
    sync_ticket: int | None = None
    is_new: bool = True
    """It has never been told that it is in, so it cannot send heartbeats yet."""

    @property
    def size(self) -> int:
        return size_of(self.client_id, self.client_host, self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def record(self) -> MemberRecord:
        return MemberRecord(
            self.member_id,
            self.instance,
            self.client_id,
            self.client_host,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.protocols,
            self.assignment,
        )


def member_from(record: MemberRecord) -> Member:
    return Member(
        record.member,
        record.instance,
        record.client_id,
        record.client_host,
        record.session_timeout_ms,
        record.rebalance_timeout_ms,
        record.protocols,
        record.assignment,
        is_new=False,
    )


def size_of(client_id: str, client_host: str, protocols: Protocols) -> int:
    return len(client_id) + len(client_host) + sum(len(name) + len(metadata) for name, metadata in protocols)


def member_of(member_id: str, request: JoinRequest) -> Member:
    return Member(
        member_id,
        request.instance,
        request.client_id,
        request.client_host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.protocols,
    )


@dataclass(slots=True, eq=False)
class Group:
    name: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    pending: dict[str, None] = field(default_factory=dict)
    """Ids that were given out and have not come back yet."""
    supporters: Counter[str] = field(default_factory=Counter)
    size: int = 0
    """The bytes of all members' metadata."""
    waiting: int = 0
    unsynced: dict[str, int] = field(default_factory=dict)
    """Those of this generation that have not asked for their assignment yet, and until when each may."""
    is_initial: bool = False
    not_before: int = 0
    rebalance_deadline: int = 0
    announced: bool = False
    assigning: bool = False
    empty_since: int = 0
    record: bytes | None = None
    """The group's last record, as it went to the log."""
    storing: int = 0
    """How many of its records are on their way."""
    offsets: GroupOffsets = field(default_factory=GroupOffsets)

    # Questions.

    @property
    def everybody_joined(self) -> bool:
        # The first round has a time of its own to wait for more, and does not wait for those who may be gone.
        return self.waiting == len(self.members) and (self.is_initial or not self.pending)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def is_unused(self) -> bool:
        """Nothing in the log speaks of it, and nobody is about to come."""
        return self.record is None and not self.members and not self.pending and self.offsets.is_empty

    def refusal(self, member_id: str, instance: str | None) -> GroupError:
        """Whether somebody is who it says it is."""
        if self.state is GroupState.DEAD:
            return GroupError.COORDINATOR_NOT_AVAILABLE
        if instance is not None and self.instances.get(instance, member_id) != member_id:
            return GroupError.FENCED_INSTANCE_ID
        if member_id not in self.members or (instance is not None and instance not in self.instances):
            return GroupError.UNKNOWN_MEMBER_ID
        return GroupError.NONE

    def generation_refusal(self, generation: int) -> GroupError:
        """Whether a member's request belongs to the generation that the members know of."""
        if self.state is GroupState.COMPLETING and not self.announced:
            return GroupError.REBALANCE_IN_PROGRESS
        return GroupError.NONE if generation == self.generation else GroupError.ILLEGAL_GENERATION

    def supports(self, protocol_type: str, protocols: Protocols, apart_from: Member | None) -> bool:
        """Whether all members (but this one) support one of the protocols."""
        others = len(self.members) - (apart_from is not None)
        if others == 0:
            return True
        own = {name for name, _ in apart_from.protocols} if apart_from else frozenset[str]()
        return protocol_type == self.protocol_type and any(
            self.supporters[name] - (name in own) == others for name, _ in protocols
        )

    def choose_protocol(self) -> str:
        """Each member votes for what it likes best of what all support; the leader's taste breaks a tie."""
        common = [name for name, count in self.supporters.items() if count == len(self.members)]
        assert common, f"the members of {self.name} have no protocol in common"
        votes = Counter(
            next(name for name, _ in member.protocols if name in common) for member in self.members.values()
        )
        most = max(votes.values())
        taste = self.members[self.leader].protocols if self.leader in self.members else ()
        return next((name for name, _ in taste if votes[name] == most), max(common, key=lambda name: votes[name]))

    def joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(member.member_id, member.instance, member.metadata(self.protocol))
            for member in self.members.values()
        )

    def describe(self) -> GroupDescription:
        stable = self.state is GroupState.STABLE
        members = tuple(
            MemberDescription(
                member.member_id,
                member.instance,
                member.client_id,
                member.client_host,
                member.metadata(self.protocol) if stable else b"",
                member.assignment if stable else b"",
            )
            for member in self.members.values()
        )
        protocol = self.protocol if stable else ""
        return GroupDescription(self.name, GroupError.NONE, self.state.value, self.protocol_type, protocol, members)

    # Changes.

    def add(self, member: Member) -> None:
        assert member.member_id not in self.members
        self.members[member.member_id] = member
        self.size += member.size
        self._count(member.protocols, 1)
        if member.instance is not None:
            self.instances[member.instance] = member.member_id
        if not self.leader:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member:
        member = self.members.pop(member_id)
        self.size -= member.size
        self._count(member.protocols, -1)
        assert member.join_ticket is member.sync_ticket is None, "nobody is sent away without an answer"
        self.unsynced.pop(member_id, None)
        if member.instance is not None:
            del self.instances[member.instance]
        if self.leader == member_id:
            self.leader = next(iter(self.members), "")
        return member

    def update(self, member: Member, request: JoinRequest) -> None:
        """The member joins again, maybe with other protocols or timeouts."""
        self.size -= member.size
        self._count(member.protocols, -1)
        member.protocols = request.protocols
        member.client_id, member.client_host = request.client_id, request.client_host
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.size += member.size
        self._count(member.protocols, 1)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member came back under a new id and keeps its place."""
        assert member.instance is not None
        del self.members[member.member_id]
        if member.member_id in self.unsynced:
            self.unsynced[member_id] = self.unsynced.pop(member.member_id)
        if self.leader == member.member_id:
            self.leader = member_id
        member.member_id = member_id
        self.members[member_id] = member
        self.instances[member.instance] = member_id

    def open_join(self, member: Member, ticket: int) -> int | None:
        """The member waits under this ticket; answers the older one that it takes the place of."""
        older = member.join_ticket
        member.join_ticket = ticket
        self.waiting += older is None
        return older

    def close_join(self, member: Member) -> int | None:
        ticket = member.join_ticket
        member.join_ticket = None
        self.waiting -= ticket is not None
        return ticket

    def restore(self, record: GroupRecord, raw: bytes) -> None:
        self.generation, self.protocol_type, self.protocol = record.generation, record.protocol_type, record.protocol
        self.empty_since, self.record = record.empty_since, raw
        for stored in record.members:
            self.add(member_from(stored))
        self.leader = record.leader

    def make_record(self, assigned: bool) -> bytes:
        self.record = encode(
            GroupRecord(
                self.generation,
                self.protocol_type,
                self.protocol,
                self.leader,
                assigned,
                self.empty_since,
                [member.record() for member in self.members.values()],
            )
        )
        return self.record

    def _count(self, protocols: Protocols, change: int) -> None:
        for name, _ in protocols:
            self.supporters[name] += change
            if self.supporters[name] == 0:
                del self.supporters[name]
