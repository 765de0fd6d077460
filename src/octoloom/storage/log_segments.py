"""The segments of one log, in order, and how files come and go so that a crash in between does no harm.

Invariants
1. The segments are contiguous: each begins at the offset where the one before ends. The last one is written to.
2. An index on disk never promises what its segment no longer holds: before bytes are cut, the index is gone, durably.
3. Segments go oldest first (retention) or newest first (truncation), so what is left is always one stretch.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence

from octoloom.storage.log_damage import DamagedLog, set_bytes_aside, set_file_aside
from octoloom.storage.log_files import remove, sync_directory
from octoloom.storage.log_index import EpochStarts
from octoloom.storage.reader_cache import ReaderCache
from octoloom.storage.segment import Segment
from octoloom.storage.segment_search import find


class LogSegments:
    __slots__ = ("_bases", "_cache", "_spacing", "directory", "items")

    def __init__(self, directory: str, spacing: int, cache: ReaderCache, items: Sequence[Segment] = ()) -> None:
        self.directory, self._spacing, self._cache = directory, spacing, cache
        self.items = list(items)
        self._bases = [segment.base for segment in self.items]

    @property
    def active(self) -> Segment:
        return self.items[-1]

    def place_of(self, offset: int) -> int:
        """The number of the segment that holds the offset; of the last one, if it lies at or beyond the end."""
        return bisect_right(self._bases, offset) - 1

    def at(self, offset: int) -> Segment:
        return self.items[bisect_right(self._bases, offset) - 1]

    def since(self, offset: int) -> list[Segment]:
        """The segments from the one that holds the offset on."""
        return self.items[self.place_of(offset) :]

    def epochs(self, start: int) -> EpochStarts:
        """The epochs of all batches from the one that holds `start` on; the first of them counts from `start`."""
        merged: EpochStarts = []
        for segment in self.items:
            for epoch, offset in segment.epochs:
                if offset <= start:
                    merged = [(epoch, start)]
                elif not merged or epoch > merged[-1][0]:
                    merged.append((epoch, offset))
        return merged

    def size(self) -> int:
        return sum(segment.size for segment in self.items)

    # Changes. An OSError leaves a directory that recovery understands, but this list may no longer fit it.

    def add(self, base: int) -> Segment:
        """A new segment at the end, to write to. Its name is durable once the directory is synced."""
        segment = Segment(self.directory, base, self._spacing, self._cache)
        segment.create()
        self.items.append(segment)
        self._bases.append(base)
        return segment

    def drop_oldest(self) -> Segment:
        segment = self.items.pop(0)
        self._bases.pop(0)
        segment.forget()
        remove(segment.index_path)
        remove(segment.path)
        return segment

    def truncate(self, offset: int) -> int:
        """Drops all from the batch that holds the offset; answers that batch's first offset, which is the new end.

        If any of it is known to be damaged, what is dropped is set aside. When this returns, everything is durable.
        """
        place = self.place_of(offset)
        position, offset = self._boundary(self.items[place], offset)
        gone = self.items[place if position == 0 else place + 1 :]
        aside = any(segment.damage is not None for segment in self.items[place:])
        for segment in reversed(self.items[place:]):
            remove(segment.index_path)
        for segment in reversed(gone):
            self._drop_newest(segment, aside)
        for segment in self.items:
            if segment.pinned is not None:
                os.fdatasync(segment.pinned.file.fd)
        sync_directory(self.directory)
        if position == 0:
            self.add(offset)
            sync_directory(self.directory)
            return offset
        segment = self.items[place]
        if aside:
            set_bytes_aside(self.directory, segment.reader().file, position, offset)
        segment.cut(position, offset)
        segment.save(segment.saved())
        return offset

    def clear(self, base: int) -> None:
        """Drops everything and begins anew at offset `base`, durably."""
        aside = any(segment.damage is not None for segment in self.items)
        for segment in reversed(list(self.items)):
            remove(segment.index_path)
            self._drop_newest(segment, aside)
        sync_directory(self.directory)
        self.add(base)
        sync_directory(self.directory)

    def _boundary(self, segment: Segment, offset: int) -> tuple[int, int]:
        """Where the batch begins that holds the offset, or the first damaged one if that comes before it."""
        while offset > segment.base:
            try:
                segment.reader()
                if segment.damage is not None:
                    offset = min(offset, segment.damage)
                if offset > segment.base:
                    return find(segment, offset)
            except DamagedLog as error:
                offset = error.offset
        return 0, segment.base

    def _drop_newest(self, segment: Segment, aside: bool) -> None:
        assert self.items[-1] is segment
        self.items.pop()
        self._bases.pop()
        segment.forget()
        if aside:
            set_file_aside(self.directory, segment.path, segment.base)
        else:
            remove(segment.path)
