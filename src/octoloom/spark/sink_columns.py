"""What may be written: the columns of Spark's Kafka sink, checked once and brought into one form.

A frame has `value` (string or binary), and perhaps `key`, `topic`, `partition`, `headers` and `timestamp`. The columns
`offset` and `timestampType` are left alone, so that what the source reads can be written as it is. Any other column is
refused: a misspelt `key` would otherwise be lost without a word.

Rows come in the pieces that Spark makes; `windows` makes them into pieces that depend on the rows alone. Behind a
shuffle their order is not to be relied on, either; `in_order` makes one that depends on the rows alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from octoloom.core.errors import UsageError
from octoloom.spark.sink_encoding import Integers, encoded_headers, lengths
from octoloom.spark.sink_numbers import ROW_OVERHEAD, WINDOW_BYTES, WINDOW_ROWS, cuts

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

HEADERS = "array<struct<key:string,value:binary>>"
TYPES = {
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": (HEADERS,),
    "timestamp": ("timestamp",),
}
IGNORED = ("offset", "timestampType")
NO_TIME = -1
ORDER = ("topic", "partition", "key", "value", "headers", "timestamp")
SORTED_BYTES_MAX = 256 * 1024 * 1024


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raises if a frame of this schema cannot be written."""
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    if len(found) != len(schema.fields):
        raise UsageError(f"two columns have one name ({', '.join(schema.names)}): select each once")
    for name, kind in found.items():
        if name in IGNORED:
            continue
        if name not in TYPES:
            raise UsageError(f"the sink has no column {name!r}: select only {', '.join(TYPES)}")
        if kind not in TYPES[name]:
            raise UsageError(f"the column {name} is of type {kind}: cast it to {' or '.join(TYPES[name])}")
    if "value" not in found:
        raise UsageError(f"there is no column value (there are {', '.join(found) or 'none'}): select one as value")
    if topic is None and "topic" not in found:
        raise UsageError('it is not said where to write: add .option("topic", "…"), or a column topic')


class Window(NamedTuple):
    """Rows that are numbered, sent and forgotten together."""

    rows: pa.RecordBatch
    sizes: Integers
    position: int
    """Of its first row among the rows of the task."""


def in_order(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows, by their contents. They are held in memory, and that is bounded."""
    held: list[pa.RecordBatch] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += int(sizes_of(piece).sum())
        if size > SORTED_BYTES_MAX:
            text = f"the rows of one Spark partition have more than {SORTED_BYTES_MAX >> 20} MiB, too much to sort"
            raise UsageError(f"{text}: repartition() into more, or have smaller batches")
    if held:
        table = pa.Table.from_batches(held)
        by = [(name, "ascending") for name in ORDER if name in table.column_names]
        yield from table.sort_by(by).to_batches()


def windows(pieces: Iterable[pa.RecordBatch]) -> Iterator[Window]:
    """All rows in order, in pieces that are the same however the rows came."""
    held: list[pa.RecordBatch] = []
    sizes = np.zeros(0, np.int64)
    position = 0
    for piece in pieces:
        if piece.num_rows == 0:
            continue
        held.append(piece)
        sizes = np.concatenate((sizes, sizes_of(piece)))
        # The last window may yet grow: it is kept until it is known to be full.
        *ends, _ = cuts(sizes, WINDOW_BYTES, WINDOW_ROWS)
        if ends:
            table, begin = pa.Table.from_batches(held), 0
            for end in ends:
                yield Window(_one(table.slice(begin, end - begin)), sizes[begin:end], position + begin)
                begin = end
            held, sizes, position = table.slice(begin).to_batches(), sizes[begin:], position + begin
    if held:
        yield Window(_one(pa.Table.from_batches(held)), sizes, position)


def _one(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]


def normal(piece: pa.RecordBatch, topic: str | None) -> pa.RecordBatch:
    """The columns that are there, in the types that records are made from. A topic that is given has the last word."""
    columns: dict[str, pa.Array] = {}
    for name, column in zip(piece.schema.names, piece.columns, strict=True):
        if name in ("key", "value"):
            columns[name] = column.cast(pa.binary())
        elif name == "headers" and column.null_count < len(column):
            columns[name] = encoded_headers(column)
        elif name == "headers":
            columns[name] = pa.repeat(pa.scalar(b"\x00", pa.binary()), len(column))
        elif name == "partition":
            columns[name] = column.cast(pa.int32())
        elif name == "timestamp":
            columns[name] = _milliseconds(column)
        elif name == "topic" and topic is None:
            columns[name] = column.cast(pa.string())
    return pa.RecordBatch.from_pydict(columns)


def _milliseconds(column: pa.Array) -> pa.Array:
    """Since 1970, or `NO_TIME`."""
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    earliest = pc.min(micros).as_py()
    if earliest is not None and earliest < 0:
        raise UsageError("a timestamp before 1970 cannot be kept in a record: set it to null, or to a later one")
    return pa.array(np.asarray(pc.fill_null(micros, -1)) // 1000)


def sizes_of(rows: pa.RecordBatch) -> Integers:
    """What each row takes in a record batch, at most."""
    sizes = np.full(rows.num_rows, ROW_OVERHEAD, np.int64)
    for name in ("key", "value", "headers"):
        if name in rows.schema.names:
            sizes += np.maximum(lengths(rows.column(name)), 0)
    return sizes
