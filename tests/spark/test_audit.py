"""The audit on Spark: a clean run is clean, and every kind of damage is found, in the space or group that has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from octoloom.arena import app as arena
from octoloom.core.acknowledged import Settled, Written
from octoloom.core.findings import MEANINGS
from octoloom.core.steps import Step
from octoloom.runtime.step_file import StepWriter
from octoloom.spark.acknowledgements import Told
from octoloom.spark.audit import audit, audit_journal
from octoloom.spark.audit_report import JournalPart
from octoloom.spark.group_verdicts import file_verdicts
from octoloom.wire.journal import JournalRecord
from tests.core.audit_story import Entries, history
from tests.core.group_steps import simulated
from tests.core.test_group_audit import DAMAGE as GROUP_DAMAGE
from tests.core.test_journal_audit import DAMAGE as SPACE_DAMAGE
from tests.spark.journals import BEGINNING_MS, Row, make_plays, mark_row, merged, produce, to_frame, to_rows, troubled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def told_of(records: list[JournalRecord]) -> Told:
    """What the devices were told, of what counts in the end."""
    told = Told()
    for record in records:
        kills = record.entry.change.kills if record.entry.change is not None else []
        told.settled.setdefault(record.space, []).extend(
            Settled(record.space, kill.device, kill.sequencer, kill.outcome.word, record.entry.version)
            for kill in kills
            if not kill.device.startswith("@")
        )
    return told


def step_rows(steps: list[Step], topic: str) -> list[Row]:
    """As a `StepTopic` writes them: a member's steps in one partition."""
    return [
        Row(step.member.encode(), msgspec.json.encode(step), (), topic, 0, at, BEGINNING_MS)
        for at, step in enumerate(steps)
    ]


def write_steps(path: Path, steps: list[Step] | tuple[Step, ...]) -> Path:
    with StepWriter(path) as writer:
        writer.write(steps)
    return path


