"""Windows become batches: against a twin that goes row by row with the functions of every other producer."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.core.errors import UsageError
from octoloom.spark import sink_batches
from octoloom.spark.sink_batches import Batcher
from octoloom.spark.sink_columns import Window, sizes_of
from octoloom.spark.sink_numbers import tag_of
from octoloom.wire.kafka.compression import CODECS
from octoloom.wire.kafka.partitioner import partition_of
from octoloom.wire.kafka.records import Record, build_batch, read_records

TAG = tag_of("q", 3, 5)
NOW = 1_700_000_000_000
PARTITIONS = {"a": 1, "b": 3, "c": 7}
BYTES = 300

Row = tuple[str, int | None, bytes | None, bytes | None, int]
"""(topic, partition, key, value, timestamp)"""

contents = st.none() | st.binary(max_size=100)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    topic = draw(st.sampled_from(sorted(PARTITIONS)))
    partition = draw(st.none() | st.integers(0, PARTITIONS[topic] - 1))
    return topic, partition, draw(contents), draw(contents), draw(st.just(-1) | st.integers(0, 2**41))


def window(given: list[Row], position: int = 0) -> Window:
    topics, partitions, keys, values, times = (list(column) for column in zip(*given, strict=True))
    made = pa.RecordBatch.from_pydict(
        {
            "topic": pa.array(topics, pa.string()),
            "partition": pa.array(partitions, pa.int32()),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "timestamp": pa.array(times, pa.int64()),
        }
    )
    return Window(made, sizes_of(made), position)


def twin(given: list[list[Row]], first: int) -> dict[tuple[str, int], list[bytes]]:
    """What is sent to each partition, made one row at a time."""
    sent: dict[tuple[str, int], list[bytes]] = {}
    sequences: dict[tuple[str, int], int] = {}
    position = 0
    for piece in given:
        places: dict[tuple[str, int], list[list[Record]]] = {}
        held: dict[tuple[str, int], int] = {}
        for topic, partition, key, value, time in piece:
            if partition is None and key is not None:
                partition = partition_of(key, PARTITIONS[topic])
            elif partition is None:
                partition = (first + position) % PARTITIONS[topic]
            position += 1
            place, size = (topic, partition), 32 + len(key or b"") + len(value or b"")
            if place not in held or held[place] + size > BYTES:
                places.setdefault(place, []).append([])
                held[place] = 0
            held[place] += size
            places[place][-1].append(Record(0, NOW if time == -1 else time, key, value))
        for place, batches in places.items():
            for batch in batches:
                sequence = sequences.get(place, 0)
                wire = build_batch(batch, producer_id=TAG[0], producer_epoch=TAG[1], base_sequence=sequence)
                sent.setdefault(place, []).append(wire)
                sequences[place] = sequence + len(batch)
    return sent


@settings(deadline=None)
@given(st.lists(st.lists(rows(), min_size=1, max_size=12), max_size=3))
def test_batches_are_those_of_a_twin_that_goes_row_by_row(given: list[list[Row]]) -> None:
    batcher, position = Batcher(TAG, 3), 0
    sent: dict[tuple[str, int], list[bytes]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink_batches, "BATCH_BYTES", BYTES)
        for piece in given:
            made = batcher.batches(window(piece, position), PARTITIONS, NOW)
            assert sum(batch.count for batch in made) == len(piece)
            for batch in made:
                sent.setdefault(batch.place, []).append(batch.wire)
            position += len(piece)
    assert sent == twin(given, 3)


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_can_be_read(codec: str) -> None:
    piece: list[Row] = [("a", None, b"k", b"v" * 100, 5), ("a", None, None, None, 9)]
    (batch,) = Batcher(TAG, 0, codec).batches(window(piece), PARTITIONS, NOW)
    assert read_records(batch.wire) == [Record(0, 5, b"k", b"v" * 100), Record(1, 9, None, None)]


def test_a_topic_for_all_rows() -> None:
    only = pa.RecordBatch.from_pydict({"value": pa.array([b"x"] * 7, pa.binary())})
    made = Batcher(TAG, 2, topic="b").batches(Window(only, sizes_of(only), 0), PARTITIONS, NOW)
    assert [(batch.place, batch.count) for batch in made] == [(("b", 0), 2), (("b", 1), 2), (("b", 2), 3)]


def test_a_row_without_a_topic_is_refused() -> None:
    piece: list[Row] = [("a", None, None, b"", 0), ("b", None, None, b"", 0)]
    made = window(piece, 40)
    nowhere = made.rows.set_column(0, "topic", pa.array(["a", None]))
    with pytest.raises(UsageError, match="row 41 of Spark partition 3 has no topic: fill the column, or set topic"):
        Batcher(TAG, 3).topics(made._replace(rows=nowhere))


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_that_is_not_there_is_refused(partition: int) -> None:
    piece: list[Row] = [("b", 2, None, b"", 0), ("b", partition, b"key", b"", 0)]
    with pytest.raises(UsageError, match=f"row 1 of Spark partition 0 is for partition {partition} of b, which has 3"):
        Batcher(TAG, 0).batches(window(piece), PARTITIONS, NOW)
