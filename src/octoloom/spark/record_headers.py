"""The headers of many records as one Arrow column, null where a record has none.

Most records have none, and those are never looked at. The others are read in rounds, with numpy: in each round the next
header of every record that has one more. Once few records are left, a loop reads what they have, so that a single
record with very many headers takes time in proportion to its size.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pyarrow as pa

from octoloom.spark import varints
from octoloom.spark.byte_pieces import PiecePairs, validity
from octoloom.spark.varints import Bytes, Integers
from octoloom.wire.kafka.batches import CorruptBatch

TYPE = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
"""The inner names are those that Spark gives."""

HEADERS_MAX = 8_000_000
"""Headers in one Arrow batch."""

_HEADER_SIZE_MIN = 2
_FEW = 16
"""A round over fewer records than this takes longer than a loop over them."""


def column(raw: bytes, data: Bytes, counts: Integers, starts: Integers, ends: Integers) -> Any:
    """One row for each record: its `counts` headers lie from `starts` to `ends`, all of them, or this raises."""
    if not counts.any():
        return pa.nulls(counts.size, TYPE)
    if (counts * _HEADER_SIZE_MIN > ends - starts).any():
        raise CorruptBatch("a record with more headers than it has room for")
    rows = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=rows[1:])
    if rows[-1] > HEADERS_MAX:
        raise CorruptBatch(f"{rows[-1]} headers at once are more than {HEADERS_MAX}: send them in smaller batches")
    some = np.flatnonzero(counts)
    edges = _edges(raw, data, counts[some], starts[some], ends[some])
    absent = edges[3] < 0
    edges[3] = np.maximum(edges[3], edges[2])
    pairs = PiecePairs(raw, *edges)
    names = _text(pairs.first(np.zeros(absent.size, np.bool_)))
    headers = pa.StructArray.from_arrays([names, pairs.second(absent)], fields=list(TYPE.value_type))
    buffers = [validity(counts == 0), pa.py_buffer(rows.astype(np.int32))]
    return pa.Array.from_buffers(TYPE, counts.size, buffers, children=[headers])


def _edges(raw: bytes, data: Bytes, counts: Integers, starts: Integers, ends: Integers) -> Integers:
    """For each header where its name begins and ends, and its value; a value that is null ends at -1."""
    firsts = np.cumsum(counts) - counts
    edges = np.empty((4, int(counts.sum())), np.int64)
    going, positions = np.arange(counts.size), starts
    for done in range(int(counts.max())):
        if going.size < _FEW:
            for one, position in zip(going.tolist(), positions.tolist(), strict=True):
                place = int(firsts[one]) + done
                found = _walk(raw, position, int(counts[one]) - done, int(ends[one]))
                edges[:, place : place + found.shape[1]] = found
            break
        places = firsts[going] + done
        sizes, names = varints.read(data, positions)
        if sizes.min() < 0 or sizes.max() > data.size:
            raise CorruptBatch("a header with a name of more bytes than there are, or less than none")
        name_ends = names + sizes
        sizes, values = varints.read(data, name_ends)
        if sizes.max() > data.size:
            raise CorruptBatch(f"{sizes.max()} bytes are in no header here")
        positions = values + np.maximum(sizes, 0)
        edges[:, places] = names, name_ends, values, np.where(sizes < 0, -1, positions)
        through = counts[going] == done + 1
        if (positions[through] != ends[going[through]]).any():
            raise CorruptBatch("a record does not end with its last header")
        going, positions = going[~through], positions[~through]
    return edges


def _walk(raw: bytes, position: int, count: int, end: int) -> Integers:
    """The same for the next `count` headers of one record, which are its last."""
    found = array("q")
    try:
        for _ in range(count):
            size, name = varints.read_one(raw, position)
            if size < 0:
                raise CorruptBatch(f"a header with a name of {size} bytes")
            size, value = varints.read_one(raw, name_end := name + size)
            position = value + max(size, 0)
            if position > end:
                break
            found.extend((name, name_end, value, -1 if size < 0 else position))
    except IndexError:
        raise CorruptBatch("a header ends too early") from None
    if position != end:
        raise CorruptBatch("a record does not end with its last header")
    return np.frombuffer(found, np.int64).reshape(-1, 4).T


def _text(names: Any) -> Any:
    """The names as text. Other clients let any bytes in as a name, and Arrow refuses what is not UTF-8."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())
