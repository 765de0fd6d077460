"""Metadata in every version, with kio as the client on the other side."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.errors import ProtocolError
from octoloom.wire.kafka.apis import Api, with_correlation
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.metadata import (
    NO_TOPIC_ID,
    BrokerEntry,
    PartitionEntry,
    TopicEntry,
    encode_metadata,
    parse_metadata,
)
from tests.wire.kafka.oracle import (
    few,
    header_for,
    int32s,
    names,
    parsed_header,
    read_response,
    requests,
    spoiled,
    versions_of,
)

every_version = pytest.mark.parametrize("version", versions_of(Api.METADATA))

errors = st.sampled_from(ErrorCode)
some_brokers = st.lists(int32s, max_size=4).map(tuple)
brokers = st.lists(st.builds(BrokerEntry, int32s, names, int32s, st.none() | names), max_size=4)
partitions = st.builds(PartitionEntry, int32s, int32s, int32s, some_brokers, some_brokers, some_brokers, errors)
topics = st.lists(
    st.builds(
        TopicEntry,
        names,
        st.lists(partitions, max_size=4),
        errors,
        st.just(NO_TOPIC_ID) | st.binary(min_size=16, max_size=16),
        st.booleans(),
    ),
    max_size=4,
)


@every_version
@few
@given(data=st.data())
def test_requests(version: int, data: st.DataObject) -> None:
    request = data.draw(requests(Api.METADATA, version))
    parsed = parse_metadata(*parsed_header(request))
    is_all = request.topics is None if version > 0 else request.topics == ()
    asked = request.topics or ()
    assert parsed.names == (None if is_all else tuple(topic.name for topic in asked if topic.name is not None))
    assert parsed.ids == tuple(
        topic.topic_id.bytes if topic.topic_id else NO_TOPIC_ID for topic in asked if topic.name is None
    )
    assert parsed.may_create is getattr(request, "allow_auto_topic_creation", True)


@every_version
@few
@given(data=st.data())
def test_garbage_is_refused(version: int, data: st.DataObject) -> None:
    header, frame = parsed_header(data.draw(requests(Api.METADATA, version)))
    body = data.draw(spoiled(bytes(frame[header.body_at :])))
    with suppress(ProtocolError):
        assert len(parse_metadata(header._replace(body_at=0), body).names or ()) <= len(body)


@every_version
@few
@given(data=st.data())
def test_every_cut_of_a_request_is_refused(version: int, data: st.DataObject) -> None:
    header, frame = parsed_header(data.draw(requests(Api.METADATA, version)))
    end = data.draw(st.integers(header.body_at, len(frame) - 1))
    with pytest.raises(ProtocolError, match="malformed"):
        parse_metadata(header, frame[:end])


def test_null_is_not_a_list_of_topics_in_version_0() -> None:
    with pytest.raises(ProtocolError, match="are null"):
        parse_metadata(header_for(Api.METADATA, 0), memoryview(b"\xff\xff\xff\xff"))


@every_version
@few
@given(brokers=brokers, topics=topics, cluster_id=st.none() | names, controller=int32s, correlation=int32s)
def test_responses(
    version: int,
    brokers: list[BrokerEntry],
    topics: list[TopicEntry],
    cluster_id: str | None,
    controller: int,
    correlation: int,
) -> None:
    header = header_for(Api.METADATA, version, correlation)
    response = encode_metadata(header, brokers, topics, cluster_id=cluster_id, controller=controller)
    heard_correlation, answer = read_response(Api.METADATA, version, response)
    assert heard_correlation == correlation
    assert getattr(answer, "cluster_id", cluster_id) == cluster_id
    assert getattr(answer, "controller_id", controller) == controller
    assert getattr(answer, "cluster_authorized_operations", -(2**31)) == -(2**31)
    assert brokers == [
        (heard.node_id, heard.host, heard.port, getattr(heard, "rack", told.rack))
        for heard, told in zip(answer.brokers, brokers, strict=True)
    ]
    for heard, told in zip(answer.topics, topics, strict=True):
        assert (heard.name, heard.error_code) == (told.name, told.error)
        assert getattr(heard, "is_internal", told.is_internal) is told.is_internal
        assert getattr(heard, "topic_authorized_operations", -(2**31)) == -(2**31)
        if version >= 10:
            assert (heard.topic_id.bytes if heard.topic_id else NO_TOPIC_ID) == told.topic_id
        assert list(told.partitions) == [
            (
                part.partition_index,
                part.leader_id,
                getattr(part, "leader_epoch", entry.leader_epoch),
                part.replica_nodes,
                part.isr_nodes,
                getattr(part, "offline_replicas", entry.offline),
                part.error_code,
            )
            for part, entry in zip(heard.partitions, told.partitions, strict=True)
        ]


@pytest.mark.parametrize(("version", "name"), [(10, ""), (11, ""), (12, None)])
def test_an_unknown_id_has_no_name(version: int, name: str | None) -> None:
    topic = TopicEntry(None, error=ErrorCode.UNKNOWN_TOPIC_ID, topic_id=b"x" * 16)
    response = encode_metadata(header_for(Api.METADATA, version), [], [topic], cluster_id=None)
    (heard,) = read_response(Api.METADATA, version, response)[1].topics
    assert (heard.name, heard.topic_id.bytes, heard.error_code) == (name, b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID)


@every_version
def test_a_kept_response_serves_the_next_request(version: int) -> None:
    topic = TopicEntry("moves", [PartitionEntry(0, 1, 5, (1, 2), (1,), (2,))])
    kept = encode_metadata(header_for(Api.METADATA, version, 1), [BrokerEntry(1, "a", 2)], [topic], cluster_id="c")
    fresh = encode_metadata(header_for(Api.METADATA, version, 2), [BrokerEntry(1, "a", 2)], [topic], cluster_id="c")
    assert with_correlation(kept, 2) == fresh
