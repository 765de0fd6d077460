"""Deadlines by key, where putting one off is cheap.

Almost every deadline of a group is put off again and again (each heartbeat does it) and hardly any is ever reached.
So a heap holds one entry per key at the time that was set first; putting off only writes the new time down, and the
entry moves when its old time comes.

1. A key has at most one deadline, and `pop` never gives it out before that.
2. `deadline` may be early, never late.
3. The heap is at most twice as long as there are keys, and `SLACK` more: entries without a deadline are swept out.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

SLACK = 64


class Timers(Generic[Key]):
    def __init__(self) -> None:
        self._due: dict[Key, int] = {}
        self._queued: dict[Key, int] = {}
        """The time of the entry in the heap that counts; others of the same key are leftovers."""
        self._heap: list[tuple[int, int, Key]] = []
        self._order = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: object) -> bool:
        return key in self._due

    def set(self, key: Key, due: int) -> None:
        """Gives the key this deadline instead of the one that it had."""
        self._due[key] = due
        queued = self._queued.get(key)
        if queued is None or due < queued:
            self._push(key, due)

    def clear(self, key: Key) -> None:
        self._due.pop(key, None)
        if len(self._heap) > 2 * len(self._due) + SLACK:
            self._sweep()

    def pop(self, now: int) -> Key | None:
        """A key whose time has come, the earliest first; it has no deadline any more."""
        while self._heap and self._heap[0][0] <= now:
            time, _, key = heapq.heappop(self._heap)
            if self._queued.get(key) != time:
                continue
            del self._queued[key]
            due = self._due.get(key)
            if due is not None and due > time:
                self._push(key, due)
            elif due is not None:
                del self._due[key]
                return key
        return None

    def deadline(self) -> int | None:
        """When `pop` wants to be called next."""
        while self._heap:
            time, _, key = self._heap[0]
            if self._queued.get(key) == time and key in self._due:
                return time
            heapq.heappop(self._heap)
            if self._queued.get(key) == time:
                del self._queued[key]
        return None

    def _push(self, key: Key, due: int) -> None:
        self._order += 1
        self._queued[key] = due
        heapq.heappush(self._heap, (due, self._order, key))
        if len(self._heap) > 2 * len(self._due) + SLACK:
            self._sweep()

    def _sweep(self) -> None:
        self._heap = [(due, order, key) for order, (key, due) in enumerate(self._due.items())]
        self._order = len(self._heap)
        self._queued = dict(self._due)
        heapq.heapify(self._heap)
