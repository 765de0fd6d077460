"""Kafka's group requests in the coordinator's words, and its answers as the values of Kafka's responses.

What a version lacks is filled in here: JoinGroup 0 has no rebalance timeout, LeaveGroup before 3 names one member,
OffsetFetch before 8 one group. What a version's response lacks is left out by `compose`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from octoloom.core import consumer_messages as say
from octoloom.core.consumer_messages import GroupError
from octoloom.wire.kafka.apis import RequestHeader

_MEMBER_ID_FROM, _SKIP_FROM, _NULLABLE_FROM = 4, 9, 7
_LEAVERS_FROM = 3
_GROUPS_FROM, _GROUP_ERROR_FROM = 8, 2

Values = dict[str, Any]


def join_request(header: RequestHeader, asked: Any, fresh_id: str, client_host: str) -> say.JoinRequest:
    session_ms = _ms(asked.session_timeout)
    rebalance = getattr(asked, "rebalance_timeout", None)
    return say.JoinRequest(
        group=asked.group_id,
        member=asked.member_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms if rebalance is None else _ms(rebalance),
        protocol_type=asked.protocol_type,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in asked.protocols),
        fresh_id=fresh_id,
        instance=getattr(asked, "group_instance_id", None),
        client_id=header.client_id or "",
        client_host=client_host,
        requires_member_id=header.version >= _MEMBER_ID_FROM,
        may_skip_assignment=header.version >= _SKIP_FROM,
    )


def join_values(header: RequestHeader, answer: say.JoinAnswer) -> Values:
    protocol = answer.protocol
    if protocol is None and header.version < _NULLABLE_FROM:
        protocol = ""
    return {
        "error_code": answer.error,
        "generation_id": answer.generation,
        "protocol_type": answer.protocol_type,
        "protocol_name": protocol,
        "leader": answer.leader,
        "skip_assignment": answer.skip_assignment,
        "member_id": answer.member,
        "members": [
            {"member_id": member.member, "group_instance_id": member.instance, "metadata": member.metadata}
            for member in answer.members
        ],
    }


def sync_request(asked: Any) -> say.SyncRequest:
    return say.SyncRequest(
        group=asked.group_id,
        member=asked.member_id,
        generation=asked.generation_id,
        assignments=tuple((each.member_id, bytes(each.assignment)) for each in asked.assignments),
        instance=getattr(asked, "group_instance_id", None),
        protocol_type=getattr(asked, "protocol_type", None),
        protocol=getattr(asked, "protocol_name", None),
    )


def sync_values(answer: say.SyncAnswer) -> Values:
    return {
        "error_code": answer.error,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol,
        "assignment": answer.assignment,
    }


def heartbeat_request(asked: Any) -> say.HeartbeatRequest:
    instance = getattr(asked, "group_instance_id", None)
    return say.HeartbeatRequest(asked.group_id, asked.member_id, asked.generation_id, instance)


def leave_request(header: RequestHeader, asked: Any) -> say.LeaveRequest:
    if header.version < _LEAVERS_FROM:
        return say.LeaveRequest(asked.group_id, (say.LeavingMember(asked.member_id),))
    members = tuple(say.LeavingMember(member.member_id, member.group_instance_id) for member in asked.members)
    return say.LeaveRequest(asked.group_id, members)


def leave_values(header: RequestHeader, answer: say.LeaveAnswer) -> Values:
    error = answer.error
    if header.version < _LEAVERS_FROM and not error and answer.members:
        error = answer.members[0][1]
    members = [
        {"member_id": leaving.member, "group_instance_id": leaving.instance, "error_code": each}
        for leaving, each in answer.members
    ]
    return {"error_code": error, "members": members}


def commit_request(asked: Any, offsets: Iterable[say.OffsetToCommit]) -> say.CommitRequest:
    return say.CommitRequest(
        group=asked.group_id,
        offsets=tuple(offsets),
        member=asked.member_id,
        generation=asked.generation_id_or_member_epoch,
        instance=getattr(asked, "group_instance_id", None),
    )


def offsets_of(asked: Any) -> list[say.OffsetToCommit]:
    return [
        say.OffsetToCommit(
            topic.name,
            part.partition_index,
            part.committed_offset,
            getattr(part, "committed_leader_epoch", -1),
            part.committed_metadata or "",
        )
        for topic in asked.topics
        for part in topic.partitions
    ]


def commit_values(results: Iterable[tuple[str, int, int]]) -> Values:
    topics: dict[str, list[Values]] = {}
    for topic, partition, error in results:
        topics.setdefault(topic, []).append({"partition_index": partition, "error_code": error})
    return {"topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]}


def offset_queries(header: RequestHeader, asked: Any) -> list[say.OffsetsQuery]:
    groups = asked.groups if header.version >= _GROUPS_FROM else [asked]
    return [say.OffsetsQuery(group.group_id, _places(group.topics)) for group in groups]


def _places(topics: Any) -> tuple[say.TopicPartition, ...] | None:
    if topics is None:
        return None
    return tuple((topic.name, number) for topic in topics for number in topic.partition_indexes)


def offsets_values(
    header: RequestHeader, queries: Sequence[say.OffsetsQuery], groups: Sequence[say.FetchedGroup]
) -> Values:
    if header.version >= _GROUPS_FROM:
        return {"groups": [_fetched(group, group.offsets) for group in groups]}
    [query], [group] = queries, groups
    offsets = group.offsets
    if group.error and header.version < _GROUP_ERROR_FROM:
        # Version 1 has no place for the group's error but beside each partition.
        offsets = tuple(say.FetchedOffset(*place) for place in query.partitions or ())
    return _fetched(group, offsets)


def _fetched(group: say.FetchedGroup, offsets: Iterable[say.FetchedOffset]) -> Values:
    topics: dict[str, list[Values]] = {}
    for offset in offsets:
        value = {
            "partition_index": offset.partition,
            "committed_offset": offset.offset,
            "committed_leader_epoch": offset.leader_epoch,
            "metadata": offset.metadata,
            "error_code": group.error,
        }
        topics.setdefault(offset.topic, []).append(value)
    listed = [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]
    return {"group_id": group.group, "topics": listed, "error_code": group.error}


def description_values(group: say.GroupDescription) -> Values:
    # These versions show a group that does not exist as dead, and not as an error.
    error = GroupError.NONE if group.error is GroupError.GROUP_ID_NOT_FOUND else group.error
    return {
        "error_code": error,
        "group_id": group.group,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol,
        "members": [
            {
                "member_id": member.member,
                "group_instance_id": member.instance,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in group.members
        ],
    }


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
