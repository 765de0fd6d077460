"""Consumer groups from outside: who is in them, how far behind they are, and how to put them elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from kio.schema.describe_groups.v4.request import DescribeGroupsRequest
from kio.schema.describe_groups.v4.response import DescribedGroup, DescribeGroupsResponse
from kio.schema.list_groups.v4.request import ListGroupsRequest
from kio.schema.list_groups.v4.response import ListGroupsResponse
from kio.schema.offset_commit.v7.response import OffsetCommitResponse
from kio.schema.offset_fetch.v5.request import OffsetFetchRequest
from kio.schema.offset_fetch.v5.response import OffsetFetchResponse
from kio.schema.types import GroupId

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.runtime import log_questions
from octoloom.runtime.log_cluster import QUESTIONS, address_of
from octoloom.runtime.log_consumer import Start, resolve
from octoloom.runtime.log_coordinator import commit_request, committed_in, coordinator_of
from octoloom.runtime.log_errors import LogError, NotMember, UnknownGroup, error_of
from octoloom.wire.kafka.client_messages import LATEST, TopicPartition
from octoloom.wire.kafka.consumer_protocol import PROTOCOL_TYPE, parse_assignment
from octoloom.wire.kafka.errors import ErrorCode

if TYPE_CHECKING:
    from octoloom.runtime.log_client import LogClient

ENDS_MS = 2_000
_DEAD = "Dead"
"""What a coordinator says of a group that it has never heard of."""


class MemberStatus(msgspec.Struct, frozen=True):
    id: str
    client: str
    host: str


class GroupPartition(msgspec.Struct, frozen=True):
    """`committed` is None where the group has never been, `end` where nobody can tell right now."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    """Records that are not done."""
    member: str
    """The id of who reads it; empty if nobody does."""


class GroupStatus(msgspec.Struct, frozen=True):
    name: str
    state: str
    lag: int | None
    """Records that are not done, as far as anybody knows."""
    members: list[MemberStatus]
    partitions: list[GroupPartition]


async def describe_groups(client: LogClient, names: Sequence[str] | None = None) -> list[GroupStatus]:
    """What there is to know of these groups, or of all."""

    async def described(name: str) -> GroupStatus:
        return await client.patiently(lambda _: _describe(client, name), None)

    found = await list_groups(client) if names is None else list(dict.fromkeys(names))
    return [await described(name) for name in found]


async def reset_group(
    client: LogClient, name: str, start: Start, topics: Sequence[str] = ()
) -> dict[TopicPartition, int]:
    """Has a group without members go on there, in these topics or in all in which it has been. Returns the offsets."""
    try:
        [group] = await describe_groups(client, [name])
    except UnknownGroup:
        if not topics:
            raise
        group = GroupStatus(name, "Empty", None, [], [])
    if group.members:
        raise _has_members(name)
    places = [(part.topic, part.partition) for part in group.partitions if not topics or part.topic in topics]
    for topic in topics:
        places += [(topic, number) for number in (await client.topic(topic)).partitions]
    offsets = await resolve(client, dict.fromkeys(places, start))
    for place, (first, end) in (await client.bounds(offsets)).items():
        if not first <= offsets[place] <= end:
            text = f"{place[0]}-{place[1]} has the offsets {first} to {end}, and not {offsets[place]}"
            raise UsageError(f"{text}: choose one of them, or another topic")
    if offsets:
        await client.patiently(lambda _: _commit(client, name, offsets), None)
    return dict(sorted(offsets.items()))


async def _commit(client: LogClient, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """As nobody, which the coordinator refuses while there are members."""
    connection = await client.cluster.connect(await coordinator_of(client, name), QUESTIONS)
    answer = await log_questions.ask(connection, commit_request(name, offsets), OffsetCommitResponse)
    for topic in answer.topics:
        for part in topic.partitions:
            try:
                _check(part.error_code, name)
            except NotMember:
                raise _has_members(name) from None


def _has_members(name: str) -> UsageError:
    return UsageError(
        f"the consumer group {name} has members, which know better where they are: end them, then reset it "
        f"(`octoloom topic groups {name}` shows who they are)"
    )


async def list_groups(client: LogClient) -> list[str]:
    """The consumer groups that the brokers know. Each broker tells of those that it coordinates."""
    brokers = (await client.metadata([])).brokers.values()
    answers = await asyncio.gather(*(_list(client, address_of(broker)) for broker in brokers))
    return sorted({name for names in answers for name in names})


async def _list(client: LogClient, address: str) -> list[str]:
    try:
        connection = await client.cluster.connect(address, QUESTIONS)
        answer = await log_questions.ask(connection, ListGroupsRequest(), ListGroupsResponse)
    except LogError:
        # What it coordinated is looked after by another one by now, or soon.
        return []
    return [str(group.group_id) for group in answer.groups if group.protocol_type in (PROTOCOL_TYPE, "")]


async def _describe(client: LogClient, name: str) -> GroupStatus:
    connection = await client.cluster.connect(await coordinator_of(client, name), QUESTIONS)
    wish = DescribeGroupsRequest(groups=(GroupId(name),), include_authorized_operations=False)
    [told] = (await log_questions.ask(connection, wish, DescribeGroupsResponse)).groups
    _check(told.error_code, name)
    offsets = await log_questions.ask(
        connection, OffsetFetchRequest(group_id=GroupId(name), topics=None), OffsetFetchResponse
    )
    _check(offsets.error_code, name)
    committed = committed_in(offsets)
    if told.group_state == _DEAD and not committed:
        raise error_of(ErrorCode.GROUP_ID_NOT_FOUND, f"the consumer group {name}")
    readers = _readers(told)
    ends = await _ends(client, [*committed, *readers])
    members = [MemberStatus(each.member_id, each.client_id, each.client_host) for each in told.members]
    parts = [
        _partition(place, committed.get(place), end, readers.get(place, "")) for place, end in sorted(ends.items())
    ]
    lags = [part.lag for part in parts if part.lag is not None]
    return GroupStatus(name, told.group_state, sum(lags) if lags else None, members, parts)


def _partition(place: TopicPartition, committed: int | None, end: int | None, reader: str) -> GroupPartition:
    lag = max(end - committed, 0) if end is not None and committed is not None else None
    return GroupPartition(*place, committed, end, lag, reader)


def _readers(group: DescribedGroup) -> dict[TopicPartition, str]:
    """The member that reads a partition. What another kind of member was assigned says nothing here."""
    readers: dict[TopicPartition, str] = {}
    for member in group.members:
        try:
            readers |= dict.fromkeys(parse_assignment(member.member_assignment), member.member_id)
        except ProtocolError:
            continue
    return readers


async def _ends(client: LogClient, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
    async def end_of(place: TopicPartition) -> int | None:
        try:
            return (await client.list_offsets({place: LATEST}, ENDS_MS))[place]
        except LogError:
            # A topic that was deleted, or a leader that is away, is no reason to tell nothing of the others.
            return None

    wanted = list(dict.fromkeys(places))
    return dict(zip(wanted, await asyncio.gather(*map(end_of, wanted)), strict=True))


def _check(code: int, name: str) -> None:
    if code:
        raise error_of(code, f"the consumer group {name}")
