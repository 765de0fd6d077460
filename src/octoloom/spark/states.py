"""The state of any space, or of all, at any moment: the journal's patches folded up to there.

    journal = read_journal(spark, {"bootstrap": "127.0.0.1:9092"})
    state_of(journal, "lobby", parse_at("1200")).state      # at version 1200
    states(journal, parse_at("2026-01-31T12:00"))           # of all spaces, as a DataFrame

A version is one of the history that counts: what a later generation has voided is not in it. A moment is what a reader
would have had then: the records up to the first that was published later, versions that were voided afterwards among
them. The text of a state has its keys sorted, so two are equal if their texts are.

A space's records are in one partition, so each task folds its spaces by itself. It keeps one state per space; patches
beyond the moment are not applied.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from octoloom.core import merge_patch
from octoloom.core.errors import UsageError
from octoloom.spark import failures
from octoloom.spark.fetching import Reader
from octoloom.spark.journal_rows import COLUMNS, JournalRows, Taken
from octoloom.spark.journal_tables import read_journal
from octoloom.wire.journal import TOPIC
from octoloom.wire.journal_values import StartValue
from octoloom.wire.kafka.partitioner import partition_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME_MS_MIN = 100_000_000_000
"""Numbers from here on are times in ms, since 1973. No space has as many versions."""
ROWS_MAX = 1_000
BYTES_MAX = 16 * 1024 * 1024
"""Of one Arrow batch of states."""
NAMES_MAX = 100_000
"""Names that are looked through for one that comes near."""

SCHEMA = pa.schema(
    {
        "space": pa.string(),
        "generation": pa.int64(),
        "version": pa.int64(),
        "at_ms": pa.int64(),
        "state": pa.string(),
        "problem": pa.string(),
    }
)

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="deterministic").encode


class At(NamedTuple):
    """A version, or a moment; neither of them means the newest."""

    version: int | None = None
    time_ms: int | None = None


class State(NamedTuple):
    """A row of `states`. With a `problem` there is no state, and the version is the one that was reached."""

    space: str
    generation: int
    version: int
    at_ms: int
    state: str | None
    problem: str | None


NEWEST = At()


def parse_at(text: str) -> At:
    """A version, an ISO time, or ms since 1970 (as @1767225600000, or without the @)."""
    if re.fullmatch(r"@\d{1,15}", text):
        return At(time_ms=int(text[1:]))
    if re.fullmatch(r"\d{1,15}", text):
        return At(time_ms=int(text)) if int(text) >= TIME_MS_MIN else At(version=int(text))
    try:
        moment = datetime.fromisoformat(text)
        return At(time_ms=int((moment if moment.tzinfo else moment.astimezone()).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        known = "a version such as 1200, a time like 2026-01-31T12:00, or @MILLISECONDS since 1970"
        raise UsageError(f"{text!r} is no moment of a space: write {known}") from None


class Folding:
    """One space, folded up to a moment."""

    def __init__(self, space: str, at: At) -> None:
        self.space, self.at = space, at
        self.state: Any = {}
        self.generation = self.version = self.at_ms = 0
        self.found: tuple[int, int, int, bytes] | None = None
        """At a version: (generation, version, at_ms, state)."""
        self.began_ms: int | None = None
        """When the first record was published, if that was after the moment."""
        self.is_past = False
        self.gap: str | None = None

    def take(self, taken: Taken) -> None:
        value = taken.value
        if self.is_past or (self.at.time_ms is not None and value.at_ms > self.at.time_ms):
            if not self.is_past and not self.generation:
                self.began_ms = value.at_ms
            self.is_past = True
            return
        self.generation, self.version, self.at_ms = value.generation, value.version, value.at_ms
        wanted = self.at.version
        if isinstance(value, StartValue):
            if wanted is not None and wanted >= value.version:
                self.found = None  # whatever was beyond is void
            self.gap = None
            self.state = _decode(value.state)
        elif wanted is None or value.version <= wanted:
            patch = _decode(value.merge)
            self.state = patch if value.replace else merge_patch.apply(self.state, patch)
        if value.version == wanted:
            self.found = (self.generation, self.version, self.at_ms, _encode(self.state))

    def row(self) -> State:
        if self.at.version is not None:
            return self._at_version(self.at.version)
        if self.began_ms is not None:
            return self._without(f"its first change is of {moment(self.began_ms)}: name a later time")
        if self.gap is not None and not self.is_past:
            return self._without(self.gap)
        return State(self.space, self.generation, self.version, self.at_ms, _encode(self.state).decode(), None)

    def _at_version(self, wanted: int) -> State:
        if self.found is not None:
            generation, version, at_ms, state = self.found
            return State(self.space, generation, version, at_ms, state.decode(), None)
        if self.gap is not None:
            return self._without(self.gap)
        if self.version > wanted:
            return self._without(f"its journal begins after version {wanted}: name a later one")
        return self._without(f"it has not reached version {wanted}, it is at {self.version}: name a lower one")

    def _without(self, problem: str) -> State:
        return State(self.space, self.generation, self.version, self.at_ms, None, problem)


def moment(time_ms: int) -> str:
    """A time for people, which `parse_at` reads."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


