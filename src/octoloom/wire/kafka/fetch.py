"""Fetch: record batches from offsets on, each of a partition.

The records of a response are never in our hands: the kernel sends them from the log's files. So the encoder is told
only how many bytes there are for each partition, and answers the pieces of the response that stand around them:

    piece 0 │ records of the first result with a size │ piece 1 │ records of the next │ … │ last piece

There is always one more piece than there are results with a size, the first begins with the length of all of it, and
the last may be empty.

    version  4   isolation level
             5   log start offset, in the request (a follower's) and in the response
             7   sessions: an id and an epoch, topics to forget, an error for the whole response
             9   the leader epoch that the client knows
            11   the client's rack, a preferred replica in the response (never told)
            12   flexible; the epoch of the last record that a follower has
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from octoloom.wire.kafka.apis import SERVED, Api, RequestHeader
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.primitives import CLASSIC, COMPACT, I32, UNREADABLE, Form, malformed

_FLEXIBLE_FROM = SERVED[Api.FETCH].flexible_from
_START_FROM, _SESSION_FROM, _EPOCH_FROM, _RACK_FROM = 5, 7, 9, 11

_HEAD = struct.Struct(">iiiib")
_SESSION = struct.Struct(">ii")
_PART_4 = struct.Struct(">iqi")
_PART_5 = struct.Struct(">iqqi")
_PART_9 = struct.Struct(">iiqqi")
_PART_12 = struct.Struct(">iiqiqi")

_ANSWER_HEAD = struct.Struct(">ii")
_ANSWER_SESSION = struct.Struct(">ihi")
_NO_ABORTED = 0
_NO_PREFERENCE = -1
_RESULT_4 = struct.Struct(">ihqqii")
_RESULT_5 = struct.Struct(">ihqqqii")
_RESULT_11 = struct.Struct(">ihqqqiii")
_RESULT_12 = struct.Struct(">ihqqqBi")

_topic_of = itemgetter(0)


class FetchPart(NamedTuple):
    topic: str
    partition: int
    offset: int
    bytes_max: int
    leader_epoch: int = -1
    """The epoch that the client believes in, or -1."""
    last_epoch: int = -1
    """A follower's: the epoch of its last record, or -1."""
    log_start: int = -1
    """A follower's, or -1."""


class FetchRequest(NamedTuple):
    replica_id: int
    """-1 is a consumer."""
    max_wait_ms: int
    bytes_min: int
    bytes_max: int
    isolation: int
    session_id: int
    session_epoch: int
    parts: list[FetchPart]
    forgotten: list[tuple[str, int]]
    """What an incremental fetch takes out of its session."""
    rack: str


class FetchResult(NamedTuple):
    topic: str
    partition: int
    error: int = ErrorCode.NONE
    high: int = -1
    """There are no transactions, so this is the last stable offset too."""
    log_start: int = -1
    size: int = 0
    """How many bytes of records there are."""


def parse_fetch(header: RequestHeader, frame: memoryview) -> FetchRequest:
    """The request whose body is in this frame."""
    version = header.version
    form = COMPACT if version >= _FLEXIBLE_FROM else CLASSIC
    session_id, session_epoch, rack = 0, -1, ""
    forgotten: list[tuple[str, int]] = []
    try:
        replica_id, max_wait_ms, bytes_min, bytes_max, isolation = _HEAD.unpack_from(frame, header.body_at)
        at = header.body_at + _HEAD.size
        if version >= _SESSION_FROM:
            session_id, session_epoch = _SESSION.unpack_from(frame, at)
            at += _SESSION.size
        parts, at = _parse_parts(version, form, frame, at)
        if version >= _SESSION_FROM:
            forgotten, at = _parse_forgotten(form, frame, at)
        if version >= _RACK_FROM:
            rack, at = form.string(frame, at)
        form.skip_tags(frame, at)
    except UNREADABLE as error:
        raise malformed(f"not a Fetch request: {error}") from error
    return FetchRequest(
        replica_id,
        max_wait_ms,
        bytes_min,
        bytes_max,
        isolation,
        session_id,
        session_epoch,
        parts,
        forgotten,
        rack,
    )


