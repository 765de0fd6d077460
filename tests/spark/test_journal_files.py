"""Batches become part of the tables as wholes, each once, wherever the process dies. All of it without Spark."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from octoloom.core.errors import StoreError, UsageError
from octoloom.spark.journal_files import Commit, JournalDirectory
from octoloom.spark.journal_rows import FAIL, Counts
from octoloom.spark.journal_tables import read_report, settle, write_task
from tests.spark.journals import PARTITIONS, Play, Row, to_arrow, to_rows, troubled

BATCH = 70
"""Rows of one batch."""


class Died(Exception):  # noqa: N818
    pass


def rows_of(directory: Path, name: str) -> list[dict[str, Any]]:
    """A table as any reader of Parquet finds it, in order."""
    found: list[dict[str, Any]] = ds.dataset(directory / name, format="parquet").to_table().to_pylist()
    return sorted(found, key=lambda row: (row["space"], row.get("version", 0), row.get("position", 0)))


def expected_events(plays: list[Play]) -> list[tuple[Any, ...]]:
    return [
        (
            *(record.space, record.generation, record.entry.version, number),
            *(event.chain_sequencer, event.device, event.sequencer, event.name, event.payload.decode()),
            *(event.time_ms, event.dice, kill.outcome.word, kill.reason, record.at_ms),
        )
        for play in plays
        for record in play.records
        if record.entry.change is not None
        for number, (event, kill) in enumerate(zip(record.entry.events, record.entry.change.kills, strict=True))
    ]


def expected_changes(plays: list[Play]) -> list[tuple[Any, ...]]:
    found = []
    for play in plays:
        for record in play.records:
            change, start = record.entry.change, record.entry.start
            inner = (False, change.merge) if change is not None else (True, start.state if start else b"")
            tag = (record.space, record.generation, record.entry.version, record.epoch, record.at_ms)
            found.append((*tag, "start" if start else "change", inner[0], inner[1].decode()))
    return found


def check(directory: Path, plays: list[Play]) -> None:
    """The tables tell the history that counts, and nothing else."""
    assert [tuple(row.values()) for row in rows_of(directory, "events")] == expected_events(plays)
    names = ("space", "generation", "version", "epoch", "at_ms", "kind", "replace", "merge")
    assert [tuple(row[name] for name in names) for row in rows_of(directory, "changes")] == expected_changes(plays)
    outcomes = [(row["space"], row["chain_sequencer"], row["outcome"]) for row in rows_of(directory, "outcomes")]
    assert outcomes == [(row[0], row[4], row[11]) for row in expected_events(plays)]
    present: dict[tuple[str, str], bool] = {}
    for row in rows_of(directory, "presence"):
        present[row["space"], row["device"]] = row["present"]
    there = [(space, device) for (space, device), is_there in present.items() if is_there]
    assert sorted(there) == sorted((play.space.name, device) for play in plays for device in play.space.present)


def write(target: JournalDirectory, rows: list[Row], batch: int, *, tasks: int = PARTITIONS) -> Commit:
    """What a streaming query does with one batch: a task for each partition, unless there are fewer."""
    if (done := target.find_commit(batch)) is not None:
        return done
    before = target.last_commit(batch)
    reports = []
    for task in sorted({row.partition % tasks for row in rows}):
        content = to_arrow([row for row in rows if row.partition % tasks == task])
        [report] = write_task(str(target.path), before, FAIL, content.to_batches())
        reports.append(read_report(report.column("report")[0].as_py()))
    return settle(reports, target, Commit(batch, "query", Counts(), {}), before)


def write_all(target: JournalDirectory, rows: list[Row]) -> Commit:
    """In batches that bring some partitions something and others nothing."""
    parts = [rows[at : at + BATCH] for at in range(0, len(rows), BATCH)]
    halves = [[row for row in part if row.partition % 2 == half] for part in parts for half in (0, 1)]
    return [write(target, half, number) for number, half in enumerate(halves)][-1]


def test_batches_add_up(tmp_path: Path) -> None:
    records, plays = troubled()
    rows = to_rows(records)
    commit = write_all(JournalDirectory(tmp_path), rows)
    check(tmp_path, plays)
    counts = commit.counts
    assert (counts.rows, counts.voided) == (len(rows), 3)
    assert counts.taken + counts.doubles + counts.late == counts.rows
    assert commit.tables["changes"] == counts.taken
    assert [path.name for path in (tmp_path / "_octoloom" / "begun").glob("*")] == []
    assert len(list((tmp_path / "_octoloom" / "states").iterdir())) <= 2 * len({row.partition for row in rows})


def test_it_may_die_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each of its moves of files: those of tasks, of states, of voids, of the commit."""
    records, plays = troubled()
    rows = to_rows(records, partitions=2)
    begin = next(number for number, record in enumerate(records) if record.generation == 2) - 10
    base = JournalDirectory(tmp_path / "base")
    write(base, rows[:begin], 0)
    replace, moves_left = os.replace, 0

    def dies(source: Any, place: Any) -> None:
        nonlocal moves_left
        moves_left -= 1
        if moves_left < 0:
            raise Died
        replace(source, place)

    deaths = 0
    while moves_left <= 0:
        target = JournalDirectory(tmp_path / str(deaths))
        shutil.copytree(base.path, target.path)
        moves_left = deaths
        with monkeypatch.context() as context, contextlib.suppress(Died):
            context.setattr("octoloom.spark.journal_files.os.replace", dies)
            write(target, rows[begin : begin + 40], 1)
        # It is planned anew, perhaps otherwise.
        write(target, rows[begin : begin + 40], 1, tasks=1 + deaths % 2)
        commit = write(target, rows[begin + 40 :], 2)
        check(target.path, plays)
        assert commit.counts.rows == len(records)
        deaths += 1
    assert deaths > 10


