"""What the client asks and reads, against kio's schemas of the same versions."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from octoloom.core.errors import ProtocolError
from octoloom.wire.framing import Piece
from octoloom.wire.kafka import client_messages as messages
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.client_messages import ASKED, FetchFrom

names = st.text("abcxyz.-_", min_size=1, max_size=20)
partitions = st.integers(0, 1000)
offsets = st.integers(0, 1 << 60)
epochs = st.integers(-1, 1 << 30)
brokers = st.lists(st.integers(0, 1 << 20), max_size=4).map(tuple)
errors = st.sampled_from([0, 1, 3, 6, 19, 74])
topic_partitions = st.tuples(names, partitions)


def as_kio_reads(api: Api, body: tuple[Piece, ...]) -> Any:
    """The request in kio's eyes, with its header in front and nothing behind it."""
    frame = b"".join(messages.encode_frame(api, ASKED[api], 77, b"me", body))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    request = getattr(load_payload_module(api, ASKED[api], EntityType.request), f"{pascal(api)}Request")
    header, size = entity_reader(request.__header_schema__)(frame, 4)
    assert (header.request_api_key, header.request_api_version) == (api, ASKED[api])
    assert (header.correlation_id, header.client_id) == (77, "me")
    read, more = entity_reader(request)(frame, 4 + size)
    assert 4 + size + more == len(frame)
    return read


def pascal(api: Api) -> str:
    return "".join(word.capitalize() for word in api.name.split("_"))


def module_of(api: Api) -> Any:
    return load_payload_module(api, ASKED[api], EntityType.response)


def as_kio_writes(response: Any) -> memoryview:
    buffer = io.BytesIO()
    buffer.write((77).to_bytes(4, "big"))
    entity_writer(type(response))(buffer, response)
    return memoryview(buffer.getvalue())


def duration(ms: int) -> Any:
    return timedelta(milliseconds=ms)


@given(st.none() | st.lists(names, max_size=4))
def test_metadata_is_asked(topics: list[str] | None) -> None:
    request = as_kio_reads(Api.METADATA, messages.encode_metadata(topics))
    assert request.topics is None if topics is None else [topic.name for topic in request.topics] == topics
    assert request.allow_auto_topic_creation is False


@given(
    st.dictionaries(st.integers(0, 1 << 30), st.tuples(names, st.integers(1, 65535)), max_size=4),
    st.dictionaries(names, st.dictionaries(partitions, st.tuples(errors, epochs, brokers, brokers), max_size=3)),
    st.none() | names,
)
def test_metadata_is_read(
    brokers: dict[int, tuple[str, int]], topics: dict[str, dict[int, Any]], cluster_id: str | None
) -> None:
    kio = module_of(Api.METADATA)
    answer = kio.MetadataResponse(
        throttle_time=duration(0),
        brokers=tuple(
            kio.MetadataResponseBroker(node_id=broker, host=host, port=port, rack=None)
            for broker, (host, port) in brokers.items()
        ),
        cluster_id=cluster_id,
        controller_id=5,
        topics=tuple(
            kio.MetadataResponseTopic(
                error_code=kio.ErrorCode(0),
                name=name,
                is_internal=False,
                partitions=tuple(
                    kio.MetadataResponsePartition(
                        error_code=kio.ErrorCode(error),
                        partition_index=number,
                        leader_id=3,
                        leader_epoch=epoch,
                        replica_nodes=replicas,
                        isr_nodes=in_sync,
                        offline_replicas=(9,),
                    )
                    for number, (error, epoch, replicas, in_sync) in parts.items()
                ),
            )
            for name, parts in topics.items()
        ),
    )
    read = messages.read(messages.parse_metadata, as_kio_writes(answer))
    assert (read.controller, read.cluster_id) == (5, cluster_id)
    assert {broker.id: (broker.host, broker.port) for broker in read.brokers.values()} == brokers
    assert {
        name: {part.number: (part.error, part.epoch, part.replicas, part.in_sync) for part in topic.partitions.values()}
        for name, topic in read.topics.items()
    } == topics
    assert all(part.leader == 3 for topic in read.topics.values() for part in topic.partitions.values())


@given(names, partitions, st.binary(max_size=300), st.sampled_from([-1, 0, 1]), st.integers(0, 1 << 30))
def test_produce_is_asked(topic: str, partition: int, batch: bytes, acks: int, timeout_ms: int) -> None:
    request = as_kio_reads(Api.PRODUCE, messages.encode_produce(topic, partition, batch, acks, timeout_ms))
    assert (request.transactional_id, request.acks, request.timeout) == (None, acks, duration(timeout_ms))
    [data] = request.topic_data
    [part] = data.partition_data
    assert (data.name, part.index, part.records) == (topic, partition, batch)


@given(names, partitions, errors, offsets, offsets)
def test_produce_is_read(topic: str, partition: int, error: int, base_offset: int, start: int) -> None:
    kio = module_of(Api.PRODUCE)
    part = kio.PartitionProduceResponse(
        index=partition,
        error_code=kio.ErrorCode(error),
        base_offset=base_offset,
        log_append_time=None,
        log_start_offset=start,
    )
    result = kio.TopicProduceResponse(name=topic, partition_responses=(part,))
    answer = as_kio_writes(kio.ProduceResponse(responses=(result,), throttle_time=duration(0)))
    assert messages.read(messages.parse_produce, answer) == (error, base_offset, start)


