"""From a window of rows to record batches that are ready to send: placed, ordered, cut, numbered and sealed.

`Batcher` holds the one thing that lasts from window to window: how many records each partition has been given.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from octoloom.core.errors import UsageError
from octoloom.spark.sink_columns import NO_TIME, Window
from octoloom.spark.sink_encoding import Integers, offsets_of, records
from octoloom.spark.sink_numbers import BATCH_BYTES, Tag, by_key, cuts, in_turn
from octoloom.wire.kafka.batches import HEADER_SIZE, MAGIC
from octoloom.wire.kafka.client_messages import TopicPartition
from octoloom.wire.kafka.compression import compress, number_of
from octoloom.wire.kafka.records import RECORDS_MAX

SEQUENCES = 1 << 31
"""Numbers start again at 0 after so many."""

_FRONT = struct.Struct(">qiibI")
_COVERED = struct.Struct(">hiqqqhii")
"""The header of a batch up to the CRC, and what the CRC covers of it; see `wire.kafka.batches`."""
_TOPIC_SHIFT = 32
_UNPLACED = -1


class Batch(NamedTuple):
    place: TopicPartition
    count: int  # type: ignore[assignment]  # tuple.count is of no use to a batch
    sequence: int
    wire: bytes


class Batcher:
    """Makes the record batches of one task."""

    def __init__(self, tag: Tag, spark_partition: int, codec: str = "none", topic: str | None = None) -> None:
        self._tag = tag
        self._first = spark_partition
        self._codec = number_of(codec)
        self._topic = topic
        self._sequences: dict[TopicPartition, int] = {}

    def topics(self, window: Window) -> list[str]:
        """The topics that its rows go to."""
        if self._topic is not None:
            return [self._topic]
        column = window.rows.column("topic")
        if column.null_count:
            row = window.position + int(np.flatnonzero(column.is_null())[0])
            raise UsageError(f"row {row} of Spark partition {self._first} has no topic: fill the column, or set topic")
        return [str(name) for name in pc.unique(column).to_pylist()]

    def batches(self, window: Window, partitions: Mapping[str, int], now_ms: int) -> list[Batch]:
        """The rows as batches, those of each partition in order. `partitions` says how many a topic has."""
        names = self.topics(window)
        counts = np.array([partitions[name] for name in names], np.int64)
        codes = self._codes(window, names)
        places = self._partitions(window, names, codes, counts[codes])
        keys = codes << _TOPIC_SHIFT | places
        rows, sizes = window.rows, window.sizes
        if (keys[1:] < keys[:-1]).any():
            order = np.argsort(keys, kind="stable")
            rows, sizes, keys = rows.take(pa.array(order)), sizes[order], keys[order]
        return self._sealed(rows, names, keys, _ends(keys, sizes), now_ms)

    # Where a row goes.

    def _codes(self, window: Window, names: list[str]) -> Integers:
        """For each row the place of its topic in the list."""
        if len(names) == 1:
            return np.zeros(window.rows.num_rows, np.int64)
        return np.asarray(pc.index_in(window.rows.column("topic"), pa.array(names)), np.int64)

    def _partitions(self, window: Window, names: list[str], codes: Integers, counts: Integers) -> Integers:
        rows = window.rows
        there = rows.schema.names
        places = np.full(rows.num_rows, _UNPLACED, np.int64)
        if "partition" in there:
            places = np.asarray(pc.fill_null(rows.column("partition"), _UNPLACED), np.int64)
            asked = np.asarray(rows.column("partition").is_valid())
            wrong = np.flatnonzero(asked & ((places < 0) | (places >= counts)))
            if len(wrong):
                row, topic = window.position + int(wrong[0]), names[codes[wrong[0]]]
                raise UsageError(
                    f"row {row} of Spark partition {self._first} is for partition {places[wrong[0]]} of {topic}, which "
                    f"has {counts[wrong[0]]}, counted from 0: name one of those, or leave partition null"
                )
        if "key" in there:
            key = rows.column("key")
            keyed = np.flatnonzero((places == _UNPLACED) & np.asarray(key.is_valid()))
            if len(keyed):
                places[keyed] = by_key(key if len(keyed) == len(key) else key.take(pa.array(keyed)), counts[keyed])
        left = np.flatnonzero(places == _UNPLACED)
        places[left] = in_turn(self._first, window.position + left, counts[left])
        return places

    # What is sent.

    def _sealed(
        self, rows: pa.RecordBatch, names: list[str], keys: Integers, ends: list[int], now_ms: int
    ) -> list[Batch]:
        begins = [0, *ends[:-1]]
        batch_of = np.repeat(np.arange(len(ends)), np.diff([0, *ends]))
        firsts = np.array(begins)[batch_of]
        times = self._times(rows, now_ms)
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        made = records(
            columns.get("key"),
            columns["value"],
            columns.get("headers"),
            np.arange(rows.num_rows) - firsts,
            None if times is None else times - times[firsts],
        )
        offsets, data = offsets_of(made), memoryview(made.buffers()[2])
        latest = np.full(len(ends), now_ms) if times is None else np.maximum.reduceat(times, begins)
        batches = []
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            place = names[keys[begin] >> _TOPIC_SHIFT], int(keys[begin]) & (1 << _TOPIC_SHIFT) - 1
            earliest = now_ms if times is None else int(times[begin])
            payload = data[offsets[begin] : offsets[end]]
            batches.append(self._seal(place, end - begin, payload, earliest, int(latest[number])))
        return batches

    def _times(self, rows: pa.RecordBatch, now_ms: int) -> Integers | None:
        if "timestamp" not in rows.schema.names:
            return None
        times = np.asarray(rows.column("timestamp"), np.int64)
        return np.where(times == NO_TIME, now_ms, times)

    def _seal(self, place: TopicPartition, count: int, payload: memoryview, first_ms: int, last_ms: int) -> Batch:
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = (sequence + count) % SEQUENCES
        body = compress(self._codec, bytes(payload)) if self._codec else payload
        covered = _COVERED.pack(self._codec, count - 1, first_ms, last_ms, *self._tag, sequence, count)
        crc = crc32c(body, crc32c(covered))
        front = _FRONT.pack(0, HEADER_SIZE - 12 + len(body), -1, MAGIC, crc)
        return Batch(place, count, sequence, b"".join((front, covered, body)))


def _ends(keys: Integers, sizes: Integers) -> list[int]:
    """Where batches end: a batch has rows of one place, as many as fit."""
    ends: list[int] = []
    begin = 0
    for end in [*(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(keys)]:
        ends += [begin + cut for cut in cuts(sizes[begin:end], BATCH_BYTES, RECORDS_MAX)]
        begin = end
    return ends
