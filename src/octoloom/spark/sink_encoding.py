"""Kafka's records from Arrow's columns, thousands at a time and none by itself.

A record is a row of small pieces: its length, a byte of attributes, its distance in time and place from the first one
of its batch, then key, value and headers, each behind its length; `wire.kafka.records` says it record by record. Here
each piece is a column. The numbers become columns of bytes in a few passes of numpy, and Arrow joins the columns row by
row: what it makes lies in one buffer, and a batch of records is a slice of that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from octoloom.core.errors import UsageError

Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]

NULL = -1
"""The length of what is not there."""
_NO_HEADERS = pa.scalar(b"\x00", pa.binary())
_NOTHING = pa.scalar(b"", pa.binary())


class _Column:
    """Bytes of which each row uses some, as a table with a byte in each place and a note which of them count."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._bytes: list[Bytes] = []
        self._used: list[NDArray[np.bool_]] = []
        self.sizes: Integers = np.zeros(rows, np.int64)

    def add_zero(self) -> None:
        self._add(np.zeros(self.rows, np.uint8), np.ones(self.rows, np.bool_))

    def add_numbers(self, numbers: Integers) -> None:
        """Each as a varint: seven bits to a byte, the sign in the lowest bit."""
        left = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
        used = np.ones(self.rows, np.bool_)
        while True:
            rest = left >> np.uint64(7)
            more = rest > 0
            self._add(np.where(more, left | 0x80, left & 0x7F).astype(np.uint8), used)
            if not more.any():
                return
            left, used = rest, more

    def _add(self, values: Bytes, used: NDArray[np.bool_]) -> None:
        self._bytes.append(values)
        self._used.append(used)
        self.sizes += used

    def followed_by(self, other: _Column) -> _Column:
        joined = _Column(self.rows)
        joined._bytes, joined._used = self._bytes + other._bytes, self._used + other._used
        joined.sizes = self.sizes + other.sizes
        return joined

    def array(self) -> pa.Array:
        data = np.stack(self._bytes, axis=1)[np.stack(self._used, axis=1)]
        return _sliced(np.concatenate(([0], np.cumsum(self.sizes))), pa.py_buffer(data))


def _sliced(offsets: Integers, data: Any) -> pa.Array:
    """The slices of a buffer that lie between these offsets."""
    return pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int32)), data], null_count=0
    )


def _joined(*columns: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*columns, _NOTHING, null_handling="skip")


def lengths(column: pa.Array) -> Integers:
    """How long each of these is, or `NULL`."""
    return np.asarray(pc.fill_null(pc.binary_length(column), NULL).to_numpy(zero_copy_only=False), np.int64)


def offsets_of(column: pa.Array) -> Integers:
    """Where each of these begins in the column's buffer, and where the last one ends."""
    _, offsets, _ = column.buffers()
    return np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)


def records(
    keys: pa.Array | None, values: pa.Array, headers: pa.Array | None, places: Integers, times: Integers | None
) -> pa.Array:
    """A column of records. `headers` are encoded; places and times are distances from the first of the batch."""
    rows = len(values)
    key_sizes = lengths(keys) if keys is not None else np.full(rows, NULL)
    value_sizes = lengths(values)
    before_key, before_value, size = _Column(rows), _Column(rows), _Column(rows)
    before_key.add_zero()
    if times is None:
        before_key.add_zero()
    else:
        before_key.add_numbers(times)
    before_key.add_numbers(places)
    before_key.add_numbers(key_sizes)
    before_value.add_numbers(value_sizes)
    header_sizes = lengths(headers) if headers is not None else 1
    contents = np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0) + header_sizes
    size.add_numbers(before_key.sizes + before_value.sizes + contents)
    front = size.followed_by(before_key)
    last = headers if headers is not None else _NO_HEADERS
    if keys is None:
        return _joined(front.followed_by(before_value).array(), values, last)
    return _joined(front.array(), keys, before_value.array(), values, last)


def encoded_headers(column: pa.Array) -> pa.Array:
    """Headers (lists of key and value) as they stand at the end of a record."""
    entries = column.flatten()
    names = pc.struct_field(entries, "key").cast(pa.binary())
    values = pc.struct_field(entries, "value").cast(pa.binary())
    if names.null_count:
        raise UsageError("a header without a key: give every header a name, or leave the header out")
    before_name, before_value = _Column(len(entries)), _Column(len(entries))
    before_name.add_numbers(lengths(names))
    before_value.add_numbers(lengths(values))
    joined = _joined(before_name.array(), names, before_value.array(), values)
    counts = np.asarray(pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False), np.int64)
    first_entries = np.concatenate(([0], np.cumsum(counts)))
    number = _Column(len(column))
    number.add_numbers(counts)
    return _joined(number.array(), _sliced(offsets_of(joined)[first_entries], joined.buffers()[2]))
