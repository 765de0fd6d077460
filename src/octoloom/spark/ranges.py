"""Ranges of offsets, and how a read is cut into them.

A read is a range per partition of a topic, from `start` up to `end`, which is left out. Ranges of one read never
overlap and never leave anything out between them, whatever they are cut by:

1. `limited` moves the ends nearer, so that a batch of a stream has about so many records; each partition gets its
   share of what it has, and at least one record, so none of them starves.
2. `split` cuts ranges in two and more until there are enough of them to keep all cores busy. Ranges are cut into
   nearly equal parts, the largest ones first in line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

Place = tuple[str, int]
"""A topic and the number of one of its partitions."""
Offsets = dict[Place, int]


class Range(NamedTuple):
    topic: str
    partition: int
    start: int
    end: int

    @property
    def place(self) -> Place:
        return self.topic, self.partition

    @property
    def size(self) -> int:
        return max(self.end - self.start, 0)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from {self.start} to {self.end}"


def between(starts: Mapping[Place, int], ends: Mapping[Place, int]) -> list[Range]:
    """What lies between two sets of offsets, by partition, empty ranges left out."""
    ranges = (Range(*place, start, ends.get(place, start)) for place, start in sorted(starts.items()))
    return [each for each in ranges if each.size]


def limited(starts: Mapping[Place, int], ends: Mapping[Place, int], records_max: int) -> Offsets:
    """Ends that are at most `records_max` records away in all, or one record for each partition that has any."""
    sizes = {place: end - starts.get(place, 0) for place, end in ends.items() if end > starts.get(place, 0)}
    total = sum(sizes.values())
    if total <= records_max:
        return dict(ends)
    # Each has its first record; the rest is shared out.
    rest, others = max(records_max - len(sizes), 0), max(total - len(sizes), 1)
    nearer = {place: starts.get(place, 0) + 1 + rest * (size - 1) // others for place, size in sizes.items()}
    return {**ends, **nearer}


def split(ranges: Iterable[Range], partitions_min: int | None) -> list[Range]:
    """At least so many ranges, if there are as many records, with the same offsets in them."""
    whole = [each for each in ranges if each.size]
    total = sum(each.size for each in whole)
    cuts = min(partitions_min or 0, total) - len(whole)
    if cuts <= 0:
        return whole
    parts = {each: 1 + cuts * (each.size - 1) // (total - len(whole)) for each in whole}
    missing = cuts + len(whole) - sum(parts.values())
    while missing > 0:
        # The range whose parts are the largest is cut once more: what rounding took away goes where it helps most.
        widest = max((each for each in whole if parts[each] < each.size), key=lambda each: each.size / parts[each])
        parts[widest] += 1
        missing -= 1
    return [piece for each in whole for piece in _cut(each, parts[each])]


def _cut(whole: Range, parts: int) -> list[Range]:
    edges = [whole.start + whole.size * number // parts for number in range(parts + 1)]
    return [Range(*whole.place, start, end) for start, end in pairwise(edges)]
