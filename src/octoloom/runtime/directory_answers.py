"""Answers that follow from the log's directory alone. A broker gives them, and so does the register, which is where a
client may begin to look: who is there (DescribeCluster), and who looks after a group (FindCoordinator).

A group belongs to one partition of the internal topic, by its name's checksum; the partition's leader coordinates it.
The number of partitions must never change, or groups would be looked for where they are not.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

from kio.static.protocol import RequestPayload

from octoloom.core.log_messages import MakeTopic, TopicPartition
from octoloom.core.topic_admin import OFFSETS_TOPIC
from octoloom.runtime.broker_directory import Directory
from octoloom.wire.kafka.apis import RequestHeader
from octoloom.wire.kafka.errors import ErrorCode

OFFSETS_PARTITIONS = 8
OFFSETS_CONFIG = {
    # Nothing here is too old: what is outdated is written anew and trimmed by the coordinator.
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(8 * 1024 * 1024),
    "max.message.bytes": str(32 * 1024 * 1024),
}
MAKE_OFFSETS_TOPIC = MakeTopic(0, OFFSETS_TOPIC, OFFSETS_PARTITIONS, config=OFFSETS_CONFIG)

_GROUP, _TRANSACTION = 0, 1
_MANY_FROM = 4


def place_of(group: str, partitions: int) -> TopicPartition:
    """The partition that a group belongs to."""
    return OFFSETS_TOPIC, crc32(group.encode()) % partitions


def needs_offsets_topic(directory: Directory, asked: RequestPayload) -> bool:
    """Whether a FindCoordinator can only be answered once the internal topic is made."""
    return OFFSETS_TOPIC not in directory.topics and getattr(asked, "key_type", _GROUP) == _GROUP


def coordinator_values(header: RequestHeader, asked: Any, directory: Directory) -> dict[str, Any]:
    """The answer to a FindCoordinator, for `compose`."""
    key_type = getattr(asked, "key_type", _GROUP)
    if header.version >= _MANY_FROM:
        return {"coordinators": [_coordinator(directory, key_type, key) for key in asked.coordinator_keys]}
    return _coordinator(directory, key_type, asked.key)


def _coordinator(directory: Directory, key_type: int, key: str) -> dict[str, Any]:
    partitions = len(directory.partitions(OFFSETS_TOPIC))
    leader = directory.leader(place_of(key, partitions)) if partitions else None
    nobody = {"key": key, "node_id": -1, "host": "", "port": -1}
    if key_type == _TRANSACTION:
        text = "there are no transactions here: leave transactional.id out"
        return {**nobody, "error_code": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "error_message": text}
    if key_type != _GROUP:
        return {**nobody, "error_code": ErrorCode.INVALID_REQUEST, "error_message": f"no key type {key_type}"}
    if leader is None:
        text = "the group's partition has no leader yet"
        return {**nobody, "error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE, "error_message": text}
    place = {"node_id": leader.id, "host": leader.host, "port": leader.port}
    return {"key": key, **place, "error_code": 0, "error_message": None}


def cluster_values(directory: Directory, cluster_id: str) -> dict[str, Any]:
    """The answer to a DescribeCluster, for `compose`."""
    brokers = [
        {"broker_id": broker.id, "host": broker.host, "port": broker.port} for broker in directory.brokers.values()
    ]
    controller = min((broker.id for broker in directory.brokers.values()), default=-1)
    return {"error_code": 0, "cluster_id": cluster_id, "controller_id": controller, "brokers": brokers}
