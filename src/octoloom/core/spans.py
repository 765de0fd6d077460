"""A set of numbers as spans from first to last, for numbers that mostly come in sequence.

Unlike `tags.Seen` it never takes a number for seen because a later one was: a device that lost its store leaves numbers
out, and an audit has to tell those from numbers that were there. Memory is two integers for each run of numbers. At
`SPANS_MAX` runs the lowest two become one, with what lies between them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

SPANS_MAX = 4_096


class Spans:
    __slots__ = ("_firsts", "_lasts")

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        """Spans in ascending order, that neither touch nor overlap."""
        kept = list(spans)
        self._firsts = [first for first, _ in kept]
        self._lasts = [last for _, last in kept]

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number <= self._lasts[at]

    @property
    def highest(self) -> int:
        return self._lasts[-1] if self._lasts else 0

    def spans(self) -> list[tuple[int, int]]:
        return list(zip(self._firsts, self._lasts, strict=True))

    def add(self, number: int) -> bool:
        """Whether the number is new."""
        firsts, lasts = self._firsts, self._lasts
        if lasts and number == lasts[-1] + 1:
            lasts[-1] = number
            return True
        at = bisect_right(firsts, number)
        if at and number <= lasts[at - 1]:
            return False
        joins_left, joins_right = at > 0 and lasts[at - 1] == number - 1, at < len(firsts) and firsts[at] == number + 1
        if joins_left and joins_right:
            lasts[at - 1] = lasts.pop(at)
            del firsts[at]
        elif joins_left:
            lasts[at - 1] = number
        elif joins_right:
            firsts[at] = number
        else:
            firsts.insert(at, number)
            lasts.insert(at, number)
            if len(firsts) > SPANS_MAX:
                del firsts[1], lasts[0]
        return True

    def remove(self, number: int) -> None:
        """Take one number out again, if it is there."""
        at = bisect_right(self._firsts, number) - 1
        if at < 0 or number > self._lasts[at]:
            return
        first, last = self._firsts[at], self._lasts[at]
        left = [(first, number - 1)] if first < number else []
        right = [(number + 1, last)] if number < last else []
        self._firsts[at : at + 1] = [span[0] for span in left + right]
        self._lasts[at : at + 1] = [span[1] for span in left + right]
