"""Finding batches in a segment: by offset, by size, by time.

The index leads to a chunk, the headers in it to the batch. A slice that is bounded by its size ends where a chunk ends,
if it can: that place is known without reading, and the next slice will begin there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from octoloom.storage.log_files import OpenFile
from octoloom.storage.log_scan import Placed
from octoloom.storage.segment import Segment
from octoloom.wire.kafka.batches import BatchHeader, CorruptBatch
from octoloom.wire.kafka.records import LOG_APPEND_TIME, read_records


class FileSlice(NamedTuple):
    """Whole batches in a file, ready for `os.sendfile`. The file stays open as long as this is held."""

    file: OpenFile
    position: int
    size: int
    next_offset: int

    @property
    def fd(self) -> int:
        return self.file.fd

    def read(self) -> bytes:
        return self.file.read(self.size, self.position)


def find(segment: Segment, offset: int) -> tuple[int, int]:
    """(position, first offset) of the batch that holds the offset, or of the segment's end."""
    if offset >= segment.end:
        return segment.size, segment.end
    index = segment.reader().index
    near = index.near(offset)
    # An index may end where damage begins, and would take what lies beyond for a part of its last batch.
    if near is not None and segment.damage is None:
        return near
    chunk = index.chunk_of(offset)
    position, first = index.positions[chunk], index.offsets[chunk]
    if first < offset:
        for place, header in segment.walk(position, first):
            if header.next_offset > offset:
                break
            position, first = place + header.size, header.next_offset
    return position, first


def read_slice(segment: Segment, offset: int, bytes_max: int, before: int) -> FileSlice | None:
    """Whole batches from the one that holds `offset` up to offset `before`; one at least, however large, if any."""
    reader = segment.reader()
    segment.check(offset)
    position, first = find(segment, offset)
    stop, next_offset = _stop(segment, position, first, bytes_max, before)
    if stop <= position:
        return None
    segment.prove(reader, reader.index.chunk_at(position), reader.index.chunk_at(stop - 1))
    return FileSlice(reader.file, position, stop - position, next_offset)


def _stop(segment: Segment, position: int, first: int, bytes_max: int, before: int) -> tuple[int, int]:
    """(position, offset) where the slice ends that begins at `position` with offset `first`."""
    index, limit = segment.reader().index, position + bytes_max
    if segment.damage is not None:
        before = min(before, segment.damage)
    if before >= segment.end:
        if segment.size <= limit:
            return segment.size, segment.end
    elif index.positions[index.chunk_of(before)] <= limit:
        stop, next_offset = find(segment, before)
        if stop <= limit:
            return stop, next_offset
    chunk = index.chunk_at(limit)
    if index.positions[chunk] > position:
        return index.positions[chunk], index.offsets[chunk]
    stop, next_offset = position, first
    for place, header in segment.walk(position, first):
        is_first = place == position
        if header.next_offset > before or (place + header.size > limit and not is_first):
            break
        stop, next_offset = place + header.size, header.next_offset
    return stop, next_offset


def batches_from(segment: Segment, offset: int) -> Iterator[Placed]:
    """Every batch from the one that holds the offset. Raises where damage keeps it from going on."""
    segment.reader()
    segment.check(offset)
    for place, header in segment.walk(*find(segment, offset)):
        yield place, header
        offset = header.next_offset
    segment.check(offset)


def first_at(segment: Segment, timestamp: int, start: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record, from offset `start` on, that is not older than `timestamp`."""
    if segment.time_max < timestamp or segment.end <= start:
        return None
    reader = segment.reader()
    index = reader.index
    for chunk in range(max(index.chunk_of(start), 0), len(index)):
        if index.times[chunk] < timestamp:
            continue
        segment.check(index.offsets[chunk])
        end = index.offsets[chunk + 1] if chunk + 1 < len(index) else segment.end
        for place, header in segment.walk(index.positions[chunk], index.offsets[chunk]):
            if header.base_offset >= end:
                break
            if header.max_timestamp >= timestamp and header.next_offset > start:
                found = _first_record(reader.file.read(header.size, place), header, timestamp, start)
                if found is not None:
                    return found
    # Not found is an answer only if all of it could be read.
    segment.check(segment.end - 1)
    return None


def _first_record(batch: bytes, header: BatchHeader, timestamp: int, start: int) -> tuple[int, int] | None:
    if header.attributes & LOG_APPEND_TIME:
        return max(header.base_offset, start), header.max_timestamp
    try:
        records = read_records(batch)
    except CorruptBatch:
        # A producer may send records that nobody can read. Their batch is as near as one can come.
        return max(header.base_offset, start), header.max_timestamp
    for record in records:
        if record.timestamp >= timestamp and record.offset >= start:
            return record.offset, record.timestamp
    return None
