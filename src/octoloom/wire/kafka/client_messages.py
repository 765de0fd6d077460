"""What our own client asks a broker, and how it reads the answers.

Each API is asked in one version, the newest with the classic form, which brokers of all ages serve; ApiVersions tells
at the start of a connection whether this one does. One version is one flat function in each direction: no kio is
needed to write to the log, and it starts in a blink. What is asked rarely goes through `cold` instead.

A request is made of pieces, so that a record batch is not copied into its frame.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from octoloom.wire.framing import Piece
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.primitives import CLASSIC, I16, I32, UNREADABLE, malformed

T = TypeVar("T")
TopicPartition = tuple[str, int]

ASKED: dict[int, int] = {
    Api.PRODUCE: 7,
    Api.FETCH: 11,
    Api.LIST_OFFSETS: 5,
    Api.METADATA: 7,
    Api.API_VERSIONS: 0,
    Api.INIT_PRODUCER_ID: 1,
}
"""API → the version that is asked."""

EARLIEST = -2
LATEST = -1

_CONSUMER = -1
_HEAD = struct.Struct(">ihhih")
_I64 = struct.Struct(">q")
_RANGE = struct.Struct(">hhh")
_ACKS_TIMEOUT = struct.Struct(">hhi")
_PRODUCED = struct.Struct(">ihqqq")
_FETCH = struct.Struct(">iiiibii")
_FETCH_PARTITION = struct.Struct(">iiqqi")
_FETCHED = struct.Struct(">ihqqq")
_FETCHED_HEAD = struct.Struct(">ihi")
_LIST = struct.Struct(">iiq")
_LISTED = struct.Struct(">ihqqi")
_PRODUCER = struct.Struct(">ihqh")
_PARTITION = struct.Struct(">hiii")


class Broker(NamedTuple):
    id: int
    host: str
    port: int


class Partition(NamedTuple):
    """What the cluster says of a partition. Without a leader it is -1."""

    error: int
    number: int
    leader: int
    epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Topic(NamedTuple):
    error: int
    name: str
    partitions: dict[int, Partition]


class Cluster(NamedTuple):
    brokers: dict[int, Broker]
    topics: dict[str, Topic]
    controller: int
    cluster_id: str | None


class Produced(NamedTuple):
    error: int
    base_offset: int
    start: int


class FetchFrom(NamedTuple):
    """From where a partition is fetched, in which epoch of its leader, and how much at most."""

    offset: int
    epoch: int
    bytes_max: int


class FetchedPartition(NamedTuple):
    topic: str
    partition: int
    error: int
    high: int
    start: int
    batches: memoryview


class ListedOffset(NamedTuple):
    error: int
    timestamp: int
    offset: int


def encode_frame(
    api: int, version: int, correlation: int, client_id: bytes, body: Iterable[Piece]
) -> tuple[Piece, ...]:
    """A whole request in pieces, its length in front."""
    pieces = (client_id, *body)
    size = _HEAD.size - 4 + sum(map(len, pieces))
    return (_HEAD.pack(size, api, version, correlation, len(client_id)), *pieces)


def read(parse: Callable[[memoryview, int], T], answer: memoryview) -> T:
    """What `parse` finds behind the correlation id; nonsense is the peer's fault."""
    try:
        return parse(answer, 4)
    except UNREADABLE as error:
        raise malformed(f"an answer that cannot be read: {error}") from error


def parse_api_versions(answer: memoryview, at: int) -> dict[int, tuple[int, int]]:
    """API → (first, last version)."""
    count, at = CLASSIC.count(answer, at + I16.size)
    ranges = (_RANGE.unpack_from(answer, at + place * _RANGE.size) for place in range(count))
    return {api: (first, last) for api, first, last in ranges}


# Metadata


def encode_metadata(topics: Sequence[str] | None) -> tuple[bytes, ...]:
    """Asks for these topics, or for all. None is made by being asked for."""
    if topics is None:
        return (I32.pack(-1), b"\x00")
    return (I32.pack(len(topics)), *map(CLASSIC.write_name, topics), b"\x00")


def parse_metadata(answer: memoryview, at: int) -> Cluster:
    brokers: dict[int, Broker] = {}
    count, at = CLASSIC.count(answer, at + I32.size)
    for _ in range(count):
        broker = I32.unpack_from(answer, at)[0]
        host, at = CLASSIC.string(answer, at + I32.size)
        port = I32.unpack_from(answer, at)[0]
        _rack, at = CLASSIC.nullable_string(answer, at + I32.size)
        brokers[broker] = Broker(broker, host, port)
    cluster_id, at = CLASSIC.nullable_string(answer, at)
    controller = I32.unpack_from(answer, at)[0]
    topics: dict[str, Topic] = {}
    count, at = CLASSIC.count(answer, at + I32.size)
    for _ in range(count):
        error = I16.unpack_from(answer, at)[0]
        name, at = CLASSIC.string(answer, at + I16.size)
        # One byte says whether the topic is the brokers' own.
        partitions, at = _parse_partitions(answer, at + 1)
        topics[name] = Topic(error, name, partitions)
    return Cluster(brokers, topics, controller, cluster_id)


