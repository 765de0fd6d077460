"""kio's own reading and writing, to compare ours with, and random messages of its schemas.

kio's reader is only ever given bytes that are whole messages: it ends the process on others.
"""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import Records

from octoloom.wire.kafka.apis import SERVED, RequestHeader, parse_header

st.register_type_strategy(Records, st.binary(max_size=40))

few = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For a test that is run again for every version, most of which differ little."""

int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=12)
client_ids = st.none() | names


def versions_of(api: int) -> list[int]:
    return list(range(SERVED[api].first, SERVED[api].last + 1))


def requests(api: int, version: int) -> st.SearchStrategy[Any]:
    return st.from_type(load_request_schema(api, version))


def responses(api: int, version: int) -> st.SearchStrategy[Any]:
    return st.from_type(load_response_schema(api, version))


def written(entity: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def request_frame(request: Any, correlation: int = 1, client_id: str | None = "test") -> memoryview:
    """A request as a client of kio would send it, its length off."""
    header = request.__header_schema__(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=correlation,
        client_id=client_id,
    )
    return memoryview(written(header) + written(request))


def parsed_header(request: Any) -> tuple[RequestHeader, memoryview]:
    frame = request_frame(request)
    return parse_header(frame), frame


def header_for(api: int, version: int, correlation: int = 1) -> RequestHeader:
    return RequestHeader(api, version, correlation, None, 0)


def read_response(api: int, version: int, response: bytes) -> tuple[int, Any]:
    """(correlation id, entity) of a whole response with its length, of which every byte is read."""
    schema = load_response_schema(api, version)
    assert int.from_bytes(response[:4], "big") == len(response) - 4
    header, header_size = entity_reader(schema.__header_schema__)(response, 4)
    entity, size = entity_reader(schema)(response, 4 + header_size)
    assert 4 + header_size + size == len(response)
    # Nothing is written in two ways: the same bytes come out of kio.
    assert written(entity) == response[4 + header_size :]
    return header.correlation_id, entity


def milliseconds(time: timedelta) -> int:
    return round(time.total_seconds() * 1000)


@st.composite
def spoiled(draw: st.DrawFn, frame: bytes) -> memoryview:
    """The frame cut short, with a few bytes changed."""
    changed = bytearray(frame[: draw(st.integers(0, len(frame)))])
    for _ in range(draw(st.integers(0, 4)) if changed else 0):
        place = draw(st.integers(0, len(changed) - 1))
        changed[place] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]) | st.integers(0, 255))
    return memoryview(bytes(changed))
