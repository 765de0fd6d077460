"""Produce: record sets, each for a partition.

A request is read where it lies: the record sets stay views on the frame. The response names every partition of the
request, in the request's order:

    version  3   transactional id in the request
             5   log start offset
             8   the records at fault (never told: a broker does not open batches) and a text
             9   flexible
            10   who leads instead, as tagged fields, with the addresses of those leaders

Most requests and responses name one partition, without a transaction. Both have a short way here that costs half of
the general one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from octoloom.wire.kafka.apis import SERVED, Api, RequestHeader
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.primitives import (
    CLASSIC,
    COMPACT,
    I32,
    NAME_BYTES_MAX,
    NAMES_MAX,
    UNREADABLE,
    Form,
    malformed,
    name_of,
    read_uvarint,
    write_uvarint,
)

_FLEXIBLE_FROM = SERVED[Api.PRODUCE].flexible_from
_ACKS_TIMEOUT = struct.Struct(">hi")
_NULL_ACKS_TIMEOUT_TOPICS = struct.Struct(">hhii")
_NULL_ACKS_TIMEOUT_TOPICS_COMPACT = struct.Struct(">BhiB")
_PARTITIONS_PARTITION_SIZE = struct.Struct(">iii")
_PARTITIONS_PARTITION_COMPACT = struct.Struct(">Bi")
_HEAD = struct.Struct(">ii")
_RESULT = struct.Struct(">ihqq")
_RESULT_WITH_START = struct.Struct(">ihqqq")
_LEADER = struct.Struct(">BBBiiB")
_NO_THROTTLE = I32.pack(0)
_NO_APPEND_TIME = -1

_START_FROM, _MESSAGE_FROM, _LEADER_FROM = 5, 8, 10

_topic_of = itemgetter(0)
_one_frames: dict[tuple[int, str], tuple[bytes, bytes]] = {}


PARTS_MAX = 65_536
"""Partitions in one request. An empty record set is six bytes, so that the size of a frame is no bound for them."""

ProducePart = tuple[str, int, memoryview]
"""(topic, partition, the record set). The record set is empty where the request says null."""


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    parts: list[ProducePart]


class ProduceResult(NamedTuple):
    topic: str
    partition: int
    error: int = ErrorCode.NONE
    base_offset: int = -1
    log_start: int = -1
    message: str | None = None
    leader: tuple[int, int] | None = None
    """(broker, leader epoch) of who leads, for a client that came to the wrong one."""


Endpoint = tuple[int, str, int]
"""(broker, host, port)"""


def parse_produce(header: RequestHeader, frame: memoryview) -> ProduceRequest:
    """The request whose body is in this frame."""
    is_compact = header.version >= _FLEXIBLE_FROM
    try:
        request = (_parse_one_compact if is_compact else _parse_one_classic)(frame, header.body_at)
    except UNREADABLE:
        request = None
    if request is not None:
        return request
    try:
        return _parse_all(COMPACT if is_compact else CLASSIC, frame, header.body_at)
    except UNREADABLE as error:
        raise malformed(f"not a Produce request: {error}") from error


def _parse_all(form: Form, frame: memoryview, at: int) -> ProduceRequest:
    parts: list[ProducePart] = []
    transactional_id, at = form.nullable_string(frame, at)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, at)
    topics, at = form.count(frame, at + _ACKS_TIMEOUT.size)
    for _ in range(topics):
        topic, at = form.string(frame, at)
        partitions, at = form.count(frame, at)
        if len(parts) + partitions > PARTS_MAX:
            raise malformed(f"a Produce request for more than {PARTS_MAX} partitions")
        for _ in range(partitions):
            partition = I32.unpack_from(frame, at)[0]
            records, at = form.view(frame, at + I32.size)
            at = form.skip_tags(frame, at)
            parts.append((topic, partition, frame[:0] if records is None else records))
        at = form.skip_tags(frame, at)
    form.skip_tags(frame, at)
    return ProduceRequest(transactional_id, acks, timeout_ms, parts)


def _parse_one_classic(frame: memoryview, at: int) -> ProduceRequest | None:
    """The request, if it has one partition of one topic and all its bytes; anything else is left to `_parse_all`."""
    null, acks, timeout_ms, topics = _NULL_ACKS_TIMEOUT_TOPICS.unpack_from(frame, at)
    at += 14
    if null != -1 or topics != 1 or frame[at - 2] != 0:
        return None
    end = at + frame[at - 1]
    topic = frame[at:end]
    partitions, partition, size = _PARTITIONS_PARTITION_SIZE.unpack_from(frame, end)
    at = end + 12
    end = at + size
    if partitions != 1 or size < 0 or end > len(frame):
        return None
    return tuple.__new__(ProduceRequest, (None, acks, timeout_ms, [(name_of(bytes(topic)), partition, frame[at:end])]))


def _parse_one_compact(frame: memoryview, at: int) -> ProduceRequest | None:
    null, acks, timeout_ms, topics = _NULL_ACKS_TIMEOUT_TOPICS_COMPACT.unpack_from(frame, at)
    size = frame[at + 8]
    if null != 0 or topics != 2 or not 1 <= size < 0x80:
        return None
    at += 9
    end = at + size - 1
    topic = frame[at:end]
    partitions, partition = _PARTITIONS_PARTITION_COMPACT.unpack_from(frame, end)
    size, at = read_uvarint(frame, end + 5)
    end = at + size - 1
    # Three structures end here, and none may have tagged fields.
    if partitions != 2 or size < 1 or bytes(frame[end : end + 3]) != b"\x00\x00\x00":
        return None
    return tuple.__new__(ProduceRequest, (None, acks, timeout_ms, [(name_of(bytes(topic)), partition, frame[at:end])]))


def encode_produce(
    header: RequestHeader, results: Sequence[ProduceResult], endpoints: Sequence[Endpoint] = ()
) -> bytes:
    """The whole response, its length in front. Results of one topic stand next to each other."""
    version = header.version
    if len(results) == 1 and version >= _START_FROM and not endpoints:
        topic, partition, error, base_offset, log_start, message, leader = results[0]
        if message is None and leader is None:
            before, after = _one_frame(version, topic)
            result = _RESULT_WITH_START.pack(partition, error, base_offset, _NO_APPEND_TIME, log_start)
            size = len(before) + len(result) + len(after)
            return b"".join((_HEAD.pack(size + 4, header.correlation), before, result, after))
    form = COMPACT if version >= _FLEXIBLE_FROM else CLASSIC
    body = _encode_topics(version, form, results) + _NO_THROTTLE + _endpoints(version, form, endpoints)
    return _HEAD.pack(len(body) + 4, header.correlation) + body


def _one_frame(version: int, topic: str) -> tuple[bytes, bytes]:
    """What stands before and after the one result of a topic that went well."""
    frame = _one_frames.get((version, topic))
    if frame is None:
        form = COMPACT if version >= _FLEXIBLE_FROM else CLASSIC
        before = form.no_tags + form.write_long(1) + form.write_string(topic) + form.write_long(1)
        no_errors = form.write_long(0) + form.write_string(None) if version >= _MESSAGE_FROM else b""
        frame = before, no_errors + form.no_tags * 2 + _NO_THROTTLE + form.no_tags
        if len(topic) <= NAME_BYTES_MAX:
            if len(_one_frames) >= NAMES_MAX:
                _one_frames.clear()
            _one_frames[version, topic] = frame
    return frame


def _encode_topics(version: int, form: Form, results: Sequence[ProduceResult]) -> bytes:
    """The response from the end of its correlation id up to the throttle time."""
    topics: list[bytes] = []
    for topic, of_topic in groupby(results, _topic_of):
        written = [_encode_result(version, form, result) for result in of_topic]
        topics.append(b"".join((form.write_name(topic), form.write_long(len(written)), *written, form.no_tags)))
    return b"".join((form.no_tags, form.write_long(len(topics)), *topics))


def _encode_result(version: int, form: Form, result: ProduceResult) -> bytes:
    _, partition, error, base_offset, log_start, message, leader = result
    if version < _START_FROM:
        return _RESULT.pack(partition, error, base_offset, _NO_APPEND_TIME)
    written = _RESULT_WITH_START.pack(partition, error, base_offset, _NO_APPEND_TIME, log_start)
    if version >= _MESSAGE_FROM:
        written += form.write_long(0) + form.write_string(message)
    if leader is None or version < _LEADER_FROM:
        return written + form.no_tags
    # One tagged field, number 0, of nine bytes: a structure with no tagged fields of its own.
    return written + _LEADER.pack(1, 0, 9, *leader, 0)


def _endpoints(version: int, form: Form, endpoints: Sequence[Endpoint]) -> bytes:
    if not endpoints or version < _LEADER_FROM:
        return form.no_tags
    written = [form.write_long(len(endpoints))]
    for broker, host, port in endpoints:
        # A null rack and no tagged fields close each of them.
        written += (I32.pack(broker), form.write_string(host), I32.pack(port), form.write_string(None), form.no_tags)
    field = b"".join(written)
    return b"\x01\x00" + write_uvarint(len(field)) + field
