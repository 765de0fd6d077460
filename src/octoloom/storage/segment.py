"""One segment of a log: a file of record batches, exactly as they arrived, and what is known about them.

Invariants
1. Bytes are served only after this process wrote them or proved them: the CRC, offset and leader epoch of every batch
   in their chunk. Each chunk is proved once, when it is first read, so that opening a large log costs nothing and
   reading it costs a checksum.
2. What was found damaged stays so (`damage`, the offset up to which the segment is whole) until it is cut off.
3. The segment that is written to, and those that are not saved yet, hold their file and index themselves (`pinned`).
   All others share a bounded number of places in a cache, and can be loaded again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from octoloom.core.errors import StoreError
from octoloom.storage.log_damage import DamagedLog
from octoloom.storage.log_files import Buffer, OpenFile, append_whole
from octoloom.storage.log_index import FORMAT, NO_TIME, EpochStarts, SavedIndex, SparseIndex, load_index, save_index
from octoloom.storage.log_scan import Placed, Scan, first_wrong
from octoloom.storage.reader_cache import Reader, ReaderCache
from octoloom.wire.kafka.batches import HEADER_SIZE, BatchHeader, read_header

PROVE_BYTES = 1024 * 1024
"""Read and checked at once, if the chunk is not larger by itself."""
WALK_BYTES = 64 * 1024


class Segment:
    __slots__ = (
        "_cache",
        "_directory",
        "_proven",
        "_spacing",
        "base",
        "damage",
        "end",
        "epochs",
        "pinned",
        "saved_size",
        "size",
        "time_max",
    )

    def __init__(self, directory: str, base: int, spacing: int, cache: ReaderCache) -> None:
        self._directory, self._spacing, self._cache = directory, spacing, cache
        self.base = self.end = base
        self.size = self.saved_size = 0
        self.time_max = NO_TIME
        self.epochs: EpochStarts = []
        self.damage: int | None = None
        self.pinned: Reader | None = None
        self._proven: bytearray | None = None
        """One byte for each chunk that was written by an earlier process; None: there is nothing left to prove."""

    @property
    def path(self) -> str:
        return segment_path(self._directory, self.base)

    @property
    def index_path(self) -> str:
        return index_path(self._directory, self.base)

    # Making and loading.

    def create(self) -> None:
        """Makes the file of a new segment. The directory is for the caller to sync."""
        file = OpenFile(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self.pinned = Reader(file, SparseIndex(self._spacing))

    def adopt(self, saved: SavedIndex) -> None:
        """Takes over what an earlier process knew. All of it is still to be proved."""
        self.end, self.size, self.time_max = saved.end, saved.size, saved.time_max
        self.epochs = list(saved.epochs)
        self.saved_size = saved.size
        self._proven = bytearray(len(saved.offsets) // 8) or None

    def extend(self, scan: Scan) -> None:
        """Takes over what a scan has found, which is proved by that."""
        self.end, self.size, self.epochs, self.time_max = scan.end, scan.size, scan.epochs, scan.time_max

    def pin(self, index: SparseIndex | None = None) -> None:
        """Holds file and index itself, for writing."""
        file = OpenFile(self.path, os.O_RDWR)
        self.pinned = Reader(file, self._load_index(file) if index is None else index)
        self._cache.drop(self)

    def unpin(self) -> None:
        """Lets go of file and index, once the index is saved."""
        if self.pinned is not None:
            self._cache.put(self, self.pinned)
            self.pinned = None

    def forget(self) -> None:
        """The segment is gone. Whoever is still reading keeps the file."""
        self.pinned = None
        self._cache.drop(self)

    def reader(self) -> Reader:
        return self.pinned or self._cache.get(self) or self._load()

    def _load(self) -> Reader:
        try:
            file = OpenFile(self.path)
        except FileNotFoundError:
            raise self.damaged(self.base) from None
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error}") from error
        reader = Reader(file, self._load_index(file))
        self._cache.put(self, reader)
        return reader

    def _load_index(self, file: OpenFile) -> SparseIndex:
        saved = load_index(self.index_path, self.base)
        if saved is not None and (saved.end, saved.size) == (self.end, self.size):
            return saved.index(self._spacing)
        scan = Scan(SparseIndex(self._spacing), self.base)
        scan.run(file.read, self.size)
        self._proven = None
        if (scan.end, scan.size, scan.epochs) != (self.end, self.size, self.epochs):
            self.damaged(self._agreed(scan))
        return scan.index

    def _agreed(self, scan: Scan) -> int:
        """Up to where a scan found what should be there."""
        for ours, theirs in zip(self.epochs, scan.epochs, strict=False):
            if ours != theirs:
                return min(ours[1], theirs[1])
        return min(scan.end, self.end)

    def saved(self) -> SavedIndex:
        """What `save` writes. It is true once everything up to here is synced."""
        assert self.pinned is not None
        index = self.pinned.index
        columns = (index.offsets.tobytes(), index.positions.tobytes(), index.times.tobytes())
        return SavedIndex(FORMAT, self.base, self.end, self.size, self.time_max, list(self.epochs), *columns)

    def save(self, saved: SavedIndex) -> bool:
        """False if there is no space for it. That costs a scan when the segment is loaded, and nothing else."""
        try:
            save_index(self.index_path, saved)
        except OSError:
            return False
        self.saved_size = saved.size
        return True

    def file_size(self) -> int:
        """What the file really has."""
        return self.reader().file.size()

    def older_than(self, now_ms: int, age_ms: int) -> bool:
        """Whether even the youngest record is. A negative age is none."""
        if age_ms < 0:
            return False
        # Producers may leave the time out. Then the file's own has to do.
        time_max = self.time_max if self.time_max >= 0 else int(os.stat(self.path).st_mtime * 1000)
        return now_ms - time_max > age_ms

    # Writing.

    def write(self, batches: Sequence[Buffer], size: int) -> None:
        """On OSError nothing was written. Otherwise `note` follows."""
        assert self.pinned is not None
        append_whole(self.pinned.file, batches, self.size, size)

    def note(self, headers: Sequence[BatchHeader]) -> None:
        """These batches now lie at the end of the file."""
        assert self.pinned is not None
        add, position, epochs = self.pinned.index.add, self.size, self.epochs
        for header in headers:
            time = header.max_timestamp
            add(header.base_offset, position, time)
            position += header.size
            if time > self.time_max:
                self.time_max = time
            if not epochs or header.leader_epoch > epochs[-1][0]:
                epochs.append((header.leader_epoch, header.base_offset))
        self.size, self.end = position, headers[-1].next_offset

    def cut(self, position: int, offset: int) -> None:
        """Drops all from the batch at `position`, which begins at `offset`. From now on this segment is written to."""
        assert 0 < position <= self.size
        index = self.reader().index
        file = OpenFile(self.path, os.O_RDWR)
        os.ftruncate(file.fd, position)
        os.fdatasync(file.fd)
        self._cache.drop(self)
        self.size, self.end, self.damage, self.saved_size = position, offset, None, 0
        self.epochs = [start for start in self.epochs if start[1] < offset]
        chunk = index.chunk_at(position)
        walk_from, walk_offset = index.positions[chunk], index.offsets[chunk]
        index.drop_from(chunk)
        # Whoever found this position has proved the chunk up to here, so it need not be proved again.
        if self._proven is not None:
            del self._proven[chunk:]
            self._proven = self._proven if 0 in self._proven else None
        self.pinned = Reader(file, index)
        for place, header in self.walk(walk_from, walk_offset):
            index.add(header.base_offset, place, header.max_timestamp)
        self.time_max = max(index.times, default=NO_TIME)

    # Proving.

    def check(self, offset: int) -> None:
        """Raises if the offset lies behind known damage."""
        if self.damage is not None and offset >= self.damage:
            raise DamagedLog(self.path, self.damage)

    def damaged(self, offset: int) -> DamagedLog:
        """Remembers that the segment is whole up to there only."""
        self.damage = offset if self.damage is None else min(offset, self.damage)
        return DamagedLog(self.path, self.damage)

    def walk(self, position: int, offset: int) -> Iterator[Placed]:
        """Proved batches from the one at `position`, which begins at `offset`, up to the end or the known damage."""
        reader = self.reader()
        start, data = position, b""
        while position < self.size and offset != self.damage:
            if self._proven is not None:
                chunk = reader.index.chunk_at(position)
                self.prove(reader, chunk, chunk)
            if position + HEADER_SIZE > start + len(data):
                start, data = position, reader.file.read(WALK_BYTES, position)
                if len(data) < HEADER_SIZE:
                    # It was whole before, and somebody else has cut it since.
                    raise self.damaged(offset)
            header = read_header(data, position - start)
            yield position, header
            position, offset = position + header.size, header.next_offset

    def prove(self, reader: Reader, first: int, last: int) -> None:
        """Checks the chunks `first` to `last`, as far as nobody has. Known damage is no news, and raises nothing."""
        proven, positions = self._proven, reader.index.positions
        chunk = first
        while proven is not None and chunk <= min(last, len(proven) - 1):
            stop = chunk + 1
            if not proven[chunk]:
                while stop <= min(last, len(proven) - 1) and positions[stop] - positions[chunk] < PROVE_BYTES:
                    stop += 1
                self._prove_run(reader, proven, chunk, stop)
            chunk = stop

    def _prove_run(self, reader: Reader, proven: bytearray, chunk: int, stop: int) -> None:
        index = reader.index
        position, end, end_offset = index.positions[chunk], self.size, self.end
        if stop < len(index):
            end, end_offset = index.positions[stop], index.offsets[stop]
        data = memoryview(reader.file.read(end - position, position))
        whole = first_wrong(data, index.offsets[chunk], end_offset, self.epochs)
        if whole is None:
            proven[chunk:stop] = b"\1" * (stop - chunk)
            if 0 not in proven:
                self._proven = None
        elif self.damage is None or whole < self.damage:
            self.damage = whole
            # Whoever cuts here should not have to come back for damage that lies before it.
            self.prove(reader, 0, chunk - 1)
            raise DamagedLog(self.path, whole)


def segment_path(directory: str, base: int) -> str:
    return f"{directory}/{base:020d}.log"


def index_path(directory: str, base: int) -> str:
    return f"{directory}/{base:020d}.index"
