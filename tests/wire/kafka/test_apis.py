"""Headers and versions, with kio's schemas as the judge of both."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.schema.index import api_key_map
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2

from octoloom.core.errors import ProtocolError
from octoloom.wire.kafka.apis import (
    ADVERTISED,
    REPLICATE,
    SERVED,
    SMALL_REQUEST_MAX,
    Api,
    correlation_of,
    is_flexible,
    is_served,
    parse_header,
    with_correlation,
)
from tests.wire.kafka.oracle import client_ids, int16s, int32s, spoiled, versions_of, written

served = st.sampled_from([(int(api), version) for api in Api for version in versions_of(api)])


def header_bytes(api: int, version: int, correlation: int, client_id: str | None) -> bytes:
    schema = HeaderV2 if is_flexible(api, version) else HeaderV1
    header = schema(
        request_api_key=api,  # type: ignore[arg-type]
        request_api_version=version,  # type: ignore[arg-type]
        correlation_id=correlation,  # type: ignore[arg-type]
        client_id=client_id,
    )
    return written(header)


@pytest.mark.parametrize("api", list(Api), ids=lambda api: api.name)
def test_versions_are_kafkas(api: Api) -> None:
    assert api_key_map[api] == api.name.lower()
    for version in versions_of(api):
        schema = load_request_schema(api, version)
        assert is_flexible(api, version) is schema.__flexible__
        assert (schema.__header_schema__ is HeaderV2) is schema.__flexible__
        assert is_served(api, version)


def test_the_private_key_is_nobody_elses_and_is_not_advertised() -> None:
    assert REPLICATE not in api_key_map
    assert REPLICATE not in ADVERTISED
    assert is_served(REPLICATE, 0)
    assert not is_flexible(REPLICATE, 0)


def test_produce_is_advertised_below_what_is_served() -> None:
    assert ADVERTISED[Api.PRODUCE] == (0, SERVED[Api.PRODUCE].last)
    assert SERVED[Api.PRODUCE].first == 3
    assert {api: served for api, served in ADVERTISED.items() if api != Api.PRODUCE} == {
        api: versions[:2] for api, versions in SERVED.items() if api not in (Api.PRODUCE, REPLICATE)
    }


@given(served, int32s, client_ids, st.binary(max_size=8))
def test_headers(api_version: tuple[int, int], correlation: int, client_id: str | None, body: bytes) -> None:
    api, version = api_version
    raw = header_bytes(api, version, correlation, client_id)
    assert parse_header(memoryview(raw + body)) == (api, version, correlation, client_id, len(raw))


def test_tagged_fields_of_a_header_are_skipped() -> None:
    raw = header_bytes(Api.METADATA, 12, 5, "me")
    assert raw[-1] == 0
    tagged = raw[:-1] + b"\x01\x07\x02xx"
    assert parse_header(memoryview(tagged + b"body")).body_at == len(tagged)


@given(int16s.filter(lambda version: not is_served(Api.API_VERSIONS, version)), int32s, client_ids)
def test_any_version_of_api_versions_has_a_header(version: int, correlation: int, client_id: str | None) -> None:
    raw = bytearray(header_bytes(Api.API_VERSIONS, 0, correlation, client_id))
    raw[2:4] = version.to_bytes(2, "big", signed=True)
    header = parse_header(memoryview(raw))
    assert header[:4] == (Api.API_VERSIONS, version, correlation, client_id)


@given(st.tuples(int16s, int16s).filter(lambda asked: asked[0] != Api.API_VERSIONS and not is_served(*asked)))
def test_what_is_not_served_is_refused(asked: tuple[int, int]) -> None:
    raw = bytearray(header_bytes(Api.HEARTBEAT, 0, 1, None))
    raw[0:2] = asked[0].to_bytes(2, "big", signed=True)
    raw[2:4] = asked[1].to_bytes(2, "big", signed=True)
    with pytest.raises(ProtocolError, match="unsupported-version"):
        parse_header(memoryview(raw))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_advertised_low_versions_of_produce_are_refused(version: int) -> None:
    with pytest.raises(ProtocolError, match="unsupported-version"):
        parse_header(memoryview(b"\x00\x00\x00%c\x00\x00\x00\x07\xff\xff" % version))


def test_only_a_request_with_records_is_large() -> None:
    large = bytes(SMALL_REQUEST_MAX)
    for api in (Api.PRODUCE, REPLICATE):
        assert parse_header(memoryview(header_bytes(api, SERVED[api].first, 1, None) + large)).api == api
    for api in (Api.FETCH, Api.METADATA, Api.JOIN_GROUP, Api.API_VERSIONS):
        with pytest.raises(ProtocolError, match="request-too-large"):
            parse_header(memoryview(header_bytes(api, SERVED[api].first, 1, None) + large))


def test_a_client_id_of_negative_length() -> None:
    with pytest.raises(ProtocolError, match="a client id of -2 bytes"):
        parse_header(memoryview(b"\x00\x0c\x00\x00\x00\x00\x00\x07\xff\xfe"))


@given(st.data(), served, client_ids)
def test_garbage(data: st.DataObject, api_version: tuple[int, int], client_id: str | None) -> None:
    frame = data.draw(spoiled(header_bytes(*api_version, 1, client_id)))
    with suppress(ProtocolError):
        assert parse_header(frame).body_at <= len(frame)


@given(int32s, int32s, st.binary(max_size=8))
def test_a_response_is_patched_for_another_request(before: int, after: int, body: bytes) -> None:
    length = (len(body) + 4).to_bytes(4, "big")
    response = length + before.to_bytes(4, "big", signed=True) + body
    patched = with_correlation(response, after)
    assert patched == length + after.to_bytes(4, "big", signed=True) + body
    assert correlation_of(memoryview(patched)[4:]) == after


def test_a_response_without_a_correlation_id() -> None:
    with pytest.raises(ProtocolError, match="malformed"):
        correlation_of(memoryview(b"\x00\x00\x00"))
