"""Group commit: one thread appends, another syncs, and nobody takes a byte for durable that is not.

A sync looks at the log's end first and syncs every file that may hold something below it. Whatever is appended in the
meantime waits for the next sync. Only then is the end that it saw `synced`, and only then may an index on disk say so.

A sync that fails is never tried again. The kernel may have dropped the pages that it could not write and marked them
clean, and would answer yes the second time. The log has failed, and who opens it anew finds what the disk really has.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from octoloom.core.errors import StoreError
from octoloom.storage.log_files import sync_directory
from octoloom.storage.log_index import SavedIndex
from octoloom.storage.segment import Segment
from octoloom.wire.kafka.batches import BatchHeader

CLOSED = "it is closed"


class Commit:
    __slots__ = ("_checkpoint_bytes", "_dirty", "_failed", "_moment", "_new_names", "_path", "_syncing", "synced")

    def __init__(self, path: str, active: Segment, new_names: int, checkpoint_bytes: int) -> None:
        self._path = path
        self._checkpoint_bytes = checkpoint_bytes
        self._failed = ""
        self._syncing = Lock()
        self._moment = Lock()
        """Held for moments, so that a sync sees the end and the files of one and the same append."""
        self._dirty = [active]
        """The segments that are not both synced and saved, in order. The last one is the active one."""
        self._new_names = new_names
        """1: there are files whose names are not durable yet; 2: the directory's own name is not either."""
        self.synced = active.end

    # From the thread that appends.

    def note(self, segment: Segment, headers: Sequence[BatchHeader]) -> None:
        with self._moment:
            segment.note(headers)

    def rolled(self, segment: Segment) -> None:
        """From now on this segment is the active one."""
        with self._moment:
            self._dirty.append(segment)
            self._new_names = max(self._new_names, 1)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """No sync runs inside. Whoever is inside leaves everything durable, and tells by `settled`."""
        with self._syncing:
            self.check()
            with self.or_fail():
                yield

    def settled(self, segments: Sequence[Segment]) -> None:
        """These are the segments now, all of them synced."""
        self._dirty = [segment for segment in segments if segment.pinned is not None]
        self.synced = segments[-1].end

    # From any thread.

    def check(self) -> None:
        if self._failed:
            raise StoreError(f"{self._path}: {self._failed}; open the log anew")

    def fail(self, reason: str) -> None:
        self._failed = self._failed or reason

    @contextmanager
    def or_fail(self) -> Iterator[None]:
        """An OSError inside leaves files that recovery understands, but that this process no longer does."""
        try:
            yield
        except OSError as error:
            self.fail(f"its files could not be changed ({error})")
            self.check()

    def sync(self) -> int:
        """Makes durable what was appended before this call; answers the offset up to which everything is."""
        with self._syncing:
            self.check()
            with self._moment:
                dirty, new_names, self._new_names = list(self._dirty), self._new_names, 0
                active = dirty[-1]
                end = active.end
                is_due = active.size - active.saved_size >= self._checkpoint_bytes
                saved = active.saved() if is_due else None
            if end > self.synced or new_names:
                self._sync_files(dirty, new_names)
                self.synced = end
                self._save(dirty, saved)
            return end

    def close(self) -> None:
        """Syncs, and lets the next opening find everything known. Further work is refused."""
        if self._failed == CLOSED:
            return
        try:
            self.sync()
            with self._syncing:
                active = self._dirty[-1]
                if active.size != active.saved_size:
                    active.save(active.saved())
        finally:
            self.fail(CLOSED)

    def _sync_files(self, dirty: list[Segment], new_names: int) -> None:
        try:
            for segment in dirty:
                assert segment.pinned is not None
                os.fdatasync(segment.pinned.file.fd)
            if new_names > 0:
                sync_directory(self._path)
            if new_names > 1:
                sync_directory(os.path.dirname(self._path))
        except OSError as error:
            self.fail(f"it could not be synced ({error})")
            self.check()

    def _save(self, dirty: list[Segment], saved: SavedIndex | None) -> None:
        """Sealed segments can leave memory once their index is saved. If it cannot be, the next sync tries again."""
        for segment in dirty[:-1]:
            if segment.save(segment.saved()):
                segment.unpin()
                with self._moment:
                    self._dirty.remove(segment)
        if saved is not None:
            dirty[-1].save(saved)
