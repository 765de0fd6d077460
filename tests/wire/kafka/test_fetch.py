"""Fetch in every version, with kio as the client on the other side."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.errors import ProtocolError
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.fetch import FetchResult, encode_fetch, parse_fetch
from tests.wire.kafka.oracle import (
    few,
    header_for,
    int32s,
    int64s,
    milliseconds,
    parsed_header,
    read_response,
    requests,
    spoiled,
    versions_of,
)

every_version = pytest.mark.parametrize("version", versions_of(Api.FETCH))

results = st.lists(
    st.builds(
        FetchResult,
        topic=st.sampled_from(["", "moves", "chat", "ü" * 80]),
        partition=int32s,
        error=st.sampled_from(ErrorCode),
        high=int64s,
        log_start=int64s,
        size=st.sampled_from([0, 0, 1, 61, 126, 127, 128, 300, 20_000]),
    ),
    max_size=6,
).map(lambda unordered: sorted(unordered, key=lambda result: result.topic))


@every_version
@few
@given(data=st.data())
def test_requests(version: int, data: st.DataObject) -> None:
    request = data.draw(requests(Api.FETCH, version))
    parsed = parse_fetch(*parsed_header(request))
    assert parsed[:5] == (
        request.replica_id,
        milliseconds(request.max_wait),
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
    )
    # What a version does not have is what it means by that: no session, no epoch, no rack.
    assert parsed.session_id == getattr(request, "session_id", 0)
    assert parsed.session_epoch == getattr(request, "session_epoch", -1)
    assert parsed.rack == getattr(request, "rack_id", "")
    assert parsed.parts == [
        (
            topic.topic,
            part.partition,
            part.fetch_offset,
            part.partition_max_bytes,
            getattr(part, "current_leader_epoch", -1),
            getattr(part, "last_fetched_epoch", -1),
            getattr(part, "log_start_offset", -1),
        )
        for topic in request.topics
        for part in topic.partitions
    ]
    assert parsed.forgotten == [
        (topic.topic, partition)
        for topic in getattr(request, "forgotten_topics_data", ())
        for partition in topic.partitions
    ]


@every_version
@few
@given(data=st.data())
def test_garbage_is_refused(version: int, data: st.DataObject) -> None:
    header, frame = parsed_header(data.draw(requests(Api.FETCH, version)))
    body = data.draw(spoiled(bytes(frame[header.body_at :])))
    with suppress(ProtocolError):
        assert len(parse_fetch(header._replace(body_at=0), body).parts) <= len(body)


def test_every_cut_of_a_request_is_refused() -> None:
    whole = b"\xff\xff\xff\xff\x00\x00\x01\xf4\x00\x00\x00\x01\x03\x20\x00\x00\x00"
    whole += b"\x00\x00\x00\x01\x00\x05moves\x00\x00\x00\x01"
    whole += b"\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x10\x00\x00"
    header = header_for(Api.FETCH, 4)
    assert parse_fetch(header, memoryview(whole)).parts == [("moves", 3, 42, 1 << 20, -1, -1, -1)]
    for end in range(len(whole)):
        with pytest.raises(ProtocolError, match="malformed"):
            parse_fetch(header, memoryview(whole)[:end])


@every_version
@few
@given(
    results=results,
    correlation=int32s,
    throttle_ms=int32s,
    error=st.sampled_from(ErrorCode),
    session_id=int32s,
)
def test_responses(
    version: int,
    results: list[FetchResult],
    correlation: int,
    throttle_ms: int,
    error: ErrorCode,
    session_id: int,
) -> None:
    header = header_for(Api.FETCH, version, correlation)
    pieces = encode_fetch(header, results, throttle_ms=throttle_ms, error=error, session_id=session_id)
    records = [bytes([number]) * result.size for number, result in enumerate(results)]
    gaps = [part for part in records if part]
    assert len(pieces) == len(gaps) + 1
    response = pieces[0] + b"".join(part + piece for part, piece in zip(gaps, pieces[1:], strict=True))

    heard_correlation, answer = read_response(Api.FETCH, version, response)
    assert heard_correlation == correlation
    assert milliseconds(answer.throttle_time) == throttle_ms
    assert getattr(answer, "error_code", error) == error
    assert getattr(answer, "session_id", session_id) == session_id
    assert [topic.topic for topic in answer.responses] == sorted({result.topic for result in results})
    heard = [(topic.topic, part) for topic in answer.responses for part in topic.partitions]
    for (topic, part), result, sent in zip(heard, results, records, strict=True):
        assert (topic, part.partition_index, part.error_code) == result[:3]
        assert part.high_watermark == part.last_stable_offset == result.high
        assert getattr(part, "log_start_offset", result.log_start) == result.log_start
        assert getattr(part, "preferred_read_replica", -1) == -1
        assert part.aborted_transactions == ()
        assert part.records == sent


def test_the_last_piece_may_be_empty() -> None:
    pieces = encode_fetch(header_for(Api.FETCH, 11), [FetchResult("moves", 0, size=61)])
    assert pieces[-1] == b""
    assert len(pieces) == 2
