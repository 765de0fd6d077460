"""When a bookmark of the journal is due (what one is: `runtime/journal_bookmarks.py`).

A bookmark costs the size of the spaces that it holds; to do without one costs the next reader all that the journal has
grown since. So one is due when the journal has grown by several times the size of the last one, and by enough to be
worth it: then bookmarks are a small part of what is written, and a reader never reads much more than it has to hold.
"""

from __future__ import annotations

LEAST_BYTES = 8 * 1024 * 1024
"""So much is read in less than half a second."""
GROWTH = 4
"""Bookmarks take a fourth of the journal's size at the most."""

Key = tuple[str, int]
"""(chain, partition)"""


class BookmarkPace:
    """Counts how much the journal grows, for each chain in each partition."""

    def __init__(self, least_bytes: int = LEAST_BYTES) -> None:
        self._least_bytes = least_bytes
        self._grown: dict[Key, int] = {}
        self._needed: dict[Key, int] = {}

    def on_grown(self, key: Key, size: int) -> bool:
        """Whether a bookmark is due now."""
        grown = self._grown[key] = self._grown.get(key, 0) + size
        return grown >= self._needed.get(key, self._least_bytes)

    def on_begun(self, key: Key) -> None:
        """One is being made. If nothing comes of it, the next is due after as much again."""
        self._grown[key] = 0

    def on_known(self, key: Key, size: int) -> None:
        """There is one of this size."""
        self._needed[key] = max(self._least_bytes, GROWTH * size)
