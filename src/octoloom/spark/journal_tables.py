"""The journal as typed tables in Parquet: changes, events, outcomes, presence, and from them spaces and devices.

    journal = read_journal(spark, {"bootstrap": "127.0.0.1:9092"})
    print(write_tables(journal, "tables"))            # counts: nothing is dropped without being told
    tables = read_tables(spark, "tables")
    tables["events"].where("outcome = 'rejected'").groupBy("reason").count().show()

A space's records are in one partition of the topic, in order. So a task that reads a partition can apply the reader's
rules (`journal_rows.py`) by itself, without a shuffle, and it writes all tables in one pass. What the tasks have
written becomes visible at once, at the end (`journal_files.py`); a stream does the same per batch, each counts once.

Bad records go to the table `dead_letters`, with the reason and their place, or end the work: `on_error`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from octoloom.core.errors import UsageError
from octoloom.spark import failures
from octoloom.spark.journal_columns import SCHEMAS, Columns
from octoloom.spark.journal_files import Commit, JournalDirectory, TaskFiles, place_name
from octoloom.spark.journal_rows import COLUMNS, DEAD_LETTER, Counts, JournalRows
from octoloom.wire.journal import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLUSH_ROWS = 65_536
"""So many rows wait in a task, at most a batch more, before they are written."""

_REPORT = pa.schema({"report": pa.string()})


class TaskReport(msgspec.Struct):
    folder: str
    counts: Counts
    tables: dict[str, int]
    places: list[str]


def read_journal(spark: SparkSession, options: Mapping[str, str], *, stream: bool = False) -> DataFrame:
    """The journal from its beginning, with the columns that are needed; `options` say where it is."""
    given = {"columns": ",".join(COLUMNS), "startingOffsets": "earliest", **options}
    if not {name.lower() for name in given} & {"topic", "subscribe", "subscribepattern", "assign"}:
        given["topic"] = TOPIC
    reader: Any = spark.readStream if stream else spark.read
    frame: DataFrame = reader.format("octoloom").options(**given).load()
    return frame


# One table, as a part of a larger query.


def table(frame: DataFrame, name: str, *, on_error: str = DEAD_LETTER) -> DataFrame:
    """The rows of one table, computed as they are asked for.

    Versions that a later generation voids are still among them: those are only known when all is read. `write_tables`
    takes them out. Of a stream each batch is read by itself, so what was published twice may come twice:
    `follow_tables` has each once.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    if name not in SCHEMAS:
        raise UsageError(f"there is no table {name!r}: choose one of {', '.join(SCHEMAS)}")
    work = partial(_rows_of, name=name, on_error=on_error, anywhere=frame.isStreaming)
    return frame.select(*COLUMNS).mapInArrow(work, from_arrow_schema(SCHEMAS[name]))


def _rows_of(batches: Iterable[pa.RecordBatch], name: str, on_error: str, anywhere: bool) -> Iterator[pa.RecordBatch]:
    rows, columns = JournalRows(on_error, anywhere=anywhere), Columns([name])
    for batch in batches:
        _gather(rows, columns, batch)
        yield from columns.take().values()


def _gather(rows: JournalRows, columns: Columns, batch: pa.RecordBatch) -> None:
    for taken in rows.take(batch):
        columns.add(taken)
    for void in rows.voids:
        columns.add_void(void)
    for dead in rows.dead:
        columns.add_dead(dead)
    rows.voids.clear()
    rows.dead.clear()


# All tables, into a directory.


def write_tables(
    frame: DataFrame, directory: str | Path, *, on_error: str = DEAD_LETTER, overwrite: bool = False
) -> Commit:
    """Writes all tables of the journal in `frame`. Answers what became of its rows."""
    target = JournalDirectory(Path(directory).absolute())
    JournalRows(on_error)
    target.prepare(overwrite=overwrite)
    commit = write_batch(frame, target, Commit(0, "", Counts(), {}), None, on_error)
    write_summaries(frame.sparkSession, target)
    return commit


def write_batch(
    frame: DataFrame, target: JournalDirectory, commit: Commit, before: Commit | None, on_error: str
) -> Commit:
    """One batch, whole: from the states that `before` left to the files and the states of `commit`."""
    with failures.told():
        work = partial(write_task, str(target.path), before, on_error)
        found = frame.select(*COLUMNS).mapInArrow(work, "report string").collect()
    return settle([read_report(row["report"]) for row in found], target, commit, before)


