"""A log: one replica of one partition, a directory of segments that grows at its end and shrinks at its start.

Offsets: `start` is the first that is still there, `end` the next to be given, and what lies below `synced` survives a
loss of power. Batches are contiguous in offsets, and their leader epochs never fall.

Threads: everything is called from one thread, except `sync`, which may run in another while the first one appends and
reads. `truncate`, `reset` and `close` wait for a sync that is under way.

Failures, all of them `StoreError`:
1. An append that fails (no space, too large a file) leaves the log as it was.
2. A sync or a truncation that fails ends the log: it refuses all further work until it is opened anew.
3. `DamagedLog` names the offset up to which the log is whole.

A directory belongs to one process. Locking it is for the owner of the parent directory, who holds all logs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from octoloom.core.epochs import Epochs
from octoloom.core.errors import StoreError, UsageError
from octoloom.storage.log_commit import Commit
from octoloom.storage.log_files import Buffer, load_checked, remove, save_checked
from octoloom.storage.log_index import EpochStarts
from octoloom.storage.log_recovery import START_FILE, Recovered, recover, save_start
from octoloom.storage.reader_cache import SHARED, ReaderCache
from octoloom.storage.segment import Segment
from octoloom.storage.segment_search import FileSlice, batches_from, first_at, read_slice
from octoloom.wire.kafka.batches import BatchHeader

APPEND_BYTES_MAX = 1024 * 1024 * 1024
"""Linux writes at most 2 GiB in one call."""
SIDE_BYTES_MAX = 64 * 1024 * 1024
_SIDE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class LogSettings:
    segment_bytes: int = 128 * 1024 * 1024
    """An append that would make a segment larger goes to a new one. It is never split: a large one fills its own."""
    index_bytes: int = 64 * 1024
    """How far apart the entries of an index are: what is read to find one batch."""
    checkpoint_bytes: int = 16 * 1024 * 1024
    """So much is synced until the index of the active segment is saved: what is scanned after a crash."""

    def __post_init__(self) -> None:
        if min(self.segment_bytes, self.index_bytes, self.checkpoint_bytes) < 1:
            raise UsageError("a log's sizes are numbers of bytes, 1 or more")


class Log:
    __slots__ = ("_commit", "_segments", "_settings", "end", "epochs", "path", "size", "start")

    def __init__(self, path: str, settings: LogSettings, recovered: Recovered) -> None:
        """Use `Log.open`."""
        self.path, self._settings = path, settings
        self._segments, self.start, new_names = recovered
        self._commit = Commit(path, self._segments.active, new_names, settings.checkpoint_bytes)
        self.end = self._segments.active.end
        self.size = self._segments.size()
        self.epochs = self._segments.epochs(self.start)
        """(leader epoch, its first offset) of what lies between `start` and `end`."""

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], settings: LogSettings | None = None, cache: ReaderCache = SHARED
    ) -> Log:
        """The log in this directory, which is made if it is missing. A torn tail is cut off and set aside."""
        directory, settings = os.path.abspath(path), settings or LogSettings()
        try:
            return cls(directory, settings, recover(directory, settings.index_bytes, cache))
        except OSError as error:
            text = f"cannot open the log {directory}: {error}; check the path, its rights and the free space"
            raise StoreError(text) from error

    def close(self) -> None:
        """Syncs, and saves what makes the next opening quick. Slices that were handed out can still be read."""
        try:
            self._commit.close()
        finally:
            for segment in self._segments.items:
                segment.forget()

    @property
    def synced(self) -> int:
        return self._commit.synced

    def sync(self) -> int:
        """Makes durable what was appended before this call; answers the offset up to which everything is."""
        return self._commit.sync()

    # Appending.

    def append(self, batches: Sequence[Buffer], headers: Sequence[BatchHeader]) -> int:
        """Batches that are stamped already, in one write, behind all others. They are durable after the next sync.

        Answers how many bytes they are. These may come in other pieces than one for each batch, as long as all of them
        have a header.
        """
        self._commit.check()
        if not batches and not headers:
            return 0
        size, epochs = self._admit(batches, headers)
        segment = self._segments.items[-1]
        try:
            if segment.size and segment.size + size > self._settings.segment_bytes:
                segment = self._roll()
            segment.write(batches, size)
        except OSError as error:
            if segment.file_size() != segment.size:
                self._commit.fail(f"a failed write could not be undone ({error})")
            raise StoreError(f"cannot append {size} bytes to {self.path}: {error}; the log is as it was") from error
        self._commit.note(segment, headers)
        self.end = segment.end
        self.size += size
        if epochs and self.epochs and self.epochs[-1][1] == epochs[0][1]:
            # Nothing of the last epoch is left but its name.
            self.epochs.pop()
        self.epochs += epochs
        return size

    def _admit(self, batches: Sequence[Buffer], headers: Sequence[BatchHeader]) -> tuple[int, EpochStarts]:
        """The size of the batches and the epochs that begin with them, if they follow one another and the log."""
        epochs: EpochStarts = []
        offset, epoch, size = self.end, self.epochs[-1][0] if self.epochs else -1, 0
        for header in headers:
            if header.base_offset != offset or header.leader_epoch < epoch:
                raise UsageError(
                    f"a batch of offset {header.base_offset} and epoch {header.leader_epoch} does not follow "
                    f"offset {offset} and epoch {epoch}: stamp it first"
                )
            if header.leader_epoch > epoch:
                epoch = header.leader_epoch
                epochs.append((epoch, offset))
            offset = header.next_offset
            size += header.size
        given = sum(map(len, batches))
        if size != given:
            raise UsageError(f"the headers speak of {size} bytes, but there are {given}: give each batch its header")
        if size > APPEND_BYTES_MAX:
            raise UsageError(f"{size} bytes are too much for one append: append at most {APPEND_BYTES_MAX}")
        return size, epochs

    def _roll(self) -> Segment:
        """The next append goes to a new file. The old one is synced and saved by the next sync."""
        segment = self._segments.add(self.end)
        self._commit.rolled(segment)
        return segment

    # Reading.

    def read(self, offset: int, bytes_max: int, before: int) -> FileSlice | None:
        """Whole batches from the one that holds `offset`, up to offset `before` or the end of a segment.

        Up to `bytes_max`, but at least one batch; None if there is none below `before`. Raises `DamagedLog`.
        """
        self._check_place(offset)
        before = min(before, self.end)
        return read_slice(self._segments.at(offset), offset, bytes_max, before) if offset < before else None

    def headers(self, offset: int) -> Iterator[BatchHeader]:
        """The headers of all batches from the one that holds `offset`. The log must not change meanwhile."""
        self._check_place(offset)
        for segment in self._segments.since(offset):
            for _, header in batches_from(segment, max(offset, segment.base)):
                yield header

    def offset_at(self, timestamp: int, before: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record below `before` that is not older than `timestamp`.

        Where the records of a batch cannot be read, its first offset and largest timestamp stand for them.
        """
        self._commit.check()
        for segment in self._segments.since(self.start):
            if segment.base >= before:
                break
            found = first_at(segment, timestamp, self.start)
            if found is not None:
                return found if found[0] < before else None
        return None

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch up to `epoch` that the log has, and the offset where it ends; else (-1, -1)."""
        return Epochs(self.epochs).end_of(epoch, self.end)

    def _check_place(self, offset: int) -> None:
        self._commit.check()
        if not self.start <= offset <= self.end:
            raise UsageError(f"{self.path} holds {self.start} to {self.end}, not {offset}: ask for one of these")

    # Shrinking.

    def truncate(self, offset: int) -> int:
        """Drops all from the batch that holds `offset`, durably; answers the new end, which may lie below `offset`.

        If any of it is known to be damaged, it is set aside.
        """
        self._commit.check()
        if offset >= self.end:
            return self.end
        if offset < self._segments.items[0].base:
            raise UsageError(f"{self.path} begins at {self.start}, after {offset}: reset it instead")
        with self._commit.exclusive():
            self.end = self._segments.truncate(offset)
            if self.start > self.end:
                self.start = self.end
                save_start(self.path, self.start, sync=True)
            self._settle()
        return self.end

    def reset(self, offset: int) -> None:
        """Drops everything, durably; the log begins anew at `offset`."""
        if offset < 0:
            raise UsageError(f"a log begins at offset 0 or later, not at {offset}")
        with self._commit.exclusive():
            remove(os.path.join(self.path, START_FILE))
            self._segments.clear(offset)
            self.start = self.end = offset
            self._settle()

    def _settle(self) -> None:
        self.size = self._segments.size()
        self.epochs = self._segments.epochs(self.start)
        self._commit.settled(self._segments.items)

    def trim(self, offset: int) -> None:
        """The log begins at `offset` from now on; segments that lie below it are deleted, once they are synced.

        Not durable: after a loss of power the old start may be back.
        """
        self._commit.check()
        if offset > self.end:
            raise UsageError(f"{self.path} ends at {self.end}, before {offset}: reset it instead")
        if offset <= self.start:
            return
        self.start = offset
        self.drop_trimmed()
        if self._segments.items[0].base != offset:
            try:
                save_start(self.path, offset, sync=False)
            except OSError as error:
                raise StoreError(f"cannot keep the new start of {self.path}: {error}") from error

    def retain(self, now_ms: int, retention_ms: int, retention_bytes: int, before: int) -> bool:
        """Deletes the oldest segments that end at or below `before` and are too old, or more than is to be kept.

        A negative limit is none. Only synced segments go. Answers whether `start` has moved.
        """
        self._commit.check()
        start, active = self.start, self._segments.active
        with self._commit.or_fail():
            if active.size and self.end <= before and active.older_than(now_ms, retention_ms):
                # It is sealed now, synced next, and goes the time after that.
                self._roll()
            size = self.size
            for segment in self._segments.items[:-1]:
                is_much = 0 <= retention_bytes <= size - segment.size
                if segment.end > before or segment.pinned is not None:
                    break
                if not is_much and not segment.older_than(now_ms, retention_ms):
                    break
                size -= segment.size
                self.start = max(self.start, segment.end)
        self.drop_trimmed()
        return self.start > start

    def drop_trimmed(self) -> None:
        """Deletes what lies before the start, as far as it is synced."""
        with self._commit.or_fail():
            items = self._segments.items
            while len(items) > 1 and items[1].base <= self.start and items[0].pinned is None:
                self.size -= self._segments.drop_oldest().size
            self.epochs = self._segments.epochs(self.start)

    # Small things that belong to the log.

    def save_side(self, name: str, data: bytes, sync: bool = True) -> None:
        """Keeps `data` under this name, whole. Without `sync` a loss of power may bring the old data back, or none."""
        self._commit.check()
        if len(data) > SIDE_BYTES_MAX:
            raise UsageError(f"{len(data)} bytes are too much to keep beside a log: {SIDE_BYTES_MAX} at most")
        try:
            save_checked(self._side_path(name), data, sync)
        except OSError as error:
            raise StoreError(f"cannot keep {name!r} beside {self.path}: {error}; what was there stays") from error

    def load_side(self, name: str) -> bytes | None:
        """What was kept last; None if there is nothing, or if it is damaged."""
        return load_checked(self._side_path(name))

    def _side_path(self, name: str) -> str:
        if not _SIDE_NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no name: use up to 64 small letters, digits, - and _, a letter first")
        return os.path.join(self.path, f"{name}.side")
