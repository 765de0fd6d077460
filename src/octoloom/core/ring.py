"""The recent changes of a space, for those who are a little behind: an upper link, a returning device, a slow client.

The ring is bounded by count and by size. Whoever asks for more than it covers gets None, and is then served with a
whole state: a part of the changes would be a lie.
"""

from __future__ import annotations

from collections import deque

from octoloom.core.event import Change

CHANGES_MAX = 1024
SIZE_MAX = 4 << 20


class Ring:
    """Invariant: the versions held are consecutive and end at the space's version."""

    __slots__ = ("_changes", "_size")

    def __init__(self) -> None:
        self._changes: deque[Change] = deque()
        self._size = 0

    def push(self, change: Change) -> None:
        assert not self._changes or change.version == self._changes[-1].version + 1
        self._changes.append(change)
        self._size += change.size
        while len(self._changes) > CHANGES_MAX or (self._size > SIZE_MAX and len(self._changes) > 1):
            self._size -= self._changes.popleft().size

    def clear(self) -> None:
        self._changes.clear()
        self._size = 0

    def since(self, version: int) -> list[Change] | None:
        """All changes after `version`, in order, or None where the ring no longer has them all."""
        if not self._changes:
            return None
        missing = self._changes[-1].version - version
        if missing <= 0:
            return []
        if missing > len(self._changes):
            return None
        return [self._changes[i] for i in range(len(self._changes) - missing, len(self._changes))]
