"""Records, as they lie in a batch: build a batch of them, and read them back.

A record says of itself only what differs from its batch: its offset and timestamp as distances from the first ones,
lengths as varints (seven bits to a byte, the sign in the lowest bit), then key, value and headers. A broker never
looks in here; producers and consumers do, once per record, so both directions are one flat loop.

Whatever the bytes are, reading ends in a list of records or in `CorruptBatch`, in time and memory in proportion to
their size and to `DECOMPRESSED_MAX`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypedDict, Unpack

from crc32c import crc32c

from octoloom.core.errors import UsageError
from octoloom.wire.kafka.batches import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    Buffer,
    CorruptBatch,
    check_batches,
    read_header,
)
from octoloom.wire.kafka.compression import compress, decompress, number_of

Headers = tuple[tuple[str, bytes | None], ...]

RECORDS_MAX = 1_000_000
"""Records that one batch may have."""
RECORD_OVERHEAD_MAX = 32
"""A record without headers is at most this much larger than its key and value."""

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
CONTROL = 0x20

_FRONT = struct.Struct(">qiibI")
_COVERED = struct.Struct(">hiqqqhii")
"""The header up to the CRC, and what the CRC covers of it."""
_NO_HEADER = bytes(HEADER_SIZE)
_VARINT_BYTES_MAX = 10


class Record(NamedTuple):
    offset: int
    """Its place in the partition. A batch that is being built numbers its records itself and looks away."""
    timestamp: int
    """Milliseconds since 1970, or -1."""
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class BatchFields(TypedDict, total=False):
    """What a batch says beside its records: its producer's tag, if it has one, and what a leader fills in."""

    codec: str
    producer_id: int
    producer_epoch: int
    base_sequence: int
    base_offset: int
    leader_epoch: int


def build_batch(records: Sequence[Record], **fields: Unpack[BatchFields]) -> bytes:
    """One batch of these records, in this order. Timestamps are the records' own."""
    timestamps = [record[1] for record in records]
    first, last = (timestamps[0], max(timestamps)) if timestamps else (-1, -1)
    return bytes(seal(_encode(records, first), len(records), first, last, **fields))


def seal(
    pieces: list[bytes], count: int, base_timestamp: int, max_timestamp: int, **fields: Unpack[BatchFields]
) -> bytearray:
    """A batch of so many records, which are encoded already and are copied once."""
    number = number_of(fields.get("codec", "none"))
    if number:
        pieces = [compress(number, b"".join(pieces))]
    return seal_in_place(bytearray().join([_NO_HEADER, *pieces]), count, base_timestamp, max_timestamp, **fields)


def seal_in_place(
    batch: bytearray, count: int, base_timestamp: int, max_timestamp: int, **fields: Unpack[BatchFields]
) -> bytearray:
    """Writes the header of a batch whose records, compressed if they are to be, stand behind the room for it."""
    if not 0 < count <= RECORDS_MAX:
        raise UsageError(f"a batch has 1 to {RECORDS_MAX} records, not {count}: build several")
    number = number_of(fields.get("codec", "none"))
    producer = (fields.get(name, -1) for name in ("producer_id", "producer_epoch", "base_sequence"))
    _COVERED.pack_into(batch, _FRONT.size, number, count - 1, base_timestamp, max_timestamp, *producer, count)
    with memoryview(batch) as view:
        crc = crc32c(view[_FRONT.size :])
    base_offset, leader_epoch = fields.get("base_offset", 0), fields.get("leader_epoch", -1)
    _FRONT.pack_into(batch, 0, base_offset, len(batch) - 12, leader_epoch, MAGIC, crc)
    return batch


def _encode(records: Sequence[Record], base_timestamp: int) -> list[bytes]:
    parts: list[bytes] = []
    append = parts.append
    for delta, (_, timestamp, key, value, headers) in enumerate(records):
        apart = timestamp - base_timestamp
        body = b"".join(
            (
                b"\x00",
                _VARINTS[apart] if 0 <= apart < _TABLE_SIZE else varint(apart),
                _VARINTS[delta] if delta < _TABLE_SIZE else varint(delta),
                b"\x01" if key is None else varint(len(key)) + key,
                b"\x01" if value is None else varint(len(value)) + value,
                _encode_headers(headers) if headers else b"\x00",
            )
        )
        append(varint(len(body)))
        append(body)
    return parts


def _encode_headers(headers: Headers) -> bytes:
    parts = [varint(len(headers))]
    for name, value in headers:
        encoded = encoded_name(name)
        parts += (varint(len(encoded)), encoded)
        parts.append(b"\x01" if value is None else varint(len(value)) + value)
    return b"".join(parts)


def encoded_name(name: str) -> bytes:
    """A header's name as it lies in a record."""
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the header {name!r} is no text that UTF-8 can carry: {error.reason}") from error


def varint(value: int) -> bytes:
    """A signed number, small ones short."""
    if 0 <= value < _TABLE_SIZE:
        return _VARINTS[value]
    return _varint(value)


def _varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


_TABLE_SIZE = 2048
_VARINTS = [_varint(value) for value in range(_TABLE_SIZE)]


