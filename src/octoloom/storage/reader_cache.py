"""The open files of segments that are only read: a bounded number per process, the least used go first.

A thousand logs of a hundred segments would be a hundred thousand descriptors and indexes. Whoever still holds a file
that falls out of here keeps it open until done.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock

from octoloom.storage.log_files import OpenFile
from octoloom.storage.log_index import SparseIndex

READERS_MAX = 256


@dataclass(frozen=True, slots=True)
class Reader:
    file: OpenFile
    index: SparseIndex


class ReaderCache:
    """Calls may come from any thread."""

    def __init__(self, readers_max: int = READERS_MAX) -> None:
        self._readers_max = readers_max
        self._readers: OrderedDict[Hashable, Reader] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._readers)

    def get(self, owner: Hashable) -> Reader | None:
        with self._lock:
            reader = self._readers.get(owner)
            if reader is not None:
                self._readers.move_to_end(owner)
            return reader

    def put(self, owner: Hashable, reader: Reader) -> None:
        with self._lock:
            self._readers[owner] = reader
            self._readers.move_to_end(owner)
            while len(self._readers) > self._readers_max:
                self._readers.popitem(last=False)

    def drop(self, owner: Hashable) -> None:
        with self._lock:
            self._readers.pop(owner, None)


SHARED = ReaderCache()
"""The cache of this process."""
