"""Opening a log: what does its directory hold?

An index on disk says up to which byte its segment was whole and synced. So segments fall into two kinds:

- *Known*: those up to the last that has an index. Whatever they should hold was synced once. If something is missing
  there, that is damage: it is kept in mind and found again by whoever reads there, and nothing is cut.
- *Unknown*: what lies behind that index's word, in its own segment and in later ones. It was written shortly before
  the process ended and perhaps never synced. It is scanned batch by batch; the first that does not fit is where the
  log ends, and the rest is set aside.

The cost of opening is one small file for each segment, and a scan of what is unknown: at most what is written between
two saves of the newest index. A known segment whose index is missing or damaged is scanned as well.

Of the file system this asks that names become durable in the order in which they were made, as a journal keeps it.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from octoloom.storage.log_damage import set_bytes_aside, set_file_aside
from octoloom.storage.log_files import TEMPORARY, OpenFile, load_checked, remove, save_checked, sync_directory
from octoloom.storage.log_index import SavedIndex, SparseIndex, load_index
from octoloom.storage.log_scan import NO_EPOCH, OFFSET_MAX, Scan
from octoloom.storage.log_segments import LogSegments
from octoloom.storage.reader_cache import ReaderCache
from octoloom.storage.segment import Segment, index_path, segment_path

START_FILE = "start"
_SEGMENT_NAME = re.compile(r"[0-9]{20}\.log")


class Recovered(NamedTuple):
    segments: LogSegments
    start: int
    new_names: int
    """1: there is a segment whose name may not be durable yet; 2: the directory as well."""


def recover(directory: str, spacing: int, cache: ReaderCache) -> Recovered:
    os.makedirs(directory, exist_ok=True)
    names = os.listdir(directory)
    bases = sorted(int(name[:20]) for name in names if _SEGMENT_NAME.fullmatch(name))
    for name in names:
        is_orphan = name.endswith(".index") and f"{name[:20]}.log" not in names
        if is_orphan or name.endswith(TEMPORARY):
            remove(os.path.join(directory, name))
    start = load_start(directory)
    recovery = _Recovery(directory, spacing, cache, bases)
    segments = LogSegments(directory, spacing, cache, recovery.run())
    new_names = 0
    if not segments.items:
        segments.add(max(start, 0))
        new_names = 2
    elif segments.active.pinned is None:
        segments.add(segments.active.end)
        new_names = 1
    elif not segments.active.size:
        # Who made it may have ended before its first sync.
        new_names = 1 if len(segments.items) > 1 else 2
    while len(segments.items) > 1 and segments.items[1].base <= start:
        segments.drop_oldest()
    first, end = segments.items[0].base, segments.active.end
    if start > end:
        # What it was trimmed to is lost. What comes instead begins here, and must not vanish when the log grows.
        save_start(directory, end, sync=False)
    return Recovered(segments, min(max(start, first), end), new_names)


def load_start(directory: str) -> int:
    """Where the log begins, if that is not where a segment begins; -1 if it was never said."""
    data = load_checked(os.path.join(directory, START_FILE))
    return int.from_bytes(data, "little") if data is not None and len(data) == 8 else -1


def save_start(directory: str, start: int, sync: bool) -> None:
    save_checked(os.path.join(directory, START_FILE), start.to_bytes(8, "little"), sync)


class _Recovery:
    def __init__(self, directory: str, spacing: int, cache: ReaderCache, bases: list[int]) -> None:
        self._directory, self._spacing, self._cache, self._bases = directory, spacing, cache, bases
        self._segments: list[Segment] = []
        self._epoch = NO_EPOCH

    def run(self) -> list[Segment]:
        """The segments in order. The last one is pinned, unless it is short of what it should hold."""
        saved = [load_index(index_path(self._directory, base), base) for base in self._bases]
        newest = max((at for at, index in enumerate(saved) if index is not None), default=-1)
        for at in range(newest):
            self._known(saved[at], self._bases[at], self._bases[at + 1])
        rest = self._bases[max(newest, 0) :]
        for at, base in enumerate(rest):
            if at > 0 and base != self._segments[-1].end:
                self._set_aside(rest[at:])
                break
            self._unknown(saved[newest] if at == 0 and newest >= 0 else None, base)
        for segment in self._segments[:-1]:
            segment.unpin()
        return self._segments

    def _new(self, base: int) -> Segment:
        return Segment(self._directory, base, self._spacing, self._cache)

    def _add(self, segment: Segment) -> None:
        if segment.epochs:
            if segment.epochs[0][0] < self._epoch:
                # Each is whole, but they are not of the same log.
                segment.damaged(segment.base)
            self._epoch = max(self._epoch, segment.epochs[-1][0])
        self._segments.append(segment)

    # Known segments.

    def _known(self, saved: SavedIndex | None, base: int, next_base: int) -> None:
        segment = self._new(base)
        saved = saved if saved is not None and saved.end <= next_base else None
        if saved is not None:
            segment.adopt(saved)
        if segment.end != next_base:
            self._scan(segment, saved, next_base)
            if segment.end == next_base:
                segment.save(segment.saved())
        self._add(segment)
        if segment.end < next_base:
            segment.damaged(segment.end)
        segment.end = next_base

    # Unknown ones.

    def _unknown(self, saved: SavedIndex | None, base: int) -> None:
        segment = self._new(base)
        size = os.stat(segment.path).st_size
        if saved is not None:
            segment.adopt(saved)
            if size < saved.size:
                # Even what was synced is not there. Whoever reads it will find out; writing goes on in a new segment.
                self._add(segment)
                return
        file = self._scan(segment, saved)
        if segment.size < size:
            set_bytes_aside(self._directory, file, segment.size, segment.end)
            os.ftruncate(file.fd, segment.size)
        if segment.size > segment.saved_size or segment.size < size:
            # It can be read, but perhaps only because the machine has not forgotten it yet.
            os.fdatasync(file.fd)
            sync_directory(self._directory)
            if saved is None and not self._segments:
                # Without an index nobody knows of any sync, not even of one that made the log's own name durable.
                sync_directory(os.path.dirname(self._directory))
            segment.save(segment.saved())
        self._add(segment)

    def _scan(self, segment: Segment, saved: SavedIndex | None, until: int = OFFSET_MAX) -> OpenFile:
        """Reads what the saved index does not know, and pins the segment with what fits."""
        index = SparseIndex(self._spacing) if saved is None else saved.index(self._spacing)
        scan = Scan(index, segment.end, segment.size, segment.epochs, segment.time_max, self._epoch, until)
        segment.pin(index)
        assert segment.pinned is not None
        file = segment.pinned.file
        scan.run(file.read, file.size())
        segment.extend(scan)
        return file

    def _set_aside(self, bases: list[int]) -> None:
        for base in reversed(bases):
            remove(index_path(self._directory, base))
            set_file_aside(self._directory, segment_path(self._directory, base), base)
