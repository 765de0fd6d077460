"""Judges of spaces where the journal is read: one task for each partition, one judge for each space in it, no shuffle.

A task gives three kinds of rows:

- `space`: the verdict of one space, as JSON if all are asked for, or if it is one of the first that are not clean;
- `dead`: a record that cannot be read, the first `DEAD_MAX` of a task;
- `sum`: the task's sums, with every finding and every dead record counted, and the partitions that it has read.

The rows are small and are kept until the report is made, so the journal is read once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from octoloom.core.app import App
from octoloom.core.errors import UsageError
from octoloom.runtime.watchdog import Watchdog
from octoloom.spark import failures
from octoloom.spark.journal_entries import Opened, entries
from octoloom.spark.journal_rows import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

SCHEMA = "kind string, space string, partition int, clean boolean, report string, state string"
DEAD_MAX = 100
ROWS_MAX = 1_000
REPORTED_MAX = 1_000
"""So many spaces that are not clean are told one by one; all are counted."""

_encode = msgspec.json.Encoder().encode
_Row = tuple[str, str | None, int | None, bool | None, str | None, str | None]


class Judged(NamedTuple):
    clean: bool
    report: bytes
    sums: dict[str, int]
    state: bytes | None = None


class Judge(Protocol):
    """One space."""

    def read(self, record: Opened) -> None: ...

    def finish(self) -> Judged: ...


class DeadRecord(msgspec.Struct, frozen=True):
    """A record that cannot be read."""

    topic: str
    partition: int
    offset: int
    space: str | None
    reason: str


class TaskSum(msgspec.Struct):
    places: list[str] = []
    sums: dict[str, int] = {}


class SpaceReport(msgspec.Struct):
    """All tasks together."""

    sums: dict[str, int]
    reports: list[bytes]
    """Of those spaces that are not clean, as many as are told one by one, by name."""
    dead: list[DeadRecord]
    doubled: list[str]
    """Spaces with records in two partitions."""

    def sum_of(self, prefix: str) -> dict[str, int]:
        """Of `finding:settled-twice` and the like, by what stands behind the colon, the most frequent first."""
        found = {key.partition(":")[2]: count for key, count in self.sums.items() if key.startswith(f"{prefix}:")}
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


MakeJudge = Callable[[str], Judge]
Begin = Callable[[], AbstractContextManager[MakeJudge]]
"""What a task begins with, and ends."""


class JudgeTask:
    """What an executor does. `begin` makes the maker of judges, once for each task."""

    def __init__(self, begin: Begin, everything: bool = False) -> None:
        self._begin = begin
        self._everything = everything

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self._begin() as make:
            yield from _in_batches(self._run(make, batches))

    def _run(self, make: MakeJudge, batches: Iterable[pa.RecordBatch]) -> Iterator[_Row]:
        judges, rows = dict[tuple[int, str], Judge](), list[_Row]()
        sums, places = Counter[str](), dict[str, None]()
        for batch in batches:
            for record in entries(batch):
                places[f"{record.topic}-{record.partition}"] = None
                if record.entry is None:
                    sums["dead"] += 1
                    if sums["dead"] <= DEAD_MAX:
                        rows.append(_dead_row(record))
                if record.space is None:
                    continue
                judge = judges.get((record.partition, record.space))
                if judge is None:
                    judge = judges[record.partition, record.space] = make(record.space)
                judge.read(record)
        yield from self._verdicts(judges, rows, sums, places)

    def _verdicts(
        self, judges: dict[tuple[int, str], Judge], rows: list[_Row], sums: Counter[str], places: dict[str, None]
    ) -> Iterator[_Row]:
        yield from rows
        told = 0
        while judges:
            # One after the other is let go: together with their states they may be large.
            (partition, space), judge = judges.popitem()
            judged = judge.finish()
            sums.update(judged.sums)
            sums["spaces"] += 1
            sums["clean"] += judged.clean
            told += not judged.clean
            is_told = self._everything or (not judged.clean and told <= REPORTED_MAX)
            report = judged.report.decode() if is_told else None
            state = judged.state.decode() if judged.state is not None else None
            yield "space", space, partition, judged.clean, report, state
        total = TaskSum(list(places), dict(sums))
        yield "sum", None, None, None, _encode(total).decode(), None


def _dead_row(record: Opened) -> _Row:
    dead = DeadRecord(record.topic, record.partition, record.offset, record.space, record.error)
    return "dead", record.space, record.partition, False, _encode(dead).decode(), None


def _in_batches(rows: Iterator[_Row]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    schema = pa.schema(
        [
            ("kind", pa.string()),
            ("space", pa.string()),
            ("partition", pa.int32()),
            ("clean", pa.bool_()),
            ("report", pa.string()),
            ("state", pa.string()),
        ]
    )
    waiting: list[_Row] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == ROWS_MAX:
            yield pa.RecordBatch.from_arrays([pa.array(c, t) for c, t in _columns(waiting, schema)], schema=schema)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_arrays([pa.array(c, t) for c, t in _columns(waiting, schema)], schema=schema)


def _columns(rows: list[_Row], schema: Any) -> Iterator[tuple[Any, Any]]:
    return zip(zip(*rows, strict=True), schema.types, strict=True)


@contextmanager
def watched(app: App | None) -> Iterator[None]:
    """Ends reducers that do not end, as a link does; where there is no watching (beside a main thread), not."""
    watchdog = Watchdog([app] if app is not None else [])
    with suppress(UsageError):
        watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


def judged(frame: DataFrame, begin: Begin, *, everything: bool = False) -> DataFrame:
    """The rows of all tasks, for a frame with the journal as the source gives it."""
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise UsageError(
            f"the journal is read with the columns {', '.join(COLUMNS)}: {', '.join(missing)} is not there"
        )
    return frame.select(*COLUMNS).mapInArrow(JudgeTask(begin, everything), SCHEMA)


def gather(rows: DataFrame) -> SpaceReport:
    """The report of what `judged` gives. It looks twice, so `rows` had better be kept (`persist`)."""
    with failures.told():
        told = rows.where("report is not null").select("kind", "space", "report").collect()
        names = rows.where("kind = 'space'").groupBy("space").count().where("count > 1").limit(REPORTED_MAX)
        doubled = sorted(row["space"] for row in names.collect())
    sums = [msgspec.json.decode(row["report"], type=TaskSum) for row in told if row["kind"] == "sum"]
    dead = [msgspec.json.decode(row["report"], type=DeadRecord) for row in told if row["kind"] == "dead"]
    reports = sorted((row["space"], row["report"]) for row in told if row["kind"] == "space")[:REPORTED_MAX]
    places = [place for each in sums for place in each.places]
    for number, place in enumerate(places):
        if place in places[:number]:
            text = f"{place} was cut into several tasks, and a space's records belong together"
            raise UsageError(f"{text}: read it without minPartitions")
    total = Counter[str]()
    for each in sums:
        total.update(each.sums)
    return SpaceReport(
        dict(total),
        [report.encode() for _, report in reports],
        sorted(dead, key=lambda one: (one.topic, one.partition, one.offset))[:DEAD_MAX],
        doubled,
    )
