"""The options of the source: read once, checked once, and from then on values with types.

Names are those of Spark's Kafka source, so that code moves over by changing one word; Spark does not care about upper
and lower case in them, and neither does this. An option that nobody knows is refused, with the name that comes nearest:
a misspelt `failOnDataLos` that is quietly ignored costs more than the error.

What Spark's Kafka source knows and this one does not is refused, too, with what to do instead. Options that belong to
Spark itself pass.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from octoloom.core.errors import UsageError
from octoloom.runtime.log_cluster import addresses_of
from octoloom.spark.fetching import TIMEOUT_MS
from octoloom.spark.offsets import Edge, by_partition, edge_of, places_of
from octoloom.spark.ranges import Place
from octoloom.wire.kafka.client_messages import EARLIEST, LATEST

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
PARTITIONS_MAX = 100_000
"""Read partitions that one read may be cut into."""

SOURCE_OPTIONS = (
    "bootstrap",
    "kafka.bootstrap.servers",
    "topic",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "path",
    "paths",
    "archive",
    "timeoutMs",
)

_SPARKS = ("checkpointLocation", "queryName", "outputMode")
_SPARKS_PREFIXES = ("spark.", "__")

_IN_THE_CHECKPOINT = "offsets are kept in the checkpoint, not by a consumer group"
_BY_TIME = "the brokers are asked again until timeoutMs is over: set that"
_AT_ONCE = "a batch begins as soon as there is something: choose how often with trigger(processingTime=...)"
_ELSEWHERE: dict[str, str] = {
    "groupIdPrefix": _IN_THE_CHECKPOINT,
    "kafka.group.id": _IN_THE_CHECKPOINT,
    "minOffsetsPerTrigger": _AT_ONCE,
    "maxTriggerDelay": _AT_ONCE,
    "maxRecordsPerPartition": "set minPartitions to have more and smaller tasks",
    "fetchOffset.numRetries": _BY_TIME,
    "fetchOffset.retryIntervalMs": _BY_TIME,
    "kafkaConsumer.pollTimeoutMs": _BY_TIME,
    "kafka.security.protocol": "the brokers speak plainly, without TLS or a login",
}


class Given:
    """Options as they were given, by their known names; none of them is unknown."""

    def __init__(self, given: Mapping[str, str], known: Iterable[str], subject: str) -> None:
        self.subject = subject
        names = {name.lower(): name for name in known}
        self._values = {names[name.lower()]: value for name, value in given.items() if name.lower() in names}
        for name in given:
            if name.lower() not in names:
                _check_foreign(name, list(names.values()), subject)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str = "") -> str:
        return self._values.get(name, default).strip()

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false"):
            raise UsageError(f"{name} is {text!r}: write true or false")
        return text == "true"

    def number(self, name: str, least: int, most: int = 2**63 - 1) -> int | None:
        if name not in self:
            return None
        text = self.text(name)
        if not re.fullmatch(r"-?[0-9]{1,19}", text) or not least <= int(text) <= most:
            raise UsageError(f"{name} is {text!r}: write a whole number from {least} to {most}")
        return int(text)

    def names(self, name: str) -> tuple[str, ...]:
        """A list with commas between."""
        return tuple(dict.fromkeys(filter(None, (each.strip() for each in self.text(name).split(",")))))

    def one_of(self, *names: str) -> str | None:
        """The one of these options that was given, if any was."""
        there = [name for name in names if name in self]
        if len(there) > 1:
            raise UsageError(f"{self.subject} has both {there[0]} and {there[1]}: leave one of them out")
        return there[0] if there else None

    @property
    def bootstrap(self) -> str:
        """Addresses of brokers, checked, or nothing."""
        name = self.one_of("bootstrap", "kafka.bootstrap.servers")
        return ",".join(addresses_of(self.text(name))) if name else ""


def _check_foreign(name: str, known: list[str], subject: str) -> None:
    """Lets an option of Spark's pass, and raises for all others."""
    lower = name.lower()
    if lower.startswith(_SPARKS_PREFIXES) or lower in {own.lower() for own in _SPARKS}:
        return
    for foreign, reason in _ELSEWHERE.items():
        if lower == foreign.lower():
            raise UsageError(f"{subject} has no option {foreign}: {reason}; leave it out")
    if lower.startswith("kafka."):
        raise UsageError(f"{subject} has no option {name}: it has no settings of Kafka clients; leave it out")
    near = difflib.get_close_matches(lower, [each.lower() for each in known], 1, 0.5)
    nearest = next((each for each in known if near and each.lower() == near[0]), None)
    hint = f"did you mean {nearest}?" if nearest else f"it has {', '.join(known)}"
    raise UsageError(f"{subject} has no option {name}: {hint}")