@given(st.dictionaries(topic_partitions, st.builds(FetchFrom, offsets, epochs, st.integers(0, 1 << 30)), max_size=5))
def test_fetch_is_asked(wanted: dict[tuple[str, int], FetchFrom]) -> None:
    request = as_kio_reads(Api.FETCH, messages.encode_fetch(wanted, 500, 1, 1 << 20))
    assert (request.max_wait, request.min_bytes, request.max_bytes) == (duration(500), 1, 1 << 20)
    assert (request.replica_id, request.session_id, request.session_epoch) == (-1, 0, -1)
    assert (request.isolation_level, request.forgotten_topics_data, request.rack_id) == (0, (), "")
    assert {
        (topic.topic, part.partition): (part.fetch_offset, part.current_leader_epoch, part.partition_max_bytes)
        for topic in request.topics
        for part in topic.partitions
    } == wanted


fetched = st.tuples(errors, offsets, offsets, st.integers(-1, 2), st.none() | st.binary(max_size=200))


@given(st.dictionaries(topic_partitions, fetched, max_size=5), errors)
def test_fetch_is_read(results: dict[tuple[str, int], Any], error: int) -> None:
    kio = module_of(Api.FETCH)

    def part(number: int, code: int, high: int, start: int, aborted: int, records: bytes | None) -> Any:
        transaction = kio.AbortedTransaction(producer_id=1, first_offset=2)
        return kio.PartitionData(
            partition_index=number,
            error_code=kio.ErrorCode(code),
            high_watermark=high,
            last_stable_offset=high,
            log_start_offset=start,
            aborted_transactions=None if aborted < 0 else (transaction,) * aborted,
            preferred_read_replica=-1,
            records=records,
        )

    responses = tuple(
        kio.FetchableTopicResponse(
            topic=topic, partitions=tuple(part(number, *results[topic, number]) for number in numbers)
        )
        for topic, numbers in messages.by_topic(results).items()
    )
    answer = as_kio_writes(
        kio.FetchResponse(throttle_time=duration(0), error_code=kio.ErrorCode(error), session_id=0, responses=responses)
    )
    found_error, found = messages.read(messages.parse_fetch, answer)
    assert found_error == error
    assert {(one.topic, one.partition): (one.error, one.high, one.start, bytes(one.batches)) for one in found} == {
        place: (code, high, start, records or b"") for place, (code, high, start, _, records) in results.items()
    }


@given(st.dictionaries(topic_partitions, st.tuples(epochs, st.integers(-2, 1 << 50)), max_size=5))
def test_offsets_are_asked(wanted: dict[tuple[str, int], tuple[int, int]]) -> None:
    request = as_kio_reads(Api.LIST_OFFSETS, messages.encode_list_offsets(wanted))
    assert (request.replica_id, request.isolation_level) == (-1, 0)
    assert {
        (topic.name, part.partition_index): (part.current_leader_epoch, part.timestamp)
        for topic in request.topics
        for part in topic.partitions
    } == wanted


@given(st.dictionaries(topic_partitions, st.tuples(errors, st.integers(-1, 1 << 50), st.integers(-1, 1 << 60))))
def test_offsets_are_read(listed: dict[tuple[str, int], tuple[int, int, int]]) -> None:
    kio = module_of(Api.LIST_OFFSETS)

    def part(number: int, error: int, timestamp: int, offset: int) -> Any:
        return kio.ListOffsetsPartitionResponse(
            partition_index=number,
            error_code=kio.ErrorCode(error),
            timestamp=timestamp,
            offset=offset,
            leader_epoch=4,
        )

    topics = tuple(
        kio.ListOffsetsTopicResponse(
            name=name, partitions=tuple(part(number, *listed[name, number]) for number in numbers)
        )
        for name, numbers in messages.by_topic(listed).items()
    )
    answer = as_kio_writes(kio.ListOffsetsResponse(throttle_time=duration(0), topics=topics))
    assert messages.read(messages.parse_list_offsets, answer) == listed


def test_a_producer_id_is_asked_and_read() -> None:
    request = as_kio_reads(Api.INIT_PRODUCER_ID, messages.encode_init_producer())
    assert (request.transactional_id, request.transaction_timeout) == (None, duration(-1))
    kio = module_of(Api.INIT_PRODUCER_ID)
    answer = kio.InitProducerIdResponse(
        throttle_time=duration(0), error_code=kio.ErrorCode(0), producer_id=1 << 40, producer_epoch=7
    )
    assert messages.read(messages.parse_init_producer, as_kio_writes(answer)) == (0, 1 << 40, 7)


def test_versions_are_asked_and_read() -> None:
    as_kio_reads(Api.API_VERSIONS, ())
    kio = module_of(Api.API_VERSIONS)
    keys = tuple(kio.ApiVersion(api_key=api, min_version=api, max_version=api + 2) for api in (0, 1, 18))
    answer = as_kio_writes(kio.ApiVersionsResponse(error_code=kio.ErrorCode(0), api_keys=keys))
    assert messages.read(messages.parse_api_versions, answer) == {0: (0, 2), 1: (1, 3), 18: (18, 20)}


PARSERS: list[Callable[[memoryview, int], object]] = [
    messages.parse_api_versions,
    messages.parse_metadata,
    messages.parse_produce,
    messages.parse_init_producer,
    messages.parse_fetch,
    messages.parse_list_offsets,
]


@given(st.binary(max_size=200), st.sampled_from(PARSERS))
def test_any_answer_is_read_or_refused(noise: bytes, parse: Callable[[memoryview, int], object]) -> None:
    with contextlib.suppress(ProtocolError):
        messages.read(parse, memoryview(noise))


@pytest.mark.parametrize("parse", PARSERS)
def test_an_empty_answer_is_refused(parse: Callable[[memoryview, int], object]) -> None:
    with pytest.raises(ProtocolError, match="malformed"):
        messages.read(parse, memoryview(b"\x00\x00\x00\x4d"))
