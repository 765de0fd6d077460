"""The fields of many records, read all at once: where they lie, and the numbers among them.

A record is its length, a byte of attributes, how far its timestamp and its offset are from those of its batch, then
key, value and headers, each behind its size or number. Every number here is a varint, so every position depends on the
one before it; but only within a record, and so each step is taken for all records together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from octoloom.spark import varints
from octoloom.spark.record_walk import Walk
from octoloom.spark.varints import Bytes, Integers
from octoloom.wire.kafka.batches import BatchHeader, CorruptBatch
from octoloom.wire.kafka.records import LOG_APPEND_TIME


class Fields(NamedTuple):
    """One entry for each record. A key or value that is null has a negative size."""

    offsets: Integers
    timestamps: Integers
    appended: Integers
    """1 where the timestamp is when the record was appended to the log, 0 where it is the producer's."""
    key_sizes: Integers
    key_starts: Integers
    value_sizes: Integers
    value_starts: Integers
    header_counts: Integers
    header_starts: Integers
    ends: Integers

    @property
    def key_ends(self) -> Integers:
        return _end(self.key_starts, self.key_sizes)

    @property
    def value_ends(self) -> Integers:
        return _end(self.value_starts, self.value_sizes)

    def of(self, rows: Integers | NDArray[np.bool_]) -> Fields:
        return Fields(*(column[rows] for column in self))


def read(raw: bytes, starts: Sequence[int], ends: Sequence[int], headers: Sequence[BatchHeader]) -> Fields:
    """The records of batches whose records lie in `raw` from `starts` to `ends`; whole, or it raises.

    Only the insides of headers are not looked at.
    """
    data = np.frombuffer(raw, np.uint8)
    counts = np.array([header.count for header in headers])
    record_ends, bodies = _bounds(raw, data, starts, ends, counts)
    # The first byte of a body holds attributes, of which there are none yet.
    apart, at = varints.read(data, bodies + 1)
    delta, at = varints.read(data, at)
    key_sizes, key_starts = _sizes(data, at)
    value_sizes, value_starts = _sizes(data, _end(key_starts, key_sizes))
    header_counts, header_starts = varints.read(data, _end(value_starts, value_sizes))
    if header_counts.min() < 0:
        raise CorruptBatch("a record with a negative number of headers")
    # Positions only grow, and the last of them is held against the end: nothing was read that is not there.
    misfits = header_starts > record_ends if header_counts.any() else header_starts != record_ends
    if misfits.any() or (header_starts[header_counts == 0] != record_ends[header_counts == 0]).any():
        raise CorruptBatch("a record does not end where its fields do")
    appended = np.array([header.attributes & LOG_APPEND_TIME for header in headers]) != 0
    base_timestamps = np.array([header.base_timestamp for header in headers], np.int64)
    timestamps = _sum(np.repeat(base_timestamps, counts), apart)
    if appended.any():
        logged = np.repeat(np.array([header.max_timestamp for header in headers], np.int64), counts)
        timestamps = np.where(np.repeat(appended, counts), logged, timestamps)
    base_offsets = np.array([header.base_offset for header in headers], np.int64)
    return Fields(
        _sum(np.repeat(base_offsets, counts), delta),
        timestamps,
        np.repeat(appended.astype(np.int64), counts),
        key_sizes,
        key_starts,
        value_sizes,
        value_starts,
        header_counts,
        header_starts,
        record_ends,
    )


def _bounds(
    raw: bytes, data: Bytes, starts: Sequence[int], ends: Sequence[int], counts: Integers
) -> tuple[Integers, Integers]:
    """For each record where it ends, and where it begins behind its length."""
    walk = Walk(raw, data)
    for start, end, count in zip(starts, ends, counts.tolist(), strict=True):
        walk.batch(start, end, count)
    positions = walk.positions()
    lengths, bodies = _sizes(data, positions)
    record_ends = bodies + lengths
    following = np.empty_like(positions)
    following[:-1] = positions[1:]
    following[np.cumsum(counts) - 1] = ends
    if (record_ends != following).any():
        raise CorruptBatch("a record does not end where the next one begins, or its batch ends")
    return record_ends, bodies


def _sizes(data: Bytes, positions: Integers) -> tuple[Integers, Integers]:
    sizes, ends = varints.read(data, positions)
    # With sizes beyond this, positions could overflow and come back to where they seem right.
    if sizes.max() > data.size:
        raise CorruptBatch(f"{sizes.max()} bytes are in no record here")
    return sizes, ends


def _end(starts: Integers, sizes: Integers) -> Integers:
    return starts + np.maximum(sizes, 0)


def _sum(base: Integers, apart: Integers) -> Integers:
    found = base + apart
    if (((base ^ found) & (apart ^ found)) < 0).any():
        raise CorruptBatch("an offset or a timestamp of more than 64 bits")
    return found
