"""What of a run of bytes is a log: whole batches, one after the other, without a gap and without a step back in time.

Two readers ask. Who *proves* a stretch knows what it should hold (offsets and leader epochs, from a saved index) and
wants the first batch that differs. Who *scans* a tail, after a crash, knows nothing and takes what fits:

1. a batch is taken if its CRC is right, its first offset is the end of the one before and its epoch is not smaller;
2. the first that is not ends the scan, whatever follows it;
3. an epoch that a single batch claims and the next one contradicts ends the scan before both: no CRC covers it, and
   nobody can tell which of the two is wrong.

A leader epoch beyond the last saved index is believed if it fits (rule 1). A flipped bit there can pass for a change
of leaders; that is the one flip that magic 2 leaves no trace of.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from octoloom.storage.log_index import NO_TIME, EpochStarts, SparseIndex
from octoloom.wire.kafka.batches import HEADER_SIZE, BatchHeader, CorruptBatch, check_batches, read_header
from octoloom.wire.kafka.records import whole_size

PIECE_BYTES = 1024 * 1024
"""Read at once. A batch that is larger is read whole, but only if the file has room for what it claims."""
NO_EPOCH = -1
OFFSET_MAX = (1 << 63) - 1

ReadAt = Callable[[int, int], bytes]
"""(size, position) -> up to so many bytes"""
Placed = tuple[int, BatchHeader]
"""A batch's position and header."""


def whole_batches(view: memoryview) -> list[Placed]:
    """The whole batches at the front of the bytes, up to the first that is cut off or damaged."""
    whole = view[: whole_size(view)]
    try:
        return check_batches(whole)
    except CorruptBatch:
        return list(_one_by_one(whole))


def _one_by_one(view: memoryview) -> Iterator[Placed]:
    position = 0
    while len(view) - position >= HEADER_SIZE:
        header = read_header(view, position)
        if not HEADER_SIZE <= header.size <= len(view) - position:
            return
        try:
            check_batches(view[position : position + header.size])
        except CorruptBatch:
            return
        yield position, header
        position += header.size


def first_wrong(view: memoryview, offset: int, end: int, epochs: EpochStarts) -> int | None:
    """Where bytes stop being what they should be: the batches from `offset` to `end`, of these epochs. None: never."""
    at = bisect_right(epochs, offset, key=lambda start: start[1]) - 1
    position = 0
    try:
        batches = check_batches(view)
    except CorruptBatch:
        batches = whole_batches(view)
    for position_of, header in batches:
        if at + 1 < len(epochs) and epochs[at + 1][1] <= offset:
            at += 1
        if header.base_offset != offset or at < 0 or header.leader_epoch != epochs[at][0]:
            return offset
        offset, position = header.next_offset, position_of + header.size
    return None if offset == end and position == len(view) else min(offset, end)


@dataclass(slots=True)
class Scan:
    """What a scan has found so far: it goes on from here."""

    index: SparseIndex
    end: int
    size: int = 0
    epochs: EpochStarts = field(default_factory=list)
    time_max: int = NO_TIME
    epoch: int = NO_EPOCH
    """The last epoch before this segment; from there on they only rise."""
    until: int = OFFSET_MAX
    """Where the next segment begins."""
    _doubtful: Placed | None = None

    def __post_init__(self) -> None:
        self.epoch = self.epochs[-1][0] if self.epochs else self.epoch

    def run(self, read: ReadAt, limit: int) -> bool:
        """Takes what fits up to position `limit`. True if that is all there is; what fits ends at `size`."""
        position, wanted = self.size, PIECE_BYTES
        fits = True
        while fits and position < limit:
            data = read(min(wanted, limit - position), position)
            batches = whole_batches(memoryview(data))
            if not batches:
                claimed = read_header(data).size if len(data) >= HEADER_SIZE else 0
                # Reading more helps only a batch that is larger than a piece, and only once.
                if not wanted < claimed <= limit - position:
                    break
                wanted = claimed
                continue
            fits = all(self._take(position + place, header) for place, header in batches)
            place, header = batches[-1]
            position, wanted = position + place + header.size, PIECE_BYTES
        self._settle()
        return self.size == limit

    def _take(self, position: int, header: BatchHeader) -> bool:
        """Whether the batch fits behind the last one, which is thereby believed."""
        last = self._doubtful[1] if self._doubtful else None
        if header.base_offset != (last.next_offset if last else self.end) or header.next_offset > self.until:
            return False
        if header.leader_epoch < (last.leader_epoch if last else self.epoch):
            if header.leader_epoch >= self.epoch:
                self._doubtful = None
            return False
        self._settle()
        self._doubtful = (position, header)
        return True

    def _settle(self) -> None:
        if self._doubtful is None:
            return
        position, header = self._doubtful
        self._doubtful = None
        self.index.add(header.base_offset, position, header.max_timestamp)
        if header.leader_epoch > self.epoch or not self.epochs:
            self.epochs.append((header.leader_epoch, header.base_offset))
        self.epoch = header.leader_epoch
        self.end, self.size = header.next_offset, position + header.size
        self.time_max = max(self.time_max, header.max_timestamp)