def _parse_parts(version: int, form: Form, frame: memoryview, at: int) -> tuple[list[FetchPart], int]:
    parts: list[FetchPart] = []
    topics, at = form.count(frame, at)
    for _ in range(topics):
        topic, at = form.string(frame, at)
        partitions, at = form.count(frame, at)
        for _ in range(partitions):
            part, at = _parse_part(version, topic, frame, at)
            at = form.skip_tags(frame, at)
            parts.append(part)
        at = form.skip_tags(frame, at)
    return parts, at


def _parse_part(version: int, topic: str, frame: memoryview, at: int) -> tuple[FetchPart, int]:
    leader_epoch = last_epoch = log_start = -1
    if version >= _FLEXIBLE_FROM:
        partition, leader_epoch, offset, last_epoch, log_start, bytes_max = _PART_12.unpack_from(frame, at)
        at += _PART_12.size
    elif version >= _EPOCH_FROM:
        partition, leader_epoch, offset, log_start, bytes_max = _PART_9.unpack_from(frame, at)
        at += _PART_9.size
    elif version >= _START_FROM:
        partition, offset, log_start, bytes_max = _PART_5.unpack_from(frame, at)
        at += _PART_5.size
    else:
        partition, offset, bytes_max = _PART_4.unpack_from(frame, at)
        at += _PART_4.size
    return FetchPart(topic, partition, offset, bytes_max, leader_epoch, last_epoch, log_start), at


def _parse_forgotten(form: Form, frame: memoryview, at: int) -> tuple[list[tuple[str, int]], int]:
    forgotten: list[tuple[str, int]] = []
    topics, at = form.count(frame, at)
    for _ in range(topics):
        topic, at = form.string(frame, at)
        partitions, at = form.count(frame, at)
        for _ in range(partitions):
            forgotten.append((topic, I32.unpack_from(frame, at)[0]))
            at += I32.size
        at = form.skip_tags(frame, at)
    return forgotten, at


def encode_fetch(
    header: RequestHeader,
    results: Sequence[FetchResult],
    *,
    throttle_ms: int = 0,
    error: int = ErrorCode.NONE,
    session_id: int = 0,
) -> list[bytes]:
    """The pieces around the records, as the module says. Results of one topic stand next to each other."""
    version = header.version
    form = COMPACT if version >= _FLEXIBLE_FROM else CLASSIC
    if version >= _SESSION_FROM:
        answer = form.no_tags + _ANSWER_SESSION.pack(throttle_ms, error, session_id)
    else:
        answer = form.no_tags + I32.pack(throttle_ms)
    topics = [(topic, list(of_topic)) for topic, of_topic in groupby(results, _topic_of)]
    piece = [answer, form.write_long(len(topics))]
    pieces: list[bytes] = []
    records_size = 0
    for topic, of_topic in topics:
        piece += (form.write_name(topic), form.write_long(len(of_topic)))
        for result in of_topic:
            piece.append(_encode_result(version, result))
            if result.size > 0:
                pieces.append(b"".join(piece))
                piece = []
                records_size += result.size
            piece.append(form.no_tags)
        piece.append(form.no_tags)
    piece.append(form.no_tags)
    pieces.append(b"".join(piece))
    size = sum(map(len, pieces)) + records_size
    pieces[0] = _ANSWER_HEAD.pack(size + 4, header.correlation) + pieces[0]
    return pieces


def _encode_result(version: int, result: FetchResult) -> bytes:
    """One partition, up to and with the size of its records."""
    _, partition, error, high, log_start, size = result
    if version >= _FLEXIBLE_FROM:
        head = _RESULT_12.pack(partition, error, high, high, log_start, _NO_ABORTED + 1, _NO_PREFERENCE)
        return head + COMPACT.write_long(size)
    if version >= _RACK_FROM:
        return _RESULT_11.pack(partition, error, high, high, log_start, _NO_ABORTED, _NO_PREFERENCE, size)
    if version >= _START_FROM:
        return _RESULT_5.pack(partition, error, high, high, log_start, _NO_ABORTED, size)
    return _RESULT_4.pack(partition, error, high, high, _NO_ABORTED, size)
