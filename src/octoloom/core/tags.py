"""Tags: how a receiver drops what it has seen.

A message has a tag (origin, number), senders resend without shame, and the receiver remembers, per origin, a
watermark (everything up to it was seen) and a sparse set above it. Numbers start at 1.

1. A number is new once: `add` says True the first time and False ever after.
2. Every number in the sparse set lies above watermark + 1, so memory is the size of the holes, not of the history.
3. The sparse set holds at most `above_max` numbers. A number that would exceed it raises `TooSparse` and changes
   nothing: the sender has to fill a hole first. The number next to the watermark always has room.

How many origins there are is for the owner to bound, who knows which of them have left: `forget` drops one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from octoloom.core.errors import OctoloomError

Origin = TypeVar("Origin", bound=Hashable)
SeenSnapshot = tuple[int, list[int]]
"""(watermark, the numbers above it in order)"""

ABOVE_MAX = 65_536


class TooSparse(OctoloomError):  # noqa: N818
    """Too many numbers arrived ahead of a hole; the hole has to be filled first."""


class Seen:
    """The numbers of one origin that were seen."""

    __slots__ = ("above", "above_max", "watermark")

    def __init__(self, watermark: int = 0, above: Iterable[int] = (), above_max: int = ABOVE_MAX) -> None:
        self.watermark = watermark
        self.above = set(above)
        self.above_max = above_max
        self.advance(watermark)

    def has(self, number: int) -> bool:
        return number <= self.watermark or number in self.above

    def has_room(self, number: int) -> bool:
        """Whether `add` takes the number."""
        return len(self.above) < self.above_max or number == self.watermark + 1 or self.has(number)

    def add(self, number: int) -> bool:
        """Whether the number is new; from now on it is not."""
        if number == self.watermark + 1:
            self.watermark = number
            if self.above:
                self._close_up()
            return True
        if self.has(number):
            return False
        if len(self.above) >= self.above_max:
            raise TooSparse(f"{number} is beyond a hole at {self.watermark + 1}, with {len(self.above)} waiting")
        self.above.add(number)
        return True

    def advance(self, number: int) -> None:
        """Everything up to `number` counts as seen."""
        if number > self.watermark:
            self.watermark = number
        if self.above:
            numbers = sorted(self.above)
            self.above = set(numbers[bisect_right(numbers, self.watermark) :])
            self._close_up()

    def _close_up(self) -> None:
        while self.watermark + 1 in self.above:
            self.watermark += 1
            self.above.remove(self.watermark)

    def snapshot(self) -> SeenSnapshot:
        return self.watermark, sorted(self.above)

    @classmethod
    def restore(cls, snapshot: SeenSnapshot, above_max: int = ABOVE_MAX) -> Seen:
        watermark, above = snapshot
        return cls(watermark, above, above_max)


class Tags(Generic[Origin]):
    """What was seen of each origin."""

    __slots__ = ("_above_max", "_seen")

    def __init__(self, above_max: int = ABOVE_MAX) -> None:
        self._above_max = above_max
        self._seen: dict[Origin, Seen] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, origin: object) -> bool:
        return origin in self._seen

    def watermark(self, origin: Origin) -> int:
        seen = self._seen.get(origin)
        return seen.watermark if seen else 0

    def has(self, origin: Origin, number: int) -> bool:
        seen = self._seen.get(origin)
        return seen.has(number) if seen else number < 1

    def has_room(self, origin: Origin, number: int) -> bool:
        return (self._seen.get(origin) or Seen(above_max=self._above_max)).has_room(number)

    def add(self, origin: Origin, number: int) -> bool:
        seen = self._seen.get(origin)
        if seen is not None:
            return seen.add(number)
        seen = Seen(above_max=self._above_max)
        is_new = seen.add(number)
        # A refused or meaningless first number leaves no trace of its origin.
        if is_new:
            self._seen[origin] = seen
        return is_new

    def advance(self, origin: Origin, number: int) -> None:
        seen = self._seen.get(origin)
        if seen is not None:
            seen.advance(number)
        elif number > 0:
            self._seen[origin] = Seen(number, above_max=self._above_max)

    def forget(self, origin: Origin) -> None:
        self._seen.pop(origin, None)

    def snapshot(self) -> dict[Origin, SeenSnapshot]:
        return {origin: seen.snapshot() for origin, seen in self._seen.items()}

    @classmethod
    def restore(cls, snapshot: Mapping[Origin, SeenSnapshot], above_max: int = ABOVE_MAX) -> Tags[Origin]:
        tags = cls(above_max)
        tags._seen = {origin: Seen.restore(seen, above_max) for origin, seen in snapshot.items()}
        return tags
