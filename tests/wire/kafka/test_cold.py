"""Whole frames of the cold APIs, each side against kio and against the other."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.heartbeat.v0.request import HeartbeatRequest
from kio.schema.heartbeat.v0.response import HeartbeatResponse
from kio.schema.types import GroupId
from kio.static.primitive import i32

from octoloom.core.errors import ProtocolError
from octoloom.wire.kafka.api_versions import encode_api_versions
from octoloom.wire.kafka.apis import Api, correlation_of, parse_header
from octoloom.wire.kafka.cold import decode_request, decode_response, encode_request, encode_response, error_code
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.produce import ProduceResult, encode_produce
from tests.wire.kafka.oracle import (
    client_ids,
    few,
    header_for,
    int32s,
    read_response,
    request_frame,
    requests,
    responses,
    spoiled,
    versions_of,
)

every_api = pytest.mark.parametrize("api", list(Api), ids=lambda api: api.name)


@every_api
@few
@given(data=st.data(), correlation=int32s, client_id=client_ids)
def test_requests(api: Api, data: st.DataObject, correlation: int, client_id: str | None) -> None:
    request = data.draw(requests(api, data.draw(st.sampled_from(versions_of(api)))))
    frame = encode_request(request, correlation, client_id)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4:] == request_frame(request, correlation, client_id)
    header = parse_header(memoryview(frame)[4:])
    assert header[:4] == (api, request.__version__, correlation, client_id)
    assert decode_request(header, memoryview(frame)[4:]) == request


@every_api
@few
@given(data=st.data(), correlation=int32s)
def test_responses(api: Api, data: st.DataObject, correlation: int) -> None:
    version = data.draw(st.sampled_from(versions_of(api)))
    response = data.draw(responses(api, version))
    # In other versions than 0, that error says that what follows is in version 0.
    if api == Api.API_VERSIONS and response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        return
    frame = encode_response(header_for(api, version, correlation), response)
    assert read_response(api, version, frame) == (correlation, response)
    body = memoryview(frame)[4:]
    assert correlation_of(body) == correlation
    assert decode_response(api, version, body) == response


@every_api
@few
@given(data=st.data())
def test_garbage_is_refused(api: Api, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions_of(api)))
    frame = encode_request(data.draw(requests(api, version)), 1, "me")
    with suppress(ProtocolError):
        bad = data.draw(spoiled(frame[4:]))
        decode_request(parse_header(bad), bad)
    frame = encode_response(header_for(api, version), data.draw(responses(api, version)))
    with suppress(ProtocolError):
        decode_response(api, version, data.draw(spoiled(frame[4:])))


@pytest.mark.parametrize("version", versions_of(Api.PRODUCE))
def test_our_client_reads_what_the_hot_path_writes(version: int) -> None:
    frame = encode_produce(header_for(Api.PRODUCE, version), [ProduceResult("moves", 3, base_offset=42)])
    answer: Any = decode_response(Api.PRODUCE, version, memoryview(frame)[4:])
    (part,) = answer.responses[0].partition_responses
    assert (answer.responses[0].name, part.index, part.base_offset) == ("moves", 3, 42)


def test_a_refused_version_of_api_versions_is_read() -> None:
    answer: Any = decode_response(Api.API_VERSIONS, 4, memoryview(encode_api_versions(99, 1))[4:])
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [key.api_key for key in answer.api_keys] == [Api.API_VERSIONS]


def test_error_codes_of_ours_are_theirs() -> None:
    assert all(int(error_code(code)) == code for code in ErrorCode)
    frame = encode_response(header_for(Api.HEARTBEAT, 0), HeartbeatResponse(error_code=error_code(27)))
    assert frame[-2:] == b"\x00\x1b"


def test_what_does_not_fit_is_refused() -> None:
    request = HeartbeatRequest(group_id=GroupId("g" * 40_000), generation_id=i32(1), member_id="m")
    with pytest.raises(ProtocolError, match="unwritable: HeartbeatRequest"):
        encode_request(request, 1, "me")
    with pytest.raises(ProtocolError, match="unwritable"):
        encode_request(HeartbeatRequest(group_id=GroupId("g"), generation_id=i32(1), member_id="m"), 1, "c" * 40_000)


def test_an_api_that_nobody_has() -> None:
    for api, version in ((999, 0), (Api.HEARTBEAT, 99)):
        with pytest.raises(ProtocolError, match="unsupported-version"):
            decode_response(api, version, memoryview(bytes(8)))
        with pytest.raises(ProtocolError, match="unsupported-version"):
            decode_request(header_for(api, version), memoryview(bytes(8)))