def test_a_clean_run_is_clean(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    """All of it at once, from real brokers: lost chains and doubles, a group in a topic, another in files."""
    records, plays = troubled()
    rows = [*to_rows(records), mark_row(offset=10_000)]
    produce(bootstrap, "clean-journal", rows)
    steps = list(simulated(1))
    produce(bootstrap, "clean-steps", step_rows(steps, "clean-steps"), partitions=1)
    members = dict.fromkeys(step.member for step in simulated(3))
    files: list[str | Path] = [
        write_steps(tmp_path / f"{member}.steps", [step for step in simulated(3) if step.member == member])
        for member in members
    ]
    told = told_of([record for play in plays for record in play.records])
    told.written["clean-steps", 0] = [Written("clean-steps", 0, 0, steps[0].member), Written("clean-steps", 0, 7)]
    report = audit(
        spark,
        bootstrap=bootstrap,
        journal={"topic": "clean-journal"},
        topics=["clean-journal", "clean-steps"],
        steps={"room": files},
        step_topics=["clean-steps"],
        told=told,
        app=arena,
    )
    assert report.counts == {}
    assert report.clean
    assert report.journal is not None
    assert report.logs is not None
    assert report.groups is not None
    assert (report.journal.spaces, report.journal.records) == (3, len(records))
    assert min(report.journal.again, report.journal.undone, report.journal.acknowledged) > 0
    assert sum(verdict.records for verdict in report.logs) == len(rows) + len(steps)
    assert [verdict.group for verdict in report.groups] == ["room", "clean-steps"]
    assert all(verdict.delivered for verdict in report.groups)
    assert json.loads(report.to_json())["clean"] is True


def rows_of(space: str, entries: Entries) -> list[JournalRecord]:
    return [
        JournalRecord(space, "chain1", generation, entry.change.epoch if entry.change else 1, BEGINNING_MS + at, entry)
        for at, (generation, entry) in enumerate(entries)
    ]


def names_by_space(part: JournalPart) -> dict[str, list[str]]:
    return {verdict.space: list(verdict.counts) for verdict in part.verdicts}


def test_each_damage_is_found_in_its_space(spark: SparkSession) -> None:
    """As many spaces as there are kinds of damage, each with one of them, and one without, in one journal."""
    entries = history(3, 240)
    records = rows_of("whole", entries)
    for damage, _ in SPACE_DAMAGE:
        records += rows_of(damage.__name__, damage(entries))
    part = audit_journal(to_frame(spark, to_rows(records)))
    found = names_by_space(part)
    assert "whole" not in found
    assert (part.spaces, part.clean_spaces) == (len(SPACE_DAMAGE) + 1, 1)
    for damage, name in SPACE_DAMAGE:
        assert name in found[damage.__name__]
    assert sum(part.counts.values()) >= len(SPACE_DAMAGE)


def test_what_devices_were_told_is_held_against_the_journal(spark: SparkSession) -> None:
    """Lost, otherwise, and of a space that is not there; a patch that was altered shows when it is computed again."""
    plays = make_plays(spaces=4, events=200)
    told = told_of(merged(plays))
    lost, otherwise, altered = plays[:3]
    del lost.records[-5:]
    settled = told.settled[otherwise.space.name]
    settled[0] = msgspec.structs.replace(settled[0], outcome="quarantined")
    told.settled["nowhere"] = [Settled("nowhere", "ada", 1, "applied")]
    changes = [record.entry.change for record in altered.records]
    at = next(at for at, change in enumerate(changes) if change is not None and b'"cells":{"' in change.merge)
    record = altered.records[at]
    assert record.entry.change is not None
    change = msgspec.structs.replace(
        record.entry.change, merge=record.entry.change.merge.replace(b'"cells":{', b'"cells":{"z":"mallory",')
    )
    altered.records[at] = record._replace(entry=msgspec.structs.replace(record.entry, change=change))
    part = audit_journal(to_frame(spark, to_rows(merged(plays))), told=told, app="octoloom.arena:app")
    found = names_by_space(part)
    assert found[lost.space.name] == ["acknowledged-lost"]
    assert found[otherwise.space.name] == ["acknowledged-otherwise"]
    assert found[altered.space.name] == ["replay-differs"]
    assert plays[3].space.name not in found
    assert [(finding.name, finding.about) for finding in part.findings] == [("acknowledged-lost", "nowhere")]


def test_bad_records_and_spaces_in_two_partitions_are_told(spark: SparkSession) -> None:
    rows = to_rows(merged(make_plays(spaces=3, events=90)))
    mine = [row for row in rows if row.key == b"space1"]
    others = [row for row in rows if row.key != b"space1"]
    there = [row._replace(partition=(row.partition + 1) % 8, offset=50_000 + at) for at, row in enumerate(mine)]
    stray = mine[0]._replace(key=b"\xff", offset=100_000)
    broken = next(row for row in others if row.key == b"space2")
    bad = broken._replace(value=b"oops", offset=200_000)
    part = audit_journal(to_frame(spark, [*rows, *there, stray, bad]))
    assert part.counts == {"two-partitions": 1, "unreadable": 2}
    assert {(finding.name, finding.about) for finding in part.findings} == {
        ("two-partitions", "space1"),
        ("unreadable", "journal"),
    }
    assert names_by_space(part) == {"space2": ["unreadable"]}
    assert {letter.offset for letter in part.letters} == {100_000, 200_000}


def test_each_damage_of_groups_is_found_in_its_group(spark: SparkSession, tmp_path: Path) -> None:
    groups: dict[str, list[str | Path]] = {"whole": [write_steps(tmp_path / "whole.steps", simulated(1))]}
    expected: dict[str, str] = {}
    for damage, name in GROUP_DAMAGE:
        damaged = next(each for seed in range(24) for each in damage(list(simulated(seed))))
        groups[damage.__name__] = [write_steps(tmp_path / f"{damage.__name__}.steps", damaged)]
        expected[damage.__name__] = name
    unreadable = write_steps(tmp_path / "unreadable.steps", simulated(1))
    unreadable.write_bytes(b"oops\n" + unreadable.read_bytes() + b'{"name": "torn')
    groups["unreadable"], expected["unreadable"] = [unreadable], "unreadable"
    verdicts = {verdict.group: verdict for verdict in file_verdicts(spark, groups)}
    assert verdicts["whole"].clean
    for group, name in expected.items():
        assert name in verdicts[group].counts
        assert MEANINGS[name]
    assert verdicts["unreadable"].counts == {"unreadable": 1}


def test_a_journal_that_is_still_written_is_followed(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    """Damage that shows only with what was read in an earlier batch: an event that is settled once more."""
    from octoloom.spark.audit_stream import follow_audit
    from octoloom.spark.journal_tables import read_journal

    entries = history(3, 240)
    damage, name = next((damage, name) for damage, name in SPACE_DAMAGE if name == "settled-twice")
    rows = to_rows([*rows_of("table", damage(entries)), *rows_of("other", entries)], partitions=2)
    found: list[Any] = []
    for batch in (rows[:40], rows[40:]):
        produce(bootstrap, "followed", batch, partitions=2)
        stream = read_journal(spark, {"bootstrap": bootstrap, "topic": "followed"}, stream=True)
        query = follow_audit(stream, tmp_path / "audit", found.extend, every_s=None)
        query.awaitTermination(120)
        assert query.exception() is None
    assert {(finding.about, finding.name) for finding in found} >= {("table", name)}
    assert all(finding.about == "table" for finding in found)
