"""Where a read begins and where it ends: as the user says it, as the checkpoint keeps it, and as offsets.

The user says it as for Spark's Kafka source: `earliest`, `latest`, offsets by partition ({"moves": {"0": 12}}, with -2
for earliest and -1 for latest), or times in milliseconds. What is said by partition is said for all of them: a
partition that was left out would be read from somewhere that nobody chose.

A checkpoint keeps offsets in the same form. Partitions that are not in it are new, and read from their first offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from octoloom.core.errors import UsageError
from octoloom.spark.fetching import Origin
from octoloom.spark.ranges import Offsets, Place
from octoloom.wire.kafka.client_messages import EARLIEST, LATEST

OFFSET_MAX = 2**63 - 1
SHOWN_MAX = 5
"""Partitions that an error names."""

Saved = dict[str, dict[str, int]]
"""Offsets by topic and partition, as JSON has them."""

WORDS = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class Edge:
    """One end of a read: the same for every partition, or one for each."""

    option: str
    """Who said so, for errors."""
    unit: Literal["offset", "timestamp"] = "offset"
    everywhere: int | None = None
    """An offset, which is `EARLIEST` or `LATEST`, or a time."""
    each: Mapping[Place, int] = field(default_factory=dict)
    late: Literal["error", "latest"] = "latest"
    """What to do about a time that is later than all records."""

    @property
    def values(self) -> list[int]:
        return [self.everywhere] if self.everywhere is not None else list(self.each.values())


def edge_of(option: str, text: str) -> Edge:
    """`earliest`, `latest`, or JSON."""
    word = text.strip().lower()
    if word in WORDS:
        return Edge(option, everywhere=WORDS[word])
    return Edge(option, each=by_partition(option, text, least=EARLIEST))


def by_partition(option: str, text: str, least: int = 0) -> Offsets:
    """Numbers by topic and partition."""
    said = _object(option, text, '{"moves": {"0": 12, "1": -1}}')
    found: Offsets = {}
    for topic, partitions in said.items():
        if not isinstance(partitions, dict):
            raise UsageError(f'{option} has {partitions!r} for {topic}: write it as {{"{topic}": {{"0": 12}}}}')
        for partition, number in partitions.items():
            if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= OFFSET_MAX:
                raise UsageError(f"{option} has {number!r} for {topic}-{partition}: write a whole number")
            found[topic, _partition(option, topic, partition)] = number
    return found


def places_of(option: str, text: str) -> list[Place]:
    """Partitions by topic: {"moves": [0, 1]}."""
    said = _object(option, text, '{"moves": [0, 1]}')
    places: list[Place] = []
    for topic, partitions in said.items():
        if not isinstance(partitions, list) or not partitions:
            raise UsageError(f'{option} has {partitions!r} for {topic}: write it as {{"{topic}": [0, 1]}}')
        places += [(topic, _partition(option, topic, partition)) for partition in partitions]
    return sorted(dict.fromkeys(places))


def _object(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{option} cannot be read ({error}): write it as {example}") from error
    if not isinstance(said, dict) or not said:
        raise UsageError(f"{option} names no topic: write it as {example}")
    return said


def _partition(option: str, topic: str, said: Any) -> int:
    text = str(said)
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"{option} has the partition {said!r} for {topic}: write its number, as in 0")
    return int(text)


# Checkpoints.


def saved(offsets: Mapping[Place, int]) -> Saved:
    said: Saved = {}
    for (topic, partition), offset in sorted(offsets.items()):
        said.setdefault(topic, {})[str(partition)] = offset
    return said


def restored(said: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {(topic, int(number)): offset for topic, numbers in said.items() for number, offset in numbers.items()}


# Resolving.


def resolve(origin: Origin, edge: Edge, places: Iterable[Place]) -> Offsets:
    """The offsets that an edge means right now, for these partitions."""
    wanted = _wanted(edge, list(places))
    if edge.unit == "timestamp":
        return _resolve_times(origin, edge, wanted)
    bounds = origin.bounds([place for place, offset in wanted.items() if offset < 0])
    ends = {EARLIEST: 0, LATEST: 1}
    return {place: bounds[place][ends[offset]] if offset < 0 else offset for place, offset in wanted.items()}


def _wanted(edge: Edge, places: list[Place]) -> Offsets:
    if edge.everywhere is not None:
        return dict.fromkeys(places, edge.everywhere)
    missing = [place for place in places if place not in edge.each]
    if missing:
        raise UsageError(
            f"{edge.option} says nothing about {shown(missing)}: name every partition, with -2 for earliest or -1 for "
            "latest where you do not care"
        )
    strange = [place for place in edge.each if place not in places]
    if strange:
        raise UsageError(f"{edge.option} names {shown(strange)}, which is not read: leave it out, or check the topics")
    return {place: edge.each[place] for place in places}


def _resolve_times(origin: Origin, edge: Edge, wanted: Offsets) -> Offsets:
    found: Offsets = {}
    for ms in sorted(dict.fromkeys(wanted.values())):
        found |= origin.offsets_at([place for place, time in wanted.items() if time == ms], ms)
    late = sorted(place for place, offset in found.items() if offset < 0)
    if late and edge.late == "error":
        raise UsageError(
            f"{edge.option} is later than all records of {shown(late)}: choose an earlier time, or set "
            "startingOffsetsByTimestampStrategy to latest to wait for what comes"
        )
    for place, (_, high) in (origin.bounds(late) if late else {}).items():
        found[place] = high
    return found


def shown(places: Iterable[Place]) -> str:
    """Some partitions, for people."""
    names = [f"{topic}-{partition}" for topic, partition in places]
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    return ", ".join(names[:SHOWN_MAX]) + more
