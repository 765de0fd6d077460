"""What is read next: which partitions, from which offset to which.

A batch is planned once. A stream is planned again and again, by Spark: it keeps the offsets where the last batch ended
and asks how far the next one may go. Both are decided here, from what an origin says and what the user wants, and
nothing is remembered between two calls but what there was to read (`highs`), for people who watch.

What cannot be read any more is data loss: offsets that retention has removed, offsets beyond the end of a topic that
was made anew, partitions that are gone. It is an error, or, if the user says so, a warning:

1. Retention removed the beginning: the read goes on from the first offset that is there.
2. The topic was made anew and is shorter than before: all of the new one is read, from its first offset.
3. A topic or partition is gone: it is left out. If it comes back, it is new, and read from its first offset.

A new partition is read from offset 0: that there is nothing before is known only then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from octoloom.core.errors import OctoloomError, UsageError
from octoloom.runtime.log_errors import UnknownTopic
from octoloom.spark.fetching import OffsetsGone, Origin
from octoloom.spark.offsets import resolve, shown
from octoloom.spark.options import SourceOptions
from octoloom.spark.ranges import Offsets, Place, Range, between, limited, split

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)


class PartitionsGone(OctoloomError):  # noqa: N818
    """Partitions that a stream has read from do not exist any more."""


def places_in(origin: Origin, options: SourceOptions) -> list[Place]:
    """All partitions that the user wants, as they are right now."""
    wanted = options.subscription
    if wanted.pattern is not None:
        return [(topic, number) for topic, numbers in origin.topics(wanted.pattern).items() for number in numbers]
    if wanted.places:
        return _assigned(origin, wanted.places)
    return [(topic, number) for topic in wanted.names for number in origin.partitions(topic)]


def _assigned(origin: Origin, places: Sequence[Place]) -> list[Place]:
    there = {topic: origin.partitions(topic) for topic, _ in places}
    missing = [place for place in places if place[1] not in there[place[0]]]
    if missing:
        raise UsageError(f"assign names {shown(missing)}, which is not there: see `octoloom topic describe`")
    return list(places)


def plan_batch(origin: Origin, options: SourceOptions) -> list[Range]:
    """What a batch reads."""
    options = options.for_batch()
    assert options.starting is not None
    assert options.ending is not None
    places = places_in(origin, options)
    if not places:
        raise UsageError(f"no topic matches {options.subscription.pattern}: see `octoloom topic list`")
    starts = resolve(origin, options.starting, places)
    ends = resolve(origin, options.ending, places)
    ranges = []
    for place, (first, high) in origin.bounds(places).items():
        wanted = Range(*place, starts[place], ends[place])
        if wanted.start > wanted.end and options.starting.unit == options.ending.unit == "offset":
            text = f"{place[0]}-{place[1]} would be read from {wanted.start} to {wanted.end}, which is before"
            raise UsageError(f"{text}: change {options.starting.option} or {options.ending.option}")
        if wanted.start < first or max(wanted.start, wanted.end) > high:
            lost(OffsetsGone(wanted, first, high), options)
            wanted = Range(*place, max(wanted.start, first), min(wanted.end, high))
        ranges.append(wanted)
    return split(ranges, options.partitions_min)


class StreamPlan:
    """Offsets of a stream. `target` is where a stream ends that reads what is there and no more."""

    def __init__(self, origin: Origin, options: SourceOptions) -> None:
        self._origin = origin
        self._options = options.for_stream()
        self.target: Offsets | None = None
        self.highs: Offsets = {}

    def first(self) -> Offsets:
        """Where a stream begins that has no checkpoint."""
        assert self._options.starting is not None
        # A topic that is not there at the start is a mistake. One that a pattern may find yet is not.
        return resolve(self._origin, self._options.starting, places_in(self._origin, self._options))

    def fix_target(self) -> None:
        self.target = {place: high for place, (_, high) in self._bounds().items()}

    def next(self, starts: Offsets, records_max: int | None) -> Offsets:
        """Where the next batch ends: at the end of what there is, or before, if that is too much."""
        bounds = self._bounds()
        self.highs = {place: high for place, (_, high) in bounds.items()}
        missing = sorted(place for place in starts if place not in bounds)
        if missing:
            lost(PartitionsGone(f"{shown(missing)} was read and is gone: {_NEXT_STEP}"), self._options)
        begins: Offsets = {}
        ends: Offsets = {}
        for place, (first, high) in bounds.items():
            if self.target is not None and place not in self.target and place not in starts:
                # It came after the stream was told to end.
                continue
            start = starts.get(place, 0)
            end = high if self.target is None else min(high, max(self.target.get(place, start), start))
            if start < first or start > high:
                lost(OffsetsGone(Range(*place, start, max(end, start + 1)), first, high), self._options)
            begins[place] = first if start > high else max(start, first)
            ends[place] = end
        return limited(begins, ends, records_max) if records_max else ends

    def _bounds(self) -> dict[Place, tuple[int, int]]:
        try:
            places = places_in(self._origin, self._options)
        except UnknownTopic as error:
            lost(PartitionsGone(f"{error}; {_NEXT_STEP}"), self._options)
            places = self._left_over()
        return self._origin.bounds(places) if places else {}

    def _left_over(self) -> list[Place]:
        """The partitions of the topics that are there, where some are not."""
        topics = self._origin.topics()
        wanted = self._options.subscription
        if wanted.places:
            return [(topic, number) for topic, number in wanted.places if number in topics.get(topic, ())]
        return [(topic, number) for topic in wanted.names for number in topics.get(topic, ())]

    def ranges(self, starts: Mapping[Place, int], ends: Mapping[Place, int]) -> list[Range]:
        """What a batch reads. It is the same whenever it is asked, whatever has happened to the log since."""
        # A stream goes back in one case only: the topic was made anew, and has to be read from its beginning.
        begins = {
            place: start if start <= end else 0 for place, end in ends.items() for start in [starts.get(place, 0)]
        }
        return split(between(begins, ends), self._options.partitions_min)


_NEXT_STEP = "make it again, or choose other topics, or set failOnDataLoss to false to go on without it"


def rows_of(origin: Origin, wanted: Range, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The records of a range; where some are missing, an error, or a warning and what comes behind them."""
    while wanted.size:
        try:
            yield from origin.rows(wanted, options.columns)
        except OffsetsGone as gone:
            lost(gone, options)
            behind = Range(*wanted.place, max(gone.first, gone.wanted.start), min(wanted.end, gone.high))
            if behind == wanted:
                raise
            wanted = behind
        else:
            return


def lost(error: OctoloomError, options: SourceOptions) -> None:
    """Raises, or warns, as the user wants it."""
    if options.fails_on_data_loss:
        raise error
    _log.warning("data loss: %s", error)
