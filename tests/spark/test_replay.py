"""Replay on Spark: a long history comes out as it went, a changed reducer is found, and what is bad is told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import octoloom.arena
from octoloom.core.errors import UsageError
from octoloom.core.replay import Replayer
from octoloom.spark.replay import ReplayReport, replay, replayed
from octoloom.wire.journal import JournalRecord
from tests.spark.journals import Play, Row, make_plays, mark_row, merged, produce, to_frame, to_rows, troubled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SPACES, EVENTS, TWINS = 1_000, 100_000, 40


@pytest.fixture(scope="module")
def long_history() -> tuple[list[Row], dict[str, Play]]:
    """At least 100,000 events over 1,000 spaces. Forty spaces at a time have played the same: an app knows no names."""
    plays = make_plays(spaces=SPACES // TWINS, events=EVENTS // TWINS)
    records: list[JournalRecord] = []
    of_space: dict[str, Play] = {}
    for record in merged(plays):
        records += [record._replace(space=f"{record.space}-{twin}") for twin in range(TWINS)]
    for play in plays:
        of_space |= {f"{play.space.name}-{twin}": play for twin in range(TWINS)}
    return to_rows(records), of_space


def test_a_long_history_equals_the_live_states(
    spark: SparkSession, long_history: tuple[list[Row], dict[str, Play]]
) -> None:
    rows, plays = long_history
    found = replayed(to_frame(spark, rows), "octoloom.arena:app").where("kind = 'space'").collect()
    assert len(found) == len(plays) == SPACES
    assert sum(json.loads(row["report"])["events"] for row in found) >= EVENTS
    assert all(row["clean"] for row in found)
    for row in found:
        assert json.loads(row["state"]) == plays[row["space"]].state()


def test_one_changed_character_is_found_and_located(spark: SparkSession, tmp_path: Path) -> None:
    """The game as a file, with `+= 1` turned into `+= 2` where moves are counted."""
    text = Path(octoloom.arena.__file__).read_text()
    changed = tmp_path / "changed_arena.py"
    changed.write_text(text.replace('me["moves"] += 1', 'me["moves"] += 2'))
    assert changed.read_text() != text
    plays = make_plays(spaces=6, events=300)
    rows = to_rows(merged(plays))
    report = replay(to_frame(spark, rows), f"{changed}:app")
    assert not report.clean
    assert (report.spaces, report.same, report.ended_elsewhere) == (6, 0, 6)
    assert set(report.counts) == {"state"}
    assert report.outcomes == {}
    for verdict in report.verdicts:
        play = next(play for play in plays if play.space.name == verdict.space)
        first = verdict.first[0]
        # The first claim that ever took effect in the space.
        version, kill = next(
            (record.entry.version, kill)
            for record in play.records
            for kill, event in zip(record.entry.change.kills, record.entry.events, strict=True)  # type: ignore[union-attr]
            if event.name == "claim" and kill.outcome.word == "applied"
        )
        assert (first.version, first.device, first.sequencer, first.name) == (
            version, kill.device, kill.sequencer, "claim",
        )  # fmt: skip
        moves = re.fullmatch(rf"players\.{kill.device}\.moves = (\d)", first.recorded)
        assert moves is not None
        assert first.replayed == f"players.{kill.device}.moves = {2 * int(moves[1])}"
        row = next(row for row in rows if (row.partition, row.offset) == (first.partition, first.offset))
        assert json.loads(row.value or b"")["version"] == version


def test_all_that_a_reader_has_to_cope_with_is_the_core_alone(spark: SparkSession, bootstrap: str) -> None:
    """Generations, void and late records, doubles, from a real topic: as many as a plain loop finds."""
    from octoloom.spark.journal_tables import read_journal

    records, plays = troubled()
    produce(bootstrap, "troubled-replay", [*to_rows(records), mark_row(offset=10_000)])
    report = replay(read_journal(spark, {"bootstrap": bootstrap, "topic": "troubled-replay"}), octoloom.arena.app)
    assert report.clean
    assert summed(report) == summed_by_core(records)
    assert report.dropped > 0
    assert len(plays) == report.spaces


def summed(report: ReplayReport) -> tuple[int, ...]:
    return report.spaces, report.changes, report.events, report.dropped


def summed_by_core(records: list[JournalRecord]) -> tuple[int, ...]:
    replayers: dict[str, Replayer] = {}
    for record in records:
        replayer = replayers.setdefault(record.space, Replayer(record.space, octoloom.arena.app))
        assert replayer.read(record.generation, record.entry) == []
    verdicts = [replayer.verdict() for replayer in replayers.values()]
    sums = [sum(getattr(verdict, name) for verdict in verdicts) for name in ("changes", "events", "dropped")]
    return len(verdicts), *sums


def test_outcomes_that_would_be_others_are_counted_and_shown(spark: SparkSession, tmp_path: Path) -> None:
    text = Path(octoloom.arena.__file__).read_text()
    stricter = tmp_path / "stricter.py"
    stricter.write_text(text.replace("random() < 0.5", "random() < 0.9"))
    report = replay(to_frame(spark, to_rows(merged(make_plays(spaces=4, events=800)))), f"{stricter}:app")
    assert report.outcomes["applied → rejected"] > 0
    example = report.first
    assert example is not None
    assert (example.what, example.recorded, example.replayed) == ("outcome", "applied", "rejected: well defended")
    # What it might bring later is not counted here: every change is computed from what was recorded before it.
    assert set(report.outcomes) == {"applied → rejected"}
    assert report.ended_elsewhere > 0


def test_a_reducer_that_does_not_end_is_ended(spark: SparkSession, tmp_path: Path) -> None:
    text = Path(octoloom.arena.__file__).read_text()
    endless = tmp_path / "endless.py"
    marked = 'cell, cells, players = event.payload["cell"], state["cells"], state["players"]'
    assert marked in text
    endless.write_text(text.replace(marked, f'{marked}\n    while event.payload["number"] == 2:\n        pass'))
    rows = to_rows(merged(make_plays(spaces=1, events=12, devices=1)))
    report = replay(to_frame(spark, rows), f"{endless}:app")
    assert report.outcomes == {"applied → rejected": 1}
    first = report.first
    assert first is not None
    assert (first.sequencer, first.replayed) == (2, "rejected: the reducer took too long")


def test_what_cannot_be_read_is_told_and_is_not_clean(spark: SparkSession) -> None:
    rows = to_rows(merged(make_plays(spaces=3, events=150)))
    last = {row.key: row for row in rows}
    bad = rows.index(last[b"space1"])
    broken = msgspec.json.encode({**json.loads(rows[bad].value or b""), "merge": 7})
    rows[bad] = rows[bad]._replace(value=broken)
    stray = rows[0]._replace(key=b"\xff", offset=100_000)
    report = replay(to_frame(spark, [*rows, stray]), octoloom.arena.app)
    assert not report.clean
    assert (report.dead, report.same, report.spaces) == (2, 3, 3)
    assert {(letter.space, letter.offset) for letter in report.letters} == {
        ("space1", rows[bad].offset),
        (None, 100_000),
    }


def test_what_is_wrong_with_an_app_or_a_frame_is_said(spark: SparkSession) -> None:
    frame: Any = to_frame(spark, to_rows(merged(make_plays(spaces=1, events=10))))
    with pytest.raises(UsageError, match=r"there is no 'nothing' in octoloom\.arena"):
        replay(frame, "octoloom.arena:nothing")
    with pytest.raises(UsageError, match="headers is not there"):
        replay(frame.drop("headers"), octoloom.arena.app)
    with pytest.raises(UsageError, match="was cut into several tasks"):
        replay(frame.repartition(3), octoloom.arena.app)