@dataclass(frozen=True, slots=True)
class Subscription:
    """What is read: topics by name, or those that match a pattern, or partitions one by one."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    subscription: Subscription
    bootstrap: str = ""
    paths: tuple[str, ...] = ()
    """Data directories of brokers, to be read as files."""
    archive: str = ""
    starting: Edge | None = None
    ending: Edge | None = None
    records_per_trigger_max: int | None = None
    partitions_min: int | None = None
    fails_on_data_loss: bool = True
    columns: tuple[str, ...] = COLUMNS
    timeout_ms: int = TIMEOUT_MS

    def for_batch(self) -> SourceOptions:
        """With what is meant where nothing was said. Some options make sense in a stream only."""
        starting = self.starting or Edge("startingOffsets", everywhere=EARLIEST)
        if starting.unit == "offset" and LATEST in starting.values:
            raise UsageError(f"{starting.option} is latest, and a batch ends there: begin earlier, or use readStream")
        if self.records_per_trigger_max is not None:
            raise UsageError("maxOffsetsPerTrigger is for streams: bound a batch with endingOffsets")
        ending = self.ending or Edge("endingOffsets", everywhere=LATEST)
        return replace(self, starting=starting, ending=ending)

    def for_stream(self) -> SourceOptions:
        if self.ending is not None:
            raise UsageError(f"{self.ending.option} is for batches, and a stream does not end: use spark.read")
        return replace(self, starting=self.starting or Edge("startingOffsets", everywhere=LATEST))


def source_options(given: Mapping[str, str]) -> SourceOptions:
    """All options of the source, checked. No broker is asked."""
    options = Given(given, SOURCE_OPTIONS, "the octoloom source")
    found = SourceOptions(
        subscription=_subscription(options),
        bootstrap=options.bootstrap,
        paths=_paths(options),
        archive=options.text("archive"),
        starting=_starting(options),
        ending=_ending(options),
        records_per_trigger_max=options.number("maxOffsetsPerTrigger", 1),
        partitions_min=options.number("minPartitions", 1, PARTITIONS_MAX),
        fails_on_data_loss=options.flag("failOnDataLoss", True),
        columns=_columns(options),
        timeout_ms=options.number("timeoutMs", 1, 24 * 3600 * 1000) or TIMEOUT_MS,
    )
    if not (found.bootstrap or found.paths or found.archive):
        raise UsageError(
            "the octoloom source does not know where to read: set bootstrap to the address of a broker, as in "
            "127.0.0.1:9092, or path to a broker's data directory, or archive to a topic archive"
        )
    return found


def _subscription(options: Given) -> Subscription:
    name = options.one_of("topic", "subscribe", "subscribePattern", "assign")
    if name is None:
        raise UsageError("the octoloom source does not know what to read: set topic, subscribePattern or assign")
    if name == "assign":
        return Subscription(places=tuple(places_of(name, options.text(name))))
    if name == "subscribePattern":
        pattern = options.text(name)
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"{name} is no regular expression ({error}): write one, as in moves-.*") from error
        return Subscription(pattern=pattern)
    names = options.names(name)
    if not names:
        raise UsageError(f"{name} names no topic: write one or more, with commas between them")
    return Subscription(names=names)


def _paths(options: Given) -> tuple[str, ...]:
    name = options.one_of("path", "paths")
    if name != "paths":
        return options.names("path")
    # This is how load() hands over several paths.
    try:
        said = json.loads(options.text("paths"))
    except ValueError:
        said = None
    if not isinstance(said, list) or not all(isinstance(path, str) for path in said):
        raise UsageError("paths is no list: set path, with commas between the directories")
    return tuple(said)


def _starting(options: Given) -> Edge | None:
    late = options.text("startingOffsetsByTimestampStrategy", "error").lower()
    if late not in ("error", "latest"):
        raise UsageError(f"startingOffsetsByTimestampStrategy is {late!r}: write error or latest")
    edge = _edge(options, "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
    return replace(edge, late="error" if late == "error" else "latest") if edge else None


def _ending(options: Given) -> Edge | None:
    edge = _edge(options, "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
    if edge and edge.unit == "offset" and EARLIEST in edge.values:
        raise UsageError(f"{edge.option} is earliest, and there is nothing before: end later, or at latest")
    return edge


def _edge(options: Given, time: str, times: str, offsets: str) -> Edge | None:
    """The first of these that was given, as in Spark's Kafka source."""
    if (ms := options.number(time, 0)) is not None:
        return Edge(time, "timestamp", everywhere=ms)
    if times in options:
        return Edge(times, "timestamp", each=by_partition(times, options.text(times)))
    return edge_of(offsets, options.text(offsets)) if offsets in options else None


def _columns(options: Given) -> tuple[str, ...]:
    known = {name.lower(): name for name in COLUMNS}
    if "columns" not in options:
        return COLUMNS if options.flag("includeHeaders", True) else COLUMNS[:-1]
    asked = options.names("columns")
    unknown = [name for name in asked if name.lower() not in known]
    if unknown or not asked:
        raise UsageError(f"columns has {', '.join(unknown) or 'nothing'}: choose from {', '.join(COLUMNS)}")
    chosen = tuple(dict.fromkeys(known[name.lower()] for name in asked))
    if "includeHeaders" in options and options.flag("includeHeaders", True) != ("headers" in chosen):
        raise UsageError("includeHeaders and columns do not say the same about headers: leave includeHeaders out")
    return chosen