def _parse_partitions(answer: memoryview, at: int) -> tuple[dict[int, Partition], int]:
    partitions: dict[int, Partition] = {}
    count, at = CLASSIC.count(answer, at)
    for _ in range(count):
        error, number, leader, epoch = _PARTITION.unpack_from(answer, at)
        replicas, at = _parse_numbers(answer, at + _PARTITION.size)
        in_sync, at = _parse_numbers(answer, at)
        _offline, at = _parse_numbers(answer, at)
        partitions[number] = Partition(error, number, leader, epoch, replicas, in_sync)
    return partitions, at


def _parse_numbers(answer: memoryview, at: int) -> tuple[tuple[int, ...], int]:
    count, at = CLASSIC.count(answer, at)
    return struct.unpack_from(f">{count}i", answer, at), at + count * I32.size


# Produce


def encode_produce(topic: str, partition: int, batch: Piece, acks: int, timeout_ms: int) -> tuple[Piece, ...]:
    head = _ACKS_TIMEOUT.pack(-1, acks, timeout_ms)
    one, index, size = I32.pack(1), I32.pack(partition), I32.pack(len(batch))
    return (b"".join((head, one, CLASSIC.write_name(topic), one, index, size)), batch)


def parse_produce(answer: memoryview, at: int) -> Produced:
    """The result of the one partition that was asked for."""
    _, at = CLASSIC.count(answer, at)
    _, at = CLASSIC.string(answer, at)
    _, at = CLASSIC.count(answer, at)
    _, error, base_offset, _, start = _PRODUCED.unpack_from(answer, at)
    return Produced(error, base_offset, start)


def encode_init_producer() -> tuple[bytes, ...]:
    return (CLASSIC.write_string(None), I32.pack(-1))


def parse_init_producer(answer: memoryview, at: int) -> tuple[int, int, int]:
    """(error, producer id, producer epoch)"""
    _, error, producer_id, epoch = _PRODUCER.unpack_from(answer, at)
    return error, producer_id, epoch


# Fetch


def encode_fetch(
    wanted: Mapping[TopicPartition, FetchFrom], wait_ms: int, bytes_min: int, bytes_max: int
) -> tuple[bytes, ...]:
    pieces = [_FETCH.pack(_CONSUMER, wait_ms, bytes_min, bytes_max, 0, 0, -1)]
    topics = by_topic(wanted)
    pieces.append(I32.pack(len(topics)))
    for topic, partitions in topics.items():
        pieces += (CLASSIC.write_name(topic), I32.pack(len(partitions)))
        for partition in partitions:
            offset, epoch, partition_max = wanted[topic, partition]
            pieces.append(_FETCH_PARTITION.pack(partition, epoch, offset, -1, partition_max))
    # No topics to forget, since there is no session, and no rack.
    pieces += (I32.pack(0), I16.pack(0))
    return tuple(pieces)


def parse_fetch(answer: memoryview, at: int) -> tuple[int, list[FetchedPartition]]:
    """(error of the whole, results). The batches stay where they lie."""
    results: list[FetchedPartition] = []
    _, error, _ = _FETCHED_HEAD.unpack_from(answer, at)
    topics, at = CLASSIC.count(answer, at + _FETCHED_HEAD.size)
    for _ in range(topics):
        topic, at = CLASSIC.string(answer, at)
        partitions, at = CLASSIC.count(answer, at)
        for _ in range(partitions):
            partition, code, high, _, start = _FETCHED.unpack_from(answer, at)
            aborted, at = CLASSIC.nullable_count(answer, at + _FETCHED.size)
            # An aborted transaction is two numbers, and after them comes the replica to prefer.
            batches, at = CLASSIC.view(answer, at + (aborted or 0) * 2 * _I64.size + I32.size)
            results.append(FetchedPartition(topic, partition, code, high, start, batches or answer[:0]))
    return error, results


# ListOffsets


def encode_list_offsets(wanted: Mapping[TopicPartition, tuple[int, int]]) -> tuple[bytes, ...]:
    """For each partition (epoch of its leader, timestamp): the first offset at or after it."""
    topics = by_topic(wanted)
    pieces = [I32.pack(_CONSUMER), b"\x00", I32.pack(len(topics))]
    for topic, partitions in topics.items():
        pieces += (CLASSIC.write_name(topic), I32.pack(len(partitions)))
        pieces += (_LIST.pack(partition, *wanted[topic, partition]) for partition in partitions)
    return tuple(pieces)


def parse_list_offsets(answer: memoryview, at: int) -> dict[TopicPartition, ListedOffset]:
    listed: dict[TopicPartition, ListedOffset] = {}
    topics, at = CLASSIC.count(answer, at + I32.size)
    for _ in range(topics):
        topic, at = CLASSIC.string(answer, at)
        partitions, at = CLASSIC.count(answer, at)
        for _ in range(partitions):
            partition, error, timestamp, offset, _ = _LISTED.unpack_from(answer, at)
            at += _LISTED.size
            listed[topic, partition] = ListedOffset(error, timestamp, offset)
    return listed


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
