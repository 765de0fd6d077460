"""An origin that is a table in memory: obviously right, and easily trimmed, grown and made anew."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from octoloom.runtime.log_errors import UnknownTopic
from octoloom.spark.fetching import OffsetsGone
from octoloom.spark.ranges import Offsets, Place, Range


class MemoryOrigin:
    """A partition has records from `first` to `high`. The record at offset n was written at n * 10 ms."""

    def __init__(self, held: dict[Place, tuple[int, int]]) -> None:
        self.held = dict(held)
        self.closed = False

    def topics(self, pattern: str | None = None) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for topic, number in sorted(self.held):
            if pattern is None or re.fullmatch(pattern, topic):
                found.setdefault(topic, []).append(number)
        return found

    def partitions(self, topic: str) -> list[int]:
        if topic not in self.topics():
            raise UnknownTopic(f"the topic {topic} does not exist")
        return self.topics()[topic]

    def bounds(self, places: Iterable[Place]) -> dict[Place, tuple[int, int]]:
        return {place: self.held[place] for place in places}

    def offsets_at(self, places: Iterable[Place], ms: int) -> Offsets:
        found = {}
        for place in places:
            first, high = self.held[place]
            found[place] = next((offset for offset in range(first, high) if offset * 10 >= ms), -1)
        return found

    def rows(self, wanted: Range, columns: Sequence[str]) -> Iterator[Any]:
        first, high = self.held[wanted.place]
        if wanted.start < first or wanted.start > high:
            raise OffsetsGone(wanted, first, high)
        for offset in range(wanted.start, min(wanted.end, high)):
            yield pa.RecordBatch.from_pydict({"offset": [offset]})
        if wanted.end > high:
            raise OffsetsGone(wanted._replace(start=high), first, high)

    def close(self) -> None:
        self.closed = True