def settle(reports: list[TaskReport], target: JournalDirectory, commit: Commit, before: Commit | None) -> Commit:
    """What the tasks of a batch have written becomes part of the tables."""
    twice = _twice([place for report in reports for place in report.places])
    if twice:
        raise UsageError(f"{twice} was cut into several tasks, and a space's records belong together: no minPartitions")
    if before is not None:
        commit.counts.add(before.counts)
        commit.states = dict(before.states)
        commit.tables = dict(before.tables)
    for report in reports:
        commit.counts.add(report.counts)
        for name, rows in report.tables.items():
            commit.tables[name] = commit.tables.get(name, 0) + rows
    return target.commit(commit, [Path(report.folder) for report in reports])


def read_report(text: str) -> TaskReport:
    return msgspec.json.decode(text, type=TaskReport)


def _twice(places: list[str]) -> str | None:
    return next((place for number, place in enumerate(places) if place in places[:number]), None)


def write_task(
    directory: str, before: Commit | None, on_error: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What an executor does: all tables of its partitions."""
    target = JournalDirectory(Path(directory))
    files, columns = TaskFiles(target.path), Columns()
    rows = JournalRows(on_error, lambda topic, number: target.read_state(before, place_name(topic, number)))
    for batch in batches:
        _gather(rows, columns, batch)
        if columns.rows >= FLUSH_ROWS:
            files.write(columns.take())
    files.write(columns.take())
    for topic, number in rows.seen:
        files.write_state(place_name(topic, number), rows.save(topic, number))
    files.close()
    places = [place_name(*place) for place in rows.seen]
    report = TaskReport(str(files.folder), rows.counts, files.rows, places)
    yield pa.RecordBatch.from_pydict({"report": [msgspec.json.encode(report).decode()]}, schema=_REPORT)


# Reading them.


def read_tables(spark: SparkSession, directory: str | Path) -> dict[str, DataFrame]:
    """All tables of a directory, by name, as they are now."""
    from pyspark.sql.pandas.types import from_arrow_schema

    target = JournalDirectory(Path(directory).absolute())
    if target.last_commit() is None:
        raise UsageError(f"{directory} holds no tables of a journal: make them with `octoloom spark run journal`")
    tables = {
        name: spark.read.schema(from_arrow_schema(schema)).parquet(str(target.path / name))
        for name, schema in SCHEMAS.items()
    }
    return tables | {"spaces": spaces(tables), "devices": devices(tables)}


def write_summaries(spark: SparkSession, target: JournalDirectory) -> None:
    """The tables that say one thing of each space and device, made anew from the others."""
    tables = read_tables(spark, target.path)
    for name in ("spaces", "devices"):
        with target.replacing(name) as path:
            tables[name].coalesce(1).write.parquet(str(path))


def spaces(tables: Mapping[str, DataFrame]) -> DataFrame:
    """A row per space: where it is, and how much has happened in it."""
    return tables["changes"].sparkSession.sql(_SPACES, changes=tables["changes"])


def devices(tables: Mapping[str, DataFrame]) -> DataFrame:
    """A row per space and device: what it did, how that ended, and whether it is there."""
    spark = tables["events"].sparkSession
    return spark.sql(_DEVICES, events=tables["events"], presence=tables["presence"])


_SPACES = """
select space,
       max_by(chain, struct(generation, version)) as chain,
       max(generation) as generation,
       max(version) as version,
       count_if(kind = 'change') as changes,
       sum(events) as events,
       min(at_ms) as first_ms,
       max(at_ms) as last_ms,
       max(partition) as partition
from {changes}
group by space
"""

_DEVICES = """
select space, device,
       coalesce(events, 0) as events,
       coalesce(applied, 0) as applied,
       coalesce(rejected, 0) as rejected,
       coalesce(superseded, 0) as superseded,
       coalesce(quarantined, 0) as quarantined,
       coalesce(last_sequencer, 0) as last_sequencer,
       coalesce(joins, 0) as joins,
       coalesce(leaves, 0) as leaves,
       present,
       least(first_event_ms, first_presence_ms) as first_ms,
       greatest(last_event_ms, last_presence_ms) as last_ms
from (
    select space, device,
           count(*) as events,
           count_if(outcome = 'applied') as applied,
           count_if(outcome = 'rejected') as rejected,
           count_if(outcome = 'superseded') as superseded,
           count_if(outcome = 'quarantined') as quarantined,
           max(sequencer) as last_sequencer,
           min(time_ms) as first_event_ms,
           max(time_ms) as last_event_ms
    from {events}
    where not startswith(device, '@')
    group by space, device
) full join (
    select space, device,
           count_if(present) as joins,
           count_if(not present) as leaves,
           max_by(present, struct(version, position)) as present,
           min(time_ms) as first_presence_ms,
           max(time_ms) as last_presence_ms
    from {presence}
    group by space, device
) using (space, device)
"""