def read_records(batch: Buffer) -> list[Record]:
    """All records of the one batch that `batch` is. Its CRC is for `check_batches` to look at, once."""
    if len(batch) < HEADER_SIZE:
        raise CorruptBatch(f"{len(batch)} bytes are less than a header")
    header = read_header(batch)
    if header.magic != MAGIC or not 0 <= header.count <= RECORDS_MAX or header.size != len(batch):
        raise CorruptBatch(f"no batch of magic {MAGIC}, {header.size} bytes and {header.count} records")
    data = decompress(header.attributes & CODEC_MASK, memoryview(batch)[HEADER_SIZE:])
    try:
        return _decode(data, header)
    except IndexError:
        raise CorruptBatch("a record ends too early") from None


def _decode(data: bytes, header: BatchHeader) -> list[Record]:
    records: list[Record] = []
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    appended_at = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    position = 0
    for _ in range(header.count):
        length, start = read_varint(data, position)
        # Byte `start` holds the record's attributes, of which there are none yet.
        apart, position = read_varint(data, start + 1)
        delta, position = read_varint(data, position)
        key: bytes | None = None
        value: bytes | None = None
        size, position = read_varint(data, position)
        if size >= 0:
            key = data[position : position + size]
            position += size
        size, position = read_varint(data, position)
        if size >= 0:
            value = data[position : position + size]
            position += size
        headers: Headers = ()
        if data[position]:
            headers, position = read_headers(data, position)
        else:
            position += 1
        # Positions only grow, and the last of them is held against the end: nothing was read that is not there.
        if position != start + length:
            raise CorruptBatch(f"a record of {length} bytes ends after {position - start}")
        timestamp = base_timestamp + apart if appended_at is None else appended_at
        records.append(_new(Record, (base_offset + delta, timestamp, key, value, headers)))
    if position != len(data):
        raise CorruptBatch(f"{len(data) - position} bytes follow the last record")
    return records


_new = tuple.__new__


def read_headers(data: bytes, position: int) -> tuple[Headers, int]:
    """The headers at `position`, behind their number, and where they end."""
    count, position = read_varint(data, position)
    if count < 0:
        raise CorruptBatch(f"a record with {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = read_varint(data, position)
        if size < 0:
            raise CorruptBatch(f"a header with a name of {size} bytes")
        # Other clients let any bytes in as a name; one such record must not hold up the partition for ever.
        name = data[position : position + size].decode(errors="replace")
        position += size
        value: bytes | None = None
        size, position = read_varint(data, position)
        if size >= 0:
            value = data[position : position + size]
            position += size
        headers.append((name, value))
    return tuple(headers), position


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The signed number at `position`, and where it ends."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    # Two bytes reach up to 8 KiB, which is most of what there is.
    zigzag, byte = byte & 0x7F, data[position + 1]
    if byte < 0x80:
        zigzag |= byte << 7
        return (zigzag >> 1) ^ -(zigzag & 1), position + 2
    zigzag |= (byte & 0x7F) << 7
    shift = 14
    for end in range(position + 2, position + _VARINT_BYTES_MAX):
        byte = data[end]
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (zigzag >> 1) ^ -(zigzag & 1), end + 1
        shift += 7
    raise CorruptBatch(f"a number of more than {_VARINT_BYTES_MAX} bytes")


def read_fetched(buffer: Buffer, offset: int) -> tuple[list[Record], int]:
    """The records from `offset` on in the answer to a fetch, and the offset to fetch next.

    Control batches hold nothing for a reader.
    """
    records: list[Record] = []
    for header, batch in fetched_batches(buffer, offset):
        if not header.attributes & CONTROL:
            found = read_records(batch)
            if header.base_offset < offset:
                found = [record for record in found if record.offset >= offset]
            records += found
        offset = header.next_offset
    return records, offset


def fetched_batches(buffer: Buffer, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches with something from `offset` on in the answer to a fetch, all of them checked before the first.

    An answer begins with the batch that holds the offset, so records before it may come first; it may end with a
    batch that is cut off, which the next fetch brings whole.
    """
    view = memoryview(buffer)
    for position, header in check_batches(view[: whole_size(view)]):
        if header.next_offset > offset:
            yield header, view[position : position + header.size]


def next_offset_of(buffer: Buffer, offset: int) -> int:
    """The offset to fetch next, behind the whole batches in the answer to a fetch from `offset`, by their own word."""
    for header in _whole_headers(memoryview(buffer)):
        offset = max(offset, header.next_offset)
    return offset


def whole_size(buffer: memoryview) -> int:
    """How many bytes at the front of the buffer are whole batches, by their own word."""
    # What claims to be smaller than a header is for the check of batches to refuse.
    return min(sum(max(header.size, HEADER_SIZE) for header in _whole_headers(buffer)), len(buffer))


def _whole_headers(buffer: memoryview) -> Iterator[BatchHeader]:
    position, end = 0, len(buffer)
    while end - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        if header.size > end - position:
            break
        position += max(header.size, HEADER_SIZE)
        yield header
