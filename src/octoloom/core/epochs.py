"""Where each leader's epoch begins in a log: how two logs find the last place at which they agree.

Every batch carries the epoch of the leader that gave it its offset, and epochs never fall along a log. Two logs that
both hold a batch of an epoch agree up to there, because one leader wrote all of it. So a follower names its last epoch
and its end; the leader answers where that epoch ends in its own log; the shorter of the two is where they agree.
"""

from __future__ import annotations

from collections.abc import Iterable

NO_EPOCH = -1


class Epochs:
    __slots__ = ("_starts",)

    def __init__(self, starts: Iterable[tuple[int, int]] = ()) -> None:
        self._starts = list(starts)
        """(epoch, its first offset), both rising."""

    @property
    def last(self) -> int:
        return self._starts[-1][0] if self._starts else NO_EPOCH

    def add(self, epoch: int, offset: int) -> None:
        """A batch of `epoch` begins at `offset`, the end of the log."""
        if not self._starts or epoch > self._starts[-1][0]:
            self._starts.append((epoch, offset))

    def end_of(self, epoch: int, end: int) -> tuple[int, int]:
        """The largest epoch up to `epoch` that the log has, and where it ends; (NO_EPOCH, -1) if there is none."""
        after = end
        for known, start in reversed(self._starts):
            if known <= epoch:
                return known, after
            after = start
        return NO_EPOCH, -1

    def starts(self) -> list[tuple[int, int]]:
        return list(self._starts)