def test_damage_is_told(tmp_path: Path) -> None:
    target = JournalDirectory(tmp_path)
    write_all(target, to_rows(troubled()[0]))
    last = max((tmp_path / "_octoloom" / "commits").glob("*.json"))
    last.write_text("{}")
    with pytest.raises(StoreError, match=rf"{last.name} cannot be read.*choose another directory"):
        target.last_commit()


def test_where_tables_are_not_written(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("dear")
    with pytest.raises(UsageError, match=r"holds diary.txt, which is no table"):
        JournalDirectory(tmp_path).prepare(overwrite=True)
    assert (tmp_path / "diary.txt").exists()
    tables = JournalDirectory(tmp_path / "tables")
    write_all(tables, to_rows(troubled()[0]))
    with pytest.raises(UsageError, match="holds tables already: choose another directory, or --overwrite"):
        tables.prepare(overwrite=False)
    tables.prepare(overwrite=True)
    assert list(tables.path.iterdir()) == []
    with pytest.raises(StoreError, match="cannot be written to"):
        JournalDirectory(tmp_path / "diary.txt").prepare(overwrite=False)


def test_what_tasks_have_written_elsewhere_is_missed(tmp_path: Path) -> None:
    target, rows = JournalDirectory(tmp_path / "here"), to_rows(troubled()[0], partitions=1)
    [report] = write_task(str(target.path), None, FAIL, to_arrow(rows).to_batches())
    target.path.rename(tmp_path / "there")
    with pytest.raises(StoreError, match=r"not there on this machine: choose a directory that all machines mount"):
        settle([read_report(report.column("report")[0].as_py())], target, Commit(0, "", Counts(), {}), None)


def test_a_partition_in_two_tasks_is_refused(tmp_path: Path) -> None:
    target, rows = JournalDirectory(tmp_path), to_rows(troubled()[0], partitions=1)
    reports = []
    for part in (rows[:10], rows[10:20]):
        [report] = write_task(str(tmp_path), None, "dead-letter", to_arrow(part).to_batches())
        reports.append(read_report(report.column("report")[0].as_py()))
    with pytest.raises(UsageError, match=r"journal-0 was cut into several tasks.*no minPartitions"):
        settle(reports, target, Commit(0, "", Counts(), {}), None)
    assert target.last_commit() is None
