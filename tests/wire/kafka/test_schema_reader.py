"""Our reader of kio's schemas against kio's own, on whole messages. Others come with the frames, in `test_cold`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.schema.describe_topic_partitions.v0.response import DescribeTopicPartitionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v0.response import HeartbeatResponse
from kio.schema.metadata.v1.request import MetadataRequest as MetadataRequestV1
from kio.schema.metadata.v12.request import MetadataRequest as MetadataRequestV12
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.types import TopicName
from kio.serial import entity_reader

from octoloom.core.errors import ProtocolError
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.schema_reader import reader_of
from tests.wire.kafka.oracle import few, requests, responses, versions_of, written

every_api = pytest.mark.parametrize("api", list(Api), ids=lambda api: api.name)


def draw_message(data: st.DataObject, api: Api) -> Any:
    """A request or a response of any served version."""
    version = data.draw(st.sampled_from(versions_of(api)))
    return data.draw(data.draw(st.sampled_from([requests, responses]))(api, version))


def check_equal(message: Any) -> None:
    raw = written(message)
    ours, end = reader_of(type(message))(memoryview(b"before" + raw), 6)
    theirs, size = entity_reader(type(message))(raw, 0)
    assert ours == theirs
    assert end - 6 == size == len(raw)
    assert written(ours) == raw


@every_api
@few
@given(data=st.data())
def test_messages(api: Api, data: st.DataObject) -> None:
    check_equal(draw_message(data, api))


@few
@given(st.from_type(DescribeTopicPartitionsResponse))
def test_a_structure_that_may_be_null(message: DescribeTopicPartitionsResponse) -> None:
    check_equal(message)


@every_api
def test_every_served_version_can_be_read(api: Api) -> None:
    for version in versions_of(api):
        assert callable(reader_of(load_request_schema(api, version)))


@pytest.mark.parametrize(
    ("schema", "raw"),
    [
        (MetadataRequestV1, b"\x7f\xff\xff\xff" + bytes(40)),
        (MetadataRequestV12, b"\xff\xff\xff\xff\x07" + bytes(40)),
    ],
)
def test_an_array_that_cannot_be_there_takes_no_room(schema: type[Any], raw: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"an array of 214748364[67]"):
        reader_of(schema)(memoryview(raw), 0)


def test_unknown_tagged_fields_are_skipped() -> None:
    raw = b"\x02" + bytes(16) + b"\x02a\x01\x09\x02xx" + b"\x01\x00" + b"\x01\x63\x00"
    message, end = reader_of(MetadataRequestV12)(memoryview(raw), 0)
    assert message.topics == (MetadataRequestTopic(topic_id=None, name=TopicName("a")),)
    assert end == len(raw)


def test_a_tagged_field_ends_where_it_says() -> None:
    fetch: type[Any] = load_request_schema(Api.FETCH, 12)
    body = b"\xff\xff\xff\xff" + bytes(12) + b"\x00" + bytes(8) + b"\x01\x01\x01"
    assert reader_of(fetch)(memoryview(body + b"\x01\x00\x03\x03ab"), 0)[0].cluster_id == "ab"
    for field in (b"\x01\x00\x04\x03abc", b"\x01\x00\x02\x03abc", b"\x01\x00\x09\x03ab", b"\x01\x63\x09\x03ab"):
        with pytest.raises(ProtocolError, match="malformed"):
            reader_of(fetch)(memoryview(body + field), 0)


def test_an_error_code_that_nobody_knows() -> None:
    assert reader_of(HeartbeatResponse)(memoryview(b"\x00\x19"), 0)[0].error_code is ErrorCode.unknown_member_id
    with pytest.raises(ValueError, match="is not a valid ErrorCode"):
        reader_of(HeartbeatResponse)(memoryview(b"\x7f\x00"), 0)
