"""One replica of one partition, read from its files while a broker goes on writing them.

The broker's own code opens a log to own it: it scans the tail, cuts what is torn and saves indexes. A guest only looks,
remembers nothing, and believes nothing that it has not checked: an index may be of a file that was replaced, a segment
may be gone since the folder was listed, and what is written last may be half there. So the index is only a hint where
to begin, every batch's CRC is checked, and offsets have to follow one another.

Files are read in large pieces by descriptors that stay open, so a segment that retention removes is read to its end.
They are not mapped into memory: a broker that cuts a damaged log would end this process.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from octoloom.runtime.broker_logs import SIDE, Side
from octoloom.storage.log_damage import DamagedLog
from octoloom.storage.log_files import OpenFile, load_checked
from octoloom.storage.log_index import SparseIndex, load_index
from octoloom.storage.log_recovery import load_start
from octoloom.storage.log_scan import Placed, Scan, whole_batches
from octoloom.storage.reader_cache import Reader, ReaderCache
from octoloom.storage.segment import Segment, index_path, segment_path
from octoloom.storage.segment_search import first_at
from octoloom.wire.kafka.batches import HEADER_SIZE, read_header

PIECE_BYTES = 4 * 1024 * 1024
"""Read at once. A batch that is larger is read whole."""
BATCH_BYTES_MAX = 128 * 1024 * 1024
"""No broker takes a batch that is larger; what claims to be is damaged."""
SPACING = 64 * 1024

_SEGMENT = re.compile(r"[0-9]{20}\.log")
_side_decoder = msgspec.msgpack.Decoder(Side)


@dataclass(frozen=True, slots=True)
class ReplicaFiles:
    """One replica of one partition, as it lies in its folder. Nothing is remembered: the broker goes on writing."""

    folder: str

    def high(self) -> int:
        """Everything below it is committed; 0 if the broker has not said so yet."""
        data = load_checked(os.path.join(self.folder, f"{SIDE}.side"))
        try:
            return 0 if data is None else _side_decoder.decode(data).high
        except msgspec.MsgspecError:
            return 0

    def start(self) -> int:
        """The first offset that is there."""
        return max(load_start(self.folder), min(self._bases(), default=0))

    def bounds(self) -> tuple[int, int]:
        """(start, high); the same number twice if there is nothing to read."""
        # The watermark first: retention may move the start meanwhile, and never beyond the watermark.
        high = self.high()
        start = self.start()
        return start, max(start, high)

    def _bases(self) -> list[int]:
        try:
            return sorted(int(name[:20]) for name in os.listdir(self.folder) if _SEGMENT.fullmatch(name))
        except OSError:
            return []

    def pieces(self, offset: int, before: int) -> Iterator[tuple[memoryview, int]]:
        """Whole batches from the one that holds `offset` until `before` is passed, each piece with the next offset.

        Raises `DamagedLog` where the files do not hold what they should, or hold it no more.
        """
        while offset < before:
            bases = self._bases()
            at = bisect_right(bases, offset) - 1
            if at < 0 or offset < load_start(self.folder):
                raise DamagedLog(self.folder, offset)
            begun = offset
            for piece, offset in self._segment_pieces(bases[at], offset, before):  # noqa: B020
                yield piece, offset
            if offset == begun:
                raise DamagedLog(segment_path(self.folder, bases[at]), offset)

    def offset_at(self, ms: int, start: int, high: int) -> int:
        """The first offset from `start` up to `high` whose record is not older; -1 if there is none."""
        for base in self._bases():
            found = first_at(self._segment(base), ms, start) if base < high else None
            if found is not None:
                return found[0] if found[0] < high else -1
        return -1

    def _segment(self, base: int) -> Segment:
        """A segment for looking, not for writing, with all that can be found in its file."""
        segment, index = Segment(self.folder, base, 1, ReaderCache(1)), SparseIndex(SPACING)
        saved = load_index(segment.index_path, base)
        if saved is not None:
            segment.adopt(saved)
            index = saved.index(SPACING)
        try:
            file = OpenFile(segment.path)
        except OSError:
            raise DamagedLog(segment.path, base) from None
        scan = Scan(index, segment.end, segment.size, segment.epochs, segment.time_max)
        scan.run(file.read, file.size())
        segment.extend(scan)
        segment.pinned = Reader(file, index)
        return segment

    def _segment_pieces(self, base: int, offset: int, before: int) -> Iterator[tuple[memoryview, int]]:
        """The same of one segment; ends where the segment ends, or where it is not whole."""
        try:
            file = OpenFile(segment_path(self.folder, base))
        except OSError:
            return
        position, expected = self._chunk(file, base, offset)
        size, wanted = file.size(), PIECE_BYTES
        while expected < before and position < size:
            data = file.read(min(wanted, size - position), position)
            batches = whole_batches(memoryview(data))
            if not batches:
                claimed = read_header(data).size if len(data) >= HEADER_SIZE else 0
                if not wanted < claimed <= min(BATCH_BYTES_MAX, size - position):
                    return
                wanted = claimed
                continue
            first, last, expected, is_whole = _stretch(batches, expected, offset, before)
            if last > first:
                yield memoryview(data)[first:last], expected
            if not is_whole:
                return
            position, wanted = position + last, PIECE_BYTES

    def _chunk(self, file: OpenFile, base: int, offset: int) -> tuple[int, int]:
        """(position, offset) of a batch at or before the one that holds the offset, as the index on disk says."""
        saved = load_index(index_path(self.folder, base), base)
        if saved is not None and saved.offsets:
            index = saved.index(1)
            chunk = max(index.chunk_of(offset), 0)
            position, first = index.positions[chunk], index.offsets[chunk]
            head = file.read(HEADER_SIZE, position)
            # The file may be another one by now than the index was made for.
            if len(head) == HEADER_SIZE and read_header(head).base_offset == first:
                return position, first
        return 0, base


def _stretch(batches: Sequence[Placed], expected: int, offset: int, before: int) -> tuple[int, int, int, bool]:
    """What is to be served of batches of which the first should begin at `expected`.

    (where it begins, where it ends, the offset after it, whether the rest belongs to the same log)
    """
    first = last = 0
    for place, header in batches:
        if expected >= before:
            break
        if header.base_offset != expected:
            return first, last, expected, False
        expected, last = header.next_offset, place + header.size
        if expected <= offset:
            first = last
    return first, last, expected, True
