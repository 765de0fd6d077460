"""Reading from real brokers: all of it, once, in order, whatever happens to them in the meantime."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from octoloom.runtime.log_errors import Damaged, UnknownTopic, Unreachable
from octoloom.spark.fetching import OffsetsGone, RawOrigin, Reader, sliced, whole
from octoloom.spark.ranges import Range
from octoloom.wire.kafka.batches import Buffer, read_header
from octoloom.wire.kafka.records import Record, build_batch
from tests.clients.cluster import Cluster
from tests.spark.conftest import MakeTopic
from tests.spark.kafka_rows import QUIET, kill_leader, read, revive, rows_of, write
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.spark

ALL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


@pytest.fixture
def reader(bootstrap: str) -> Iterator[Reader]:
    with Reader(bootstrap, fetch_bytes=4000) as made:
        yield made


def numbers(origin: Reader, topic: str, start: int, end: int) -> list[int]:
    batches = origin.rows(Range(topic, 0, start, end), ("offset",))
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


def trim(bootstrap: str, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    [done] = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    done.result(PATIENCE_S)


def test_every_codec_and_kind_of_record(bootstrap: str, topic: MakeTopic, reader: Reader) -> None:
    name = topic(partitions=2)
    write(bootstrap, name, 2, 40)
    expected = read(bootstrap, name, 2, 200)
    assert reader.bounds([(name, 0), (name, 1)]) == {(name, 0): (0, 200), (name, 1): (0, 200)}
    found = [batch for number in range(2) for batch in reader.rows(Range(name, number, 0, 200), ALL)]
    assert rows_of(found) == expected
    # From the middle of a batch to the middle of another.
    assert numbers(reader, name, 13, 171) == list(range(13, 171))


def test_what_there_is(bootstrap: str, topic: MakeTopic, reader: Reader) -> None:
    first, second = topic(partitions=2), topic()
    assert reader.topics(f"{first}|{second}") == {first: [0, 1], second: [0]}
    assert first not in reader.topics(first[:-1])
    assert {first, second} <= set(reader.topics())
    assert reader.partitions(first) == [0, 1]
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    [grown] = admin.create_partitions([NewPartitions(first, 3)]).values()
    grown.result(PATIENCE_S)
    assert reader.partitions(first) == [0, 1, 2]
    with pytest.raises(UnknownTopic, match="the topic nowhere does not exist"):
        reader.partitions("nowhere")


def test_offsets_by_time(bootstrap: str, topic: MakeTopic, reader: Reader) -> None:
    name = topic()
    write(bootstrap, name, 1, 10, ["none"], first_ms=1_700_000_000_000)
    places = [(name, 0)]
    assert reader.offsets_at(places, 1_700_000_004_001) == {(name, 0): 5}
    assert reader.offsets_at(places, 1_700_000_100_000) == {(name, 0): -1}


def test_brokers_die_in_the_middle(brokers: Cluster, bootstrap: str, topic: MakeTopic, reader: Reader) -> None:
    name = topic()
    write(bootstrap, name, 1, 2000, ["none"])
    found: list[int] = []
    for batch in reader.raw(name, 0, 0, 2000):
        if not found:
            dead = kill_leader(brokers, name)
        found.append(read_header(batch).base_offset)
    try:
        assert len(found) > 5
        assert numbers(reader, name, 0, 2000) == list(range(2000))
    finally:
        revive(brokers, dead)


def test_what_was_removed_is_named(bootstrap: str, topic: MakeTopic, reader: Reader) -> None:
    name = topic()
    write(bootstrap, name, 1, 30, ["none"])
    trim(bootstrap, name, 12)
    for start, end in ((3, 20), (40, 50)):
        with pytest.raises(OffsetsGone) as error:
            numbers(reader, name, start, end)
        assert (error.value.wanted, error.value.first, error.value.high) == (Range(name, 0, start, end), 12, 30)
    # What is there is given before what is missing is told.
    rows = reader.rows(Range(name, 0, 25, 40), ("offset",))
    assert next(rows)["offset"].to_pylist() == list(range(25, 30))
    with pytest.raises(OffsetsGone) as error:
        next(rows)
    assert error.value.wanted == Range(name, 0, 30, 40)


def test_a_reader_waits_for_nobody_who_looked_away(bootstrap: str, topic: MakeTopic) -> None:
    name = topic()
    write(bootstrap, name, 1, 2000, ["none"])
    with Reader(bootstrap, fetch_bytes=4000) as reader:
        rows = reader.raw(name, 0, 0, 2000)
        next(rows)
        assert asyncio.all_tasks(reader._loop)
        rows.close()  # type: ignore[attr-defined]  # it is a generator
        until(lambda: not asyncio.all_tasks(reader._loop), "the fetching to end")
    assert "octoloom-fetching" not in [thread.name for thread in threading.enumerate() if thread.is_alive()]
    reader.close()


def test_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
    with Reader(f"127.0.0.1:{port}", first_ms=300) as reader, pytest.raises(Unreachable, match="no broker answers"):
        reader.topics()


# Without brokers.


def batch_at(offset: int, count: int) -> bytes:
    return build_batch([Record(0, 0, None, b"x") for _ in range(count)], base_offset=offset)


def test_batches_that_are_cut_off_or_beyond_the_end_are_left_out() -> None:
    data = batch_at(0, 3) + batch_at(3, 2) + batch_at(5, 4)
    size = len(batch_at(0, 3)) + len(batch_at(3, 2))
    assert whole(memoryview(data), 100) == (memoryview(data), 9)
    assert whole(memoryview(data), 5) == (memoryview(data[:size]), 5)
    assert whole(memoryview(data)[:-1], 100) == (memoryview(data[:size]), 5)
    assert whole(memoryview(data)[:40], 100) == (memoryview(b""), -1)


class Given(RawOrigin):
    def __init__(self, *chunks: Buffer) -> None:
        self._chunks = chunks

    def raw(self, topic: str, partition: int, start: int, end: int) -> Iterator[Buffer]:
        return iter(self._chunks)


def test_damage_is_named() -> None:
    batch = bytearray(batch_at(7, 3))
    batch[-1] ^= 1
    with pytest.raises(Damaged, match="a batch of moves-0 between the offsets 7 and 10 is damaged"):
        list(Given(batch).rows(Range("moves", 0, 7, 10), ALL))


def test_rows_come_in_batches_of_a_good_size() -> None:
    origin = Given(*(batch_at(number * 1000, 1000) for number in range(150)))
    sizes = [batch.num_rows for batch in origin.rows(Range("moves", 0, 0, 150_000), ("offset",))]
    assert sum(sizes) == 150_000
    assert all(8_000 <= size <= 64_000 for size in sizes)


def test_slices_are_equal() -> None:
    import pyarrow as pa

    rows: Any = pa.RecordBatch.from_pydict({"a": list(range(130_000))})
    assert [part.num_rows for part in sliced(rows)] == [43_334, 43_334, 43_332]
    assert [part.num_rows for part in sliced(rows[:5])] == [5]
