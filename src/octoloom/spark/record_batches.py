"""Record batches as Arrow: from the bytes that a fetch brings, or a segment holds, to columns, many records at a time.

A loop in Python over every field of every record would take longer than all that Spark does with them afterwards. So
there is one step per record at most, which finds where the next one begins (`record_walk`); after that each field is
read for all records at once (`record_fields`), and Arrow gathers keys and values from the raw bytes (`byte_pieces`).
The columns are those of Spark's Kafka source, in Arrow's types as Spark wants them.

1. Whatever the bytes are, the answer is a `RecordBatch` or `CorruptBatch`, in time and memory in proportion to their
   size and to the named maxima.
2. What comes out equals what `wire.kafka.records` reads, one by one. It also reads numbers of more than 64 bits, which
   no column can hold: those are corrupt here.
3. Only the columns that are asked for are made. Headers that are not asked for are not looked into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from octoloom.core.errors import UsageError
from octoloom.spark import record_fields, record_headers
from octoloom.spark.byte_pieces import DATA_MAX, PiecePairs
from octoloom.spark.record_fields import Fields
from octoloom.spark.record_walk import RECORD_SIZE_MIN
from octoloom.spark.varints import Integers
from octoloom.wire.kafka.batches import HEADER_SIZE, BatchHeader, Buffer, CorruptBatch, check_batches
from octoloom.wire.kafka.compression import decompress
from octoloom.wire.kafka.records import CODEC_MASK, CONTROL, RECORDS_MAX

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", record_headers.TYPE),
    ]
)
SPARK_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
ALL: tuple[str, ...] = tuple(SCHEMA.names)

ROWS_MAX = 16_000_000
"""Records in one Arrow batch."""
PIECE_ROWS = 16_384
PIECE_BYTES = 16 * 1024 * 1024
"""A piece ends with the batch that brings it to one of these: so it stays in the cache, here and in Spark's Java."""

_MICROS = 1_000
_MILLIS_MAX = ((1 << 63) - 1) // _MICROS


def schema_of(columns: Sequence[str]) -> Any:
    """The schema with these columns only, in this order."""
    if not columns or any(name not in ALL for name in columns) or len(set(columns)) != len(columns):
        raise UsageError(f"there are no such columns: {', '.join(columns)!r}. Name some of {', '.join(ALL)}, each once")
    return pa.schema([SCHEMA.field(name) for name in columns])


def decode(
    buffers: Iterable[Buffer],
    topic: str,
    partition: int,
    *,
    start: int = 0,
    end: int | None = None,
    columns: Sequence[str] = ALL,
) -> Any:
    """The records from offset `start` up to `end`, which is left out, as one `pyarrow.RecordBatch`.

    Each buffer is whole batches (`whole_size` tells what is to be cut off). Control batches hold nothing for a reader.
    """
    wanted = _Wanted(topic, partition, start, end, schema_of(columns))
    piece = _Piece()
    for batch in _batches(buffers, wanted):
        piece.add(*batch)
    return _table(piece, wanted)


def decode_in_pieces(
    buffers: Iterable[Buffer],
    topic: str,
    partition: int,
    *,
    start: int = 0,
    end: int | None = None,
    columns: Sequence[str] = ALL,
) -> Iterator[Any]:
    """The same as several Arrow batches, none of them empty or much larger than a piece, whatever a codec hid."""
    wanted = _Wanted(topic, partition, start, end, schema_of(columns))
    piece = _Piece()
    for batch in _batches(buffers, wanted):
        piece.add(*batch)
        if piece.rows >= PIECE_ROWS or piece.size >= PIECE_BYTES:
            yield from filter(len, [_table(piece, wanted)])
            piece = _Piece()
    yield from filter(len, [_table(piece, wanted)])


class _Wanted(NamedTuple):
    topic: str
    partition: int
    start: int
    end: int | None
    schema: Any


