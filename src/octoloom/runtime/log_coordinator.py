"""What one member of a consumer group asks, put into Kafka's words and back: the coordinator's part, and the brokers'.

Each question is asked once. Whichever broker coordinates now is found when it is not known. Codes that the group itself
answers come back as they are; any other raises what it stands for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

from kio.schema.find_coordinator.v2.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v2.response import FindCoordinatorResponse
from kio.schema.heartbeat.v3.request import HeartbeatRequest
from kio.schema.heartbeat.v3.response import HeartbeatResponse
from kio.schema.join_group.v5.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.join_group.v5.response import JoinGroupResponse
from kio.schema.leave_group.v3.request import LeaveGroupRequest, MemberIdentity
from kio.schema.leave_group.v3.response import LeaveGroupResponse
from kio.schema.offset_commit.v7.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_commit.v7.response import OffsetCommitResponse
from kio.schema.offset_fetch.v5.request import OffsetFetchRequest, OffsetFetchRequestTopic
from kio.schema.offset_fetch.v5.response import OffsetFetchResponse
from kio.schema.sync_group.v3.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.sync_group.v3.response import SyncGroupResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64
from kio.static.protocol import RequestPayload

from octoloom.core import consumer_member_messages as say
from octoloom.core.consumer_assignment import STRATEGIES
from octoloom.core.consumer_messages import GroupError
from octoloom.core.errors import ProtocolError
from octoloom.runtime import log_questions
from octoloom.runtime.log_errors import error_of
from octoloom.runtime.log_questions import Response
from octoloom.wire.kafka.client_messages import TopicPartition, by_topic
from octoloom.wire.kafka.consumer_protocol import (
    PROTOCOL_TYPE,
    encode_assignment,
    encode_subscription,
    parse_assignment,
    parse_subscription,
)
from octoloom.wire.kafka.errors import ErrorCode

if TYPE_CHECKING:
    from octoloom.runtime.log_client import LogClient

ASK_S = 10.0
"""How long a coordinator may take over what it can answer at once."""
_GROUP = i8(0)
_OF_GROUPS = frozenset(GroupError) - {GroupError.UNKNOWN_TOPIC_OR_PARTITION}


class Coordinator:
    _lanes = count(1)

    def __init__(
        self, client: LogClient, group: str, topics: Iterable[str], session_ms: int, rebalance_ms: int
    ) -> None:
        self._client, self._group, self._topics = client, GroupId(group), tuple(topics)
        self._session_ms, self._rebalance_ms = session_ms, rebalance_ms
        self._lane = f"member-{next(self._lanes)}"
        self._address: str | None = None

    async def ask(self, request: say.Request) -> say.Reply:
        match request:
            case say.Join():
                return await self._join(request)
            case say.Sync():
                return await self._sync(request)
            case say.Beat():
                return await self._beat(request)
            case say.Commit():
                return await self._commit(request)
            case say.FetchCommitted():
                return await self._fetch(request.places)
            case say.Leave():
                return await self._leave(request)
            case say.Count():
                found = (await self._client.metadata(list(request.topics))).topics
                return say.Counted(
                    {name: len(found[name].partitions) if name in found else 0 for name in request.topics}
                )
            case say.Locate():
                return say.Located(await self._client.bounds(request.places))

    def reconnect(self) -> None:
        """Another broker may coordinate by now, or this one does not answer."""
        self._address = None
        self._client.cluster.hang_up(self._lane)

    # In and out.

    async def _join(self, request: say.Join) -> say.Joined:
        for topic in self._topics:
            await self._client.topic(topic)
        wish = encode_subscription(self._topics)
        joined = await self._put(
            JoinGroupRequest(
                group_id=self._group,
                session_timeout=_timeout(self._session_ms),
                rebalance_timeout=_timeout(self._rebalance_ms),
                member_id=request.member,
                protocol_type=PROTOCOL_TYPE,
                protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=wish) for name in STRATEGIES),
            ),
            JoinGroupResponse,
            self._rebalance_ms / 1000,
        )
        return say.Joined(
            self._code(joined.error_code),
            joined.member_id,
            int(joined.generation_id),
            joined.leader,
            joined.protocol_name,
            {member.member_id: _topics_in(member.metadata) for member in joined.members},
        )

    async def _sync(self, request: say.Sync) -> say.Synced:
        synced = await self._put(
            SyncGroupRequest(
                group_id=self._group,
                generation_id=i32(request.generation),
                member_id=request.member,
                assignments=tuple(
                    SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(places))
                    for member, places in request.assignment.items()
                ),
            ),
            SyncGroupResponse,
            self._rebalance_ms / 1000,
        )
        code = self._code(synced.error_code)
        return say.Synced(code, () if code else tuple(parse_assignment(synced.assignment)))

    async def _beat(self, request: say.Beat) -> say.Done:
        question = HeartbeatRequest(
            group_id=self._group, generation_id=i32(request.generation), member_id=request.member
        )
        return say.Done(self._code((await self._put(question, HeartbeatResponse)).error_code))

    async def _leave(self, request: say.Leave) -> say.Done:
        """The others need not wait until they miss this one."""
        question = LeaveGroupRequest(group_id=self._group, members=(MemberIdentity(member_id=request.member),))
        return say.Done(self._code((await self._put(question, LeaveGroupResponse)).error_code))

    # Offsets.

    async def _commit(self, request: say.Commit) -> say.Done:
        question = commit_request(self._group, request.offsets, request.member, request.generation)
        answer = await self._put(question, OffsetCommitResponse)
        codes = [
            self._code(part.error_code, f"{topic.name}-{part.partition_index}")
            for topic in answer.topics
            for part in topic.partitions
        ]
        return say.Done(next(filter(None, codes), 0))

    async def _fetch(self, places: Iterable[TopicPartition]) -> say.Fetched:
        topics = tuple(
            OffsetFetchRequestTopic(name=TopicName(topic), partition_indexes=tuple(map(i32, numbers)))
            for topic, numbers in by_topic(places).items()
        )
        answer = await self._put(OffsetFetchRequest(group_id=self._group, topics=topics), OffsetFetchResponse)
        codes = [
            self._code(part.error_code, f"{topic.name}-{part.partition_index}")
            for topic in answer.topics
            for part in topic.partitions
        ]
        return say.Fetched(self._code(answer.error_code) or next(filter(None, codes), 0), committed_in(answer))

    # Questions.

    async def _count(self, names: Iterable[str]) -> say.Counted:
        names = list(names)
        found = (await self._client.metadata(names)).topics
        return say.Counted({name: len(found[name].partitions) if name in found else 0 for name in names})

    async def _put(self, request: RequestPayload, response: type[Response], patience_s: float = 0.0) -> Response:
        try:
            async with asyncio.timeout(patience_s + ASK_S):
                if self._address is None:
                    self._address = await coordinator_of(self._client, self._group)
                connection = await self._client.cluster.connect(self._address, self._lane)
                return await log_questions.ask(connection, request, response, patience_s)
        except TimeoutError:
            raise error_of(ErrorCode.REQUEST_TIMED_OUT, self.name) from None

    def _code(self, code: int, subject: str | None = None) -> int:
        """A code that a group answers its members. Of any other kind, what it stands for is raised."""
        if code in _OF_GROUPS:
            return int(code)
        raise error_of(code, subject or self.name)

    @property
    def name(self) -> str:
        return f"the consumer group {self._group}"


def _topics_in(metadata: bytes) -> list[str]:
    """What a member wants. One that cannot say so gets nothing, and the others are not held up."""
    try:
        return parse_subscription(metadata)
    except ProtocolError:
        return []


def commit_request(
    group: str, offsets: Mapping[TopicPartition, int], member: str = "", generation: int = -1
) -> OffsetCommitRequest:
    """As a member, or as somebody who is in no group: that goes through only while the group has no members."""
    topics = [
        OffsetCommitRequestTopic(
            name=TopicName(topic),
            partitions=tuple(
                OffsetCommitRequestPartition(
                    partition_index=i32(number),
                    committed_offset=i64(offsets[topic, number]),
                    committed_metadata="",
                )
                for number in numbers
            ),
        )
        for topic, numbers in by_topic(offsets).items()
    ]
    return OffsetCommitRequest(
        group_id=GroupId(group),
        generation_id_or_member_epoch=i32(generation),
        member_id=member,
        topics=tuple(topics),
    )


def committed_in(answer: OffsetFetchResponse) -> dict[TopicPartition, int]:
    """Where a group is. -1 stands for a partition in which it has never been."""
    return {
        (str(topic.name), int(part.partition_index)): int(part.committed_offset)
        for topic in answer.topics
        for part in topic.partitions
        if part.committed_offset >= 0
    }


async def coordinator_of(client: LogClient, group: str) -> str:
    """The address of the broker that looks after a group."""
    request = FindCoordinatorRequest(key=group, key_type=_GROUP)
    found = await log_questions.ask_any(client, request, FindCoordinatorResponse)
    if found.error_code:
        raise error_of(found.error_code, f"the consumer group {group}", found.error_message)
    return f"{found.host}:{found.port}"


def _timeout(ms: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=ms))
