"""Metadata: who the brokers are and who leads what.

Every client asks this again and again, and mostly the same. The response is built from plain values and depends on
the request only by its version, its body and its correlation id, so its bytes can be kept and patched
(`with_correlation`).

    version  1   controller, racks, internal topics; asking for null is asking for all (an empty list before)
             2   cluster id
             3   throttle time
             4   whether the client wants its topics made
             5   offline replicas
             7   leader epochs
             8   what the client may do: asked for here, never told (-2147483648); the cluster's goes with 11
             9   flexible
            10   topic ids; 12 allows to ask by them alone
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from octoloom.wire.kafka.apis import SERVED, Api, RequestHeader
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.primitives import CLASSIC, COMPACT, I16, I32, UNREADABLE, Form, malformed

NO_TOPIC_ID = bytes(16)
_TOPIC_ID_SIZE = len(NO_TOPIC_ID)

_FLEXIBLE_FROM = SERVED[Api.METADATA].flexible_from
_CONTROLLER_FROM, _CLUSTER_FROM, _THROTTLE_FROM, _CREATE_FROM, _OFFLINE_FROM = 1, 2, 3, 4, 5
_EPOCH_FROM, _RIGHTS_FROM, _ID_FROM, _CLUSTER_RIGHTS_UNTIL, _NO_NAME_FROM = 7, 8, 10, 10, 12

_HEAD = struct.Struct(">ii")
_PARTITION = struct.Struct(">hii")
_RIGHTS_NOT_TOLD = I32.pack(-(2**31))


class MetadataRequest(NamedTuple):
    names: tuple[str, ...] | None
    """None is all topics."""
    ids: tuple[bytes, ...]
    """The topics that are asked for by id alone."""
    may_create: bool


class BrokerEntry(NamedTuple):
    broker: int
    host: str
    port: int
    rack: str | None = None


class PartitionEntry(NamedTuple):
    partition: int
    leader: int
    """-1 if there is none, with an error that says so."""
    leader_epoch: int
    replicas: Sequence[int]
    in_sync: Sequence[int]
    offline: Sequence[int] = ()
    error: int = ErrorCode.NONE


class TopicEntry(NamedTuple):
    name: str | None
    """None only where an id was asked for that nobody knows."""
    partitions: Sequence[PartitionEntry] = ()
    error: int = ErrorCode.NONE
    topic_id: bytes = NO_TOPIC_ID
    is_internal: bool = False


def parse_metadata(header: RequestHeader, frame: memoryview) -> MetadataRequest:
    """The request whose body is in this frame."""
    version = header.version
    form = COMPACT if version >= _FLEXIBLE_FROM else CLASSIC
    names: list[str] = []
    ids: list[bytes] = []
    may_create = True
    try:
        count, at = form.nullable_count(frame, header.body_at)
        for _ in range(count or 0):
            topic_id, name, at = _parse_topic(version, form, frame, at)
            if name is None:
                ids.append(topic_id)
            else:
                names.append(name)
        if version >= _CREATE_FROM:
            may_create = frame[at] != 0
            at += 1
        if version >= _RIGHTS_FROM:
            at += 2 if version <= _CLUSTER_RIGHTS_UNTIL else 1
            if at > len(frame):
                raise malformed("a Metadata request ends early")
        form.skip_tags(frame, at)
    except UNREADABLE as error:
        raise malformed(f"not a Metadata request: {error}") from error
    is_all = count is None if version >= _CONTROLLER_FROM else count == 0
    if count is None and not is_all:
        raise malformed("the topics of a Metadata request are null")
    return MetadataRequest(None if is_all else tuple(names), tuple(ids), may_create)


def _parse_topic(version: int, form: Form, frame: memoryview, at: int) -> tuple[bytes, str | None, int]:
    topic_id = NO_TOPIC_ID
    if version < _ID_FROM:
        name, at = form.string(frame, at)
        return topic_id, name, form.skip_tags(frame, at)
    topic_id = bytes(frame[at : at + _TOPIC_ID_SIZE])
    nullable_name, at = form.nullable_string(frame, at + _TOPIC_ID_SIZE)
    return topic_id, nullable_name, form.skip_tags(frame, at)


def encode_metadata(
    header: RequestHeader,
    brokers: Sequence[BrokerEntry],
    topics: Sequence[TopicEntry],
    *,
    cluster_id: str | None,
    controller: int = -1,
) -> bytes:
    """The whole response, its length in front."""
    version = header.version
    form = COMPACT if version >= _FLEXIBLE_FROM else CLASSIC
    pieces = [form.no_tags]
    if version >= _THROTTLE_FROM:
        pieces.append(I32.pack(0))
    pieces.append(form.write_long(len(brokers)))
    for broker in brokers:
        pieces += (I32.pack(broker.broker), form.write_string(broker.host), I32.pack(broker.port))
        if version >= _CONTROLLER_FROM:
            pieces.append(form.write_string(broker.rack))
        pieces.append(form.no_tags)
    if version >= _CLUSTER_FROM:
        pieces.append(form.write_string(cluster_id))
    if version >= _CONTROLLER_FROM:
        pieces.append(I32.pack(controller))
    pieces.append(form.write_long(len(topics)))
    for topic in topics:
        _encode_topic(pieces, version, form, topic)
    if _RIGHTS_FROM <= version <= _CLUSTER_RIGHTS_UNTIL:
        pieces.append(_RIGHTS_NOT_TOLD)
    pieces.append(form.no_tags)
    body = b"".join(pieces)
    return _HEAD.pack(len(body) + 4, header.correlation) + body


def _encode_topic(pieces: list[bytes], version: int, form: Form, topic: TopicEntry) -> None:
    name = topic.name if version >= _NO_NAME_FROM else topic.name or ""
    pieces += (I16.pack(topic.error), form.write_string(name))
    if version >= _ID_FROM:
        pieces.append(topic.topic_id)
    if version >= _CONTROLLER_FROM:
        pieces.append(b"\x01" if topic.is_internal else b"\x00")
    pieces.append(form.write_long(len(topic.partitions)))
    for entry in topic.partitions:
        pieces.append(_PARTITION.pack(entry.error, entry.partition, entry.leader))
        if version >= _EPOCH_FROM:
            pieces.append(I32.pack(entry.leader_epoch))
        pieces += (_brokers(form, entry.replicas), _brokers(form, entry.in_sync))
        if version >= _OFFLINE_FROM:
            pieces.append(_brokers(form, entry.offline))
        pieces.append(form.no_tags)
    if version >= _RIGHTS_FROM:
        pieces.append(_RIGHTS_NOT_TOLD)
    pieces.append(form.no_tags)


def _brokers(form: Form, brokers: Sequence[int]) -> bytes:
    return form.write_long(len(brokers)) + struct.pack(f">{len(brokers)}i", *brokers)