# On Spark.


def states(frame: DataFrame, at: At = NEWEST, *, space: str | None = None) -> DataFrame:
    """A row (`State`) per space of the journal in `frame`. Where there is no state, `problem` says why."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    chosen = frame.select(*COLUMNS)
    if space is not None:
        chosen = chosen.where(f.col("key") == f.lit(bytearray(space.encode())))
    return chosen.mapInArrow(partial(_fold, at), from_arrow_schema(SCHEMA))


def read_space(spark: SparkSession, options: Mapping[str, str], space: str) -> DataFrame:
    """The journal, as far as a space may be in it: of the topic only the partition that its key belongs to."""
    bootstrap, topic = options.get("bootstrap"), options.get("topic", TOPIC)
    if not bootstrap:
        return read_journal(spark, options)
    with Reader(bootstrap) as reader:
        partition = partition_of(space.encode(), len(reader.partitions(topic)))
    others = {name: value for name, value in options.items() if name != "topic"}
    return read_journal(spark, {**others, "assign": json.dumps({topic: [partition]})})


def state_of(frame: DataFrame, space: str, at: At = NEWEST) -> State:
    """The state of one space; raises UsageError, with the next step, where there is none."""
    with failures.told():
        found = states(frame, at, space=space).collect()
    if not found:
        raise UsageError(_unknown(frame, space))
    row = State(*found[0])
    if row.problem is not None:
        raise UsageError(f"{space}: {row.problem}")
    return row


def _unknown(frame: DataFrame, space: str) -> str:
    from pyspark.sql import functions as f

    names = frame.select(f.col("key").cast("string")).where("key is not null").distinct().limit(NAMES_MAX)
    with failures.told():
        known = sorted(row[0] for row in names.collect())
    if not known:
        return f"there is no space {space!r}: the journal is empty; play something, or name another topic"
    near = difflib.get_close_matches(space, known, 3, 0.5) or known[:3]
    return f"there is no space {space!r} in the journal: there is {', '.join(near)}; --space all shows all"


def _fold(at: At, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = JournalRows()
    foldings: dict[str, Folding] = {}
    for batch in batches:
        for taken in rows.take(batch):
            if rows.dead:
                _note_gaps(rows, foldings, at)
            folding = foldings.get(taken.space)
            if folding is None:
                folding = foldings[taken.space] = Folding(taken.space, at)
            folding.take(taken)
        _note_gaps(rows, foldings, at)
    yield from _batches(folding.row() for folding in foldings.values())


def _note_gaps(rows: JournalRows, foldings: dict[str, Folding], at: At) -> None:
    """Strangers' records do no harm, but a state beyond a missing one is not to be known."""
    for dead in rows.dead:
        if dead.code == "gap" and dead.key is not None:
            space = dead.key.decode()
            folding = foldings.setdefault(space, Folding(space, at))
            if at.time_ms is not None and _published_ms(dead.value) > at.time_ms:
                folding.is_past = True
            folding.gap = folding.gap or dead.detail
    rows.dead.clear()


class _Published(msgspec.Struct):
    at_ms: int


def _published_ms(value: bytes | None) -> int:
    """When a record that was not taken was published; 0 if it does not say."""
    try:
        return msgspec.json.decode(value or b"", type=_Published).at_ms
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0


def lines(found: DataFrame) -> Iterator[bytes]:
    """The states as lines of JSON, without the spaces that have none."""
    with failures.told():
        for row in found.where("state is not null").toLocalIterator(prefetchPartitions=True):
            one = State(*row)
            head = {"space": one.space, "generation": one.generation, "version": one.version, "at_ms": one.at_ms}
            yield _encode({**head, "state": msgspec.Raw((one.state or "").encode())}) + b"\n"


def _batches(found: Iterable[State]) -> Iterator[pa.RecordBatch]:
    waiting: list[State] = []
    size = 0
    for row in found:
        waiting.append(row)
        size += len(row.state or "")
        if len(waiting) >= ROWS_MAX or size >= BYTES_MAX:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(rows: list[State]) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