def _batches(buffers: Iterable[Buffer], wanted: _Wanted) -> Iterator[tuple[Buffer, int, BatchHeader]]:
    """The batches that may hold something wanted, each as its buffer, its position there and its header."""
    for buffer in buffers:
        for position, header in check_batches(memoryview(buffer)):
            if header.attributes & CONTROL or header.next_offset <= wanted.start:
                continue
            if wanted.end is None or header.base_offset < wanted.end:
                yield buffer, position, header


@dataclass(slots=True)
class _Piece:
    """Batches on their way into one Arrow batch, decompressed."""

    headers: list[BatchHeader] = field(default_factory=list)
    chunks: list[Buffer] = field(default_factory=list)
    """The records of each batch."""
    starts: list[int] = field(default_factory=list)
    whole: bytes | None = None
    """The buffer in which all chunks lie, from `starts` on, if there is one: then nothing need be copied."""
    rows: int = 0
    size: int = 0

    def add(self, buffer: Buffer, position: int, header: BatchHeader) -> None:
        start = position + HEADER_SIZE
        codec = header.attributes & CODEC_MASK
        chunk: Buffer = memoryview(buffer)[start : position + header.size]
        chunk = decompress(codec, chunk) if codec else chunk
        if header.count > RECORDS_MAX or header.count * RECORD_SIZE_MIN > len(chunk):
            raise CorruptBatch(f"{header.count} records in {len(chunk)} bytes")
        if codec or not isinstance(buffer, bytes) or (self.chunks and self.whole is not buffer):
            self.whole = None
        elif not self.chunks and len(buffer) <= DATA_MAX:
            self.whole = buffer
        self.headers.append(header)
        self.chunks.append(chunk)
        self.starts.append(start)
        self.rows += header.count
        self.size += len(chunk)
        if self.rows > ROWS_MAX or self.size > DATA_MAX:
            raise CorruptBatch(f"{self.rows} records of {self.size} bytes are too much at once: decode them in pieces")

    def fields(self) -> tuple[bytes, Fields]:
        raw, starts = self.whole, self.starts
        sizes = np.array([len(chunk) for chunk in self.chunks])
        if raw is None:
            raw, starts = b"".join(self.chunks), (np.cumsum(sizes) - sizes).tolist()
        return raw, record_fields.read(raw, starts, (starts + sizes).tolist(), self.headers)


def _table(piece: _Piece, wanted: _Wanted) -> Any:
    if not piece.rows:
        return pa.RecordBatch.from_pylist([], wanted.schema)
    raw, fields = piece.fields()
    inside = fields.offsets >= wanted.start
    if wanted.end is not None:
        inside &= fields.offsets < wanted.end
    if not inside.all():
        fields = fields.of(inside)
    return pa.RecordBatch.from_arrays(_columns(raw, fields, wanted), schema=wanted.schema)


def _columns(raw: bytes, fields: Fields, wanted: _Wanted) -> list[Any]:
    count = fields.offsets.size
    pairs = PiecePairs(raw, fields.key_starts, fields.key_ends, fields.value_starts, fields.value_ends)
    data = np.frombuffer(raw, np.uint8)
    makers = {
        "key": lambda: pairs.first(fields.key_sizes < 0),
        "value": lambda: pairs.second(fields.value_sizes < 0),
        "topic": lambda: pa.repeat(pa.scalar(wanted.topic), count),
        "partition": lambda: pa.array(np.full(count, wanted.partition, np.int32)),
        "offset": lambda: pa.array(fields.offsets),
        "timestamp": lambda: _timestamps(fields.timestamps),
        "timestampType": lambda: pa.array(fields.appended.astype(np.int32)),
        "headers": lambda: record_headers.column(raw, data, fields.header_counts, fields.header_starts, fields.ends),
    }
    return [makers[name]() for name in wanted.schema.names]


def _timestamps(millis: Integers) -> Any:
    """Microseconds. A producer may say what it likes; what they cannot hold becomes the first or the last they can."""
    micros = np.clip(millis, -_MILLIS_MAX, _MILLIS_MAX) * _MICROS
    return pa.Array.from_buffers(SCHEMA.field("timestamp").type, micros.size, [None, pa.py_buffer(micros)])
