"""The index of one segment: where its batches lie and how young they are, once per chunk and not once per batch.

A segment is cut into chunks: a new one begins with the first batch that lies `spacing` bytes after the last chunk's
beginning, or after `CHUNK_BATCHES_MAX` batches. Of each chunk the index knows its first offset, its position in the
file and its largest timestamp; what lies within is found by walking headers. The newest batches are known one by one,
because that is where followers and most consumers read.

Saved to disk, an index is also a promise: up to `size` the segment was whole and synced, ended at offset `end` and had
these leader epochs. The CRC of a batch does not cover its leader epoch, so this is the only witness for that.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

import msgspec

from octoloom.storage.log_files import load_checked, save_checked

FORMAT = 1
CHUNK_BATCHES_MAX = 128
NO_TIME = -1

EpochStarts = list[tuple[int, int]]
"""(leader epoch, its first offset), both rising."""


class SparseIndex:
    __slots__ = ("_count", "_near_mark", "near_offsets", "near_positions", "offsets", "positions", "spacing", "times")

    def __init__(self, spacing: int) -> None:
        self.spacing = spacing
        self.offsets, self.positions, self.times = array("q"), array("q"), array("q")
        self.near_offsets, self.near_positions = array("q"), array("q")
        self._near_mark = 0
        self._count = CHUNK_BATCHES_MAX

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, offset: int, position: int, time: int) -> None:
        """A batch was appended."""
        if self._count >= CHUNK_BATCHES_MAX or position - self.positions[-1] >= self.spacing:
            self.offsets.append(offset)
            self.positions.append(position)
            self.times.append(time)
            self._count = 0
            # The chunk before this one stays near, so that a reader who is a little behind is still served at once.
            del self.near_offsets[: self._near_mark]
            del self.near_positions[: self._near_mark]
            self._near_mark = len(self.near_offsets)
        elif time > self.times[-1]:
            self.times[-1] = time
        self._count += 1
        self.near_offsets.append(offset)
        self.near_positions.append(position)

    def near(self, offset: int) -> tuple[int, int] | None:
        """(position, first offset) of the batch that holds the offset, if that batch is one of the newest."""
        if not self.near_offsets or offset < self.near_offsets[0]:
            return None
        at = bisect_right(self.near_offsets, offset) - 1
        return self.near_positions[at], self.near_offsets[at]

    def chunk_of(self, offset: int) -> int:
        return bisect_right(self.offsets, offset) - 1

    def chunk_at(self, position: int) -> int:
        return bisect_right(self.positions, position) - 1

    def drop_from(self, chunk: int) -> None:
        """Forgets this chunk and all after it, and what was near."""
        for column in (self.offsets, self.positions, self.times):
            del column[chunk:]
        del self.near_offsets[:], self.near_positions[:]
        self._near_mark, self._count = 0, CHUNK_BATCHES_MAX


class SavedIndex(msgspec.Struct, frozen=True, array_like=True):
    format: int
    base: int
    end: int
    size: int
    time_max: int
    epochs: EpochStarts
    offsets: bytes
    positions: bytes
    times: bytes

    def index(self, spacing: int) -> SparseIndex:
        index = SparseIndex(spacing)
        index.offsets.frombytes(self.offsets)
        index.positions.frombytes(self.positions)
        index.times.frombytes(self.times)
        return index

    def sound(self, base: int) -> bool:
        """Whether it can be the index of that segment."""
        width = len(self.offsets)
        if (
            self.format != FORMAT
            or self.base != base
            or width % 8
            or len(self.positions) != width
            or len(self.times) != width
        ):
            return False
        if not width:
            return self.size == 0 and self.end == base
        first, last = array("q", self.offsets[:8])[0], array("q", self.offsets[-8:])[0]
        farthest = array("q", self.positions[-8:])[0]
        return base == first <= last < self.end and farthest < self.size and bool(self.epochs)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SavedIndex)


def save_index(path: str, saved: SavedIndex) -> None:
    """Not synced: an index that is lost or damaged costs a scan of its segment, and nothing else."""
    save_checked(path, _encoder.encode(saved), sync=False)


def load_index(path: str, base: int) -> SavedIndex | None:
    """The saved index, or None if it is missing, damaged, or of something else."""
    data = load_checked(path)
    if data is None:
        return None
    try:
        saved = _decoder.decode(data)
    except msgspec.MsgspecError:
        return None
    return saved if saved.sound(base) else None
