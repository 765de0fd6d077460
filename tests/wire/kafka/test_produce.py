"""Produce in every version, with kio as the client on the other side."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.errors import ProtocolError
from octoloom.wire.kafka import produce
from octoloom.wire.kafka.apis import Api, parse_header
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.primitives import NAME_BYTES_MAX, NAMES_MAX
from octoloom.wire.kafka.produce import PARTS_MAX, Endpoint, ProduceResult, encode_produce, parse_produce
from tests.wire.kafka.oracle import (
    few,
    header_for,
    int32s,
    int64s,
    milliseconds,
    names,
    parsed_header,
    read_response,
    requests,
    spoiled,
    versions_of,
)

every_version = pytest.mark.parametrize("version", versions_of(Api.PRODUCE))

results = st.lists(
    st.builds(
        ProduceResult,
        topic=st.sampled_from(["", "moves", "chat", "ü" * 80]),
        partition=int32s,
        error=st.sampled_from(ErrorCode),
        base_offset=int64s,
        log_start=int64s,
        message=st.none() | names,
        leader=st.none() | st.tuples(st.integers(0, 2**31 - 1), int32s),
    ),
    max_size=6,
).map(lambda unordered: sorted(unordered, key=lambda result: result.topic))
endpoints = st.lists(st.tuples(int32s, names, int32s), max_size=3)


def one_part(request: Any) -> Any:
    """Most requests name one partition: made of what may name many, or none."""
    schema = type(request)
    for topic in request.topic_data:
        for part in topic.partition_data:
            one = type(topic)(name=topic.name, partition_data=(part,))
            return schema(transactional_id=None, acks=request.acks, timeout=request.timeout, topic_data=(one,))
    return request


def check_request(request: Any) -> None:
    parsed = parse_produce(*parsed_header(request))
    assert (parsed.transactional_id, parsed.acks) == (request.transactional_id, request.acks)
    assert parsed.timeout_ms == milliseconds(request.timeout)
    assert [(topic, partition, bytes(records)) for topic, partition, records in parsed.parts] == [
        (topic.name, part.index, part.records or b"") for topic in request.topic_data for part in topic.partition_data
    ]


@every_version
@few
@given(data=st.data())
def test_requests(version: int, data: st.DataObject) -> None:
    request = data.draw(requests(Api.PRODUCE, version))
    check_request(request)
    check_request(one_part(request))


LIKE_A_PARTITION = "\0\0\0\1" + "\0" * 8 + "x" * 244
"""A name of 256 bytes: whoever takes 0, the low byte, for its length finds an empty record set."""


@every_version
def test_requests_that_are_nearly_the_usual_one(version: int) -> None:
    schema = import_module(f"kio.schema.produce.v{version}.request")
    names = ["", "moves", "x" * 126, "x" * 127, "x" * 128, "x" * 300, LIKE_A_PARTITION]
    for name, transactional_id, partitions, topics in product(names, [None, "", "t"], range(3), range(3)):
        parts = tuple(schema.PartitionProduceData(index=n, records=b"abc") for n in range(partitions))
        check_request(
            schema.ProduceRequest(
                transactional_id=transactional_id,
                acks=-1,
                timeout=timedelta(seconds=30),
                topic_data=(schema.TopicProduceData(name=name, partition_data=parts),) * topics,
            )
        )


@every_version
@few
@given(data=st.data())
def test_garbage_is_refused(version: int, data: st.DataObject) -> None:
    request = data.draw(requests(Api.PRODUCE, version))
    for whole in (request, one_part(request)):
        header, frame = parsed_header(whole)
        body = data.draw(spoiled(bytes(frame[header.body_at :])))
        try:
            parsed = parse_produce(header._replace(body_at=0), body)
        except ProtocolError:
            continue
        assert sum(len(records) for _, _, records in parsed.parts) <= len(body)


def test_records_stay_where_they_lie() -> None:
    request = bytearray(b"\x00\x00\x00\x07\x00\x00\x00\x01\xff\xff" + ONE_PART)
    frame = memoryview(request)
    (part,) = parse_produce(parse_header(frame), frame).parts
    assert part[:2] == ("moves", 3)
    request[-1] = ord("!")
    assert bytes(part[2]) == b"abcdef!"


ONE_PART = b"\xff\xff\xff\xff\x00\x00\x75\x30" + b"\x00\x00\x00\x01\x00\x05moves" + b"\x00\x00\x00\x01\x00\x00\x00\x03"
ONE_PART += b"\x00\x00\x00\x07abcdefg"


def test_every_cut_of_a_request_is_refused() -> None:
    header = header_for(Api.PRODUCE, 7)
    for end in range(len(ONE_PART)):
        with pytest.raises(ProtocolError, match="malformed"):
            parse_produce(header, memoryview(ONE_PART)[:end])
    assert len(parse_produce(header, memoryview(ONE_PART)).parts) == 1


@pytest.mark.parametrize("length", [b"\xff\xff", b"\x80\x00"])
def test_a_topic_of_negative_length(length: bytes) -> None:
    spoiled_length = ONE_PART.replace(b"\x00\x05moves", length + b"moves") + bytes(70_000)
    with pytest.raises(ProtocolError, match="malformed"):
        parse_produce(header_for(Api.PRODUCE, 7), memoryview(spoiled_length))


def test_tagged_fields_are_skipped() -> None:
    tag = b"\x01\x05\x02xx"
    begin = b"\x00\xff\xff\x00\x00\x75\x30\x02\x06moves\x02\x00\x00\x00\x03\x04abc"
    for tags in ((b"\x00", b"\x00", b"\x00"), (tag, b"\x00", b"\x00"), (b"\x00", tag, b"\x00"), (tag, tag, tag)):
        body = memoryview(begin + b"".join(tags))
        parsed = parse_produce(header_for(Api.PRODUCE, 9), body)
        assert [(*part[:2], bytes(part[2])) for part in parsed.parts] == [("moves", 3, b"abc")]


def test_partitions_are_bounded() -> None:
    def body(count: int) -> memoryview:
        parts = b"\x00\x00\x00\x03\xff\xff\xff\xff" * count
        return memoryview(ONE_PART[:19] + count.to_bytes(4, "big") + parts)

    header = header_for(Api.PRODUCE, 7)
    assert len(parse_produce(header, body(PARTS_MAX)).parts) == PARTS_MAX
    with pytest.raises(ProtocolError, match="more than 65536 partitions"):
        parse_produce(header, body(PARTS_MAX + 1))


@every_version
@few
@given(results=results, endpoints=endpoints, correlation=int32s)
def test_responses(version: int, results: list[ProduceResult], endpoints: list[Endpoint], correlation: int) -> None:
    header = header_for(Api.PRODUCE, version, correlation)
    for told in (results, results[:1], [result._replace(message=None, leader=None) for result in results[:1]]):
        for known in (endpoints, []):
            check_response(version, correlation, encode_produce(header, told, known), told, known)


def check_response(
    version: int, correlation: int, response: bytes, told: list[ProduceResult], known: list[Endpoint]
) -> None:
    heard_correlation, answer = read_response(Api.PRODUCE, version, response)
    assert heard_correlation == correlation
    assert [topic.name for topic in answer.responses] == sorted({result.topic for result in told})
    heard = [(topic.name, part) for topic in answer.responses for part in topic.partition_responses]
    assert len(heard) == len(told)
    for (topic, part), result in zip(heard, told, strict=True):
        assert (topic, part.index, part.error_code, part.base_offset) == result[:4]
        assert part.log_append_time is None
        assert getattr(part, "log_start_offset", result.log_start) == result.log_start
        assert getattr(part, "error_message", result.message) == result.message
        assert getattr(part, "record_errors", ()) == ()
        if version >= 10:
            assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (result.leader or (-1, -1))
    if version >= 10:
        assert [(node.node_id, node.host, node.port) for node in answer.node_endpoints] == known


def test_remembered_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered: dict[tuple[int, str], tuple[bytes, bytes]] = {}
    monkeypatch.setattr(produce, "_one_frames", remembered)
    for number in range(NAMES_MAX + 3):
        encode_produce(header_for(Api.PRODUCE, 9), [ProduceResult(f"topic-{number}", 0)])
    encode_produce(header_for(Api.PRODUCE, 9), [ProduceResult("x" * (NAME_BYTES_MAX + 1), 0)])
    assert len(remembered) == 3
