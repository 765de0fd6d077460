"""The examiner of the demo: Spark looks at all that was left behind, as a process of its own, and says what it found.

It is told on the command line where to look (`Examination`), and says on its standard output, one JSON object on each
line, what it does (`Said`) and what came of it. It knows nothing of the game but what lies in the log and in files.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from octoloom.core.errors import OctoloomError, UsageError
from octoloom.runtime.processes import end_with_parent, ready_line
from octoloom.runtime.proof import Verdict, digest_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES = "tables"


class Examination(msgspec.Struct, frozen=True):
    """Where to look, and what was promised."""

    bootstrap: str
    app: str
    space: str
    digest: str
    """Of the state that the replicas hold."""
    acknowledged: str
    """A file with what players were told."""
    traces: list[str]
    report: str


class Said(msgspec.Struct, omit_defaults=True):
    tell: str = ""
    verdict: Verdict | None = None
    failed: str = ""


def say(said: Said) -> None:
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")
    sys.stdout.flush()


def examine(work: Examination) -> Iterator[Said]:
    from octoloom.spark.failures import told
    from octoloom.spark.journal_tables import read_journal
    from octoloom.spark.sessions import session

    yield Said("starting Spark on this machine")
    # It is a short work: Java's better compiler would cost more than it gives.
    spark = session("demo", config={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
    try:
        with told():
            journal = read_journal(spark, {"bootstrap": work.bootstrap})
            yield Said("every event of the journal is computed again, with the same code")
            yield Said(verdict=replay_verdict(work, journal))
            yield Said("journal, logs and the traces of the groups are audited")
            yield from map(_as_said, audit_verdicts(work, spark))
            yield Said("what went on is drawn")
            yield Said(draw(work, spark, journal))
    finally:
        spark.stop()


def replay_verdict(work: Examination, journal: DataFrame) -> Verdict:
    """Computed again from the events alone, the arena must come to what its replicas hold."""
    from octoloom.core.replay import ReplayVerdict
    from octoloom.spark.replay import replayed

    promise = "computed again on Spark, it is the same"
    rows = replayed(journal, work.app).where("kind = 'space'").collect()
    states = {row["space"]: row["state"] for row in rows}
    reports = [msgspec.json.decode(row["report"], type=ReplayVerdict) for row in rows]
    if work.space not in states:
        return Verdict(promise, False, f"the journal has nothing of {work.space}")
    events, changes = (sum(getattr(report, name) for report in reports) for name in ("events", "changes"))
    differing = [report for report in reports if not report.clean]
    if differing and differing[0].first:
        return Verdict(promise, False, f"{len(differing)} spaces differ; first {differing[0].first[0]}")
    if digest_of(msgspec.json.decode(states[work.space])) != work.digest:
        return Verdict(promise, False, f"{work.space} comes out differently from what the replicas hold")
    return Verdict(promise, not differing, f"{events} events, {changes} changes, and the state that the replicas hold")


def audit_verdicts(work: Examination, spark: SparkSession) -> list[Verdict]:
    from octoloom.spark.acknowledgements import read_acknowledgements
    from octoloom.spark.audit import audit

    told = read_acknowledgements([Path(work.acknowledged)])
    steps = {Path(trace).stem: [trace] for trace in work.traces}
    report = audit(spark, bootstrap=work.bootstrap, steps=steps, told=told)
    journal, logs, groups = report.journal, report.logs or [], report.groups or []
    assert journal is not None
    acknowledged = f"{journal.acknowledged} acknowledged events among {journal.events}, {journal.changes} changes"
    records, members = (
        sum(getattr(each, name) for each in found) for found, name in ((logs, "records"), (groups, "members"))
    )
    return [
        _audited("Spark's audit of the journal", acknowledged, journal.counts),
        _audited(
            "Spark's audit of the logs", f"{records} records in {len(logs)} partitions", *(log.counts for log in logs)
        ),
        _audited(
            "Spark's audit of the groups",
            f"{members} members in {len(groups)} groups, {sum(group.delivered for group in groups)} deliveries",
            *(group.counts for group in groups),
        ),
    ]


def _audited(promise: str, detail: str, *counts: dict[str, int]) -> Verdict:
    findings: Counter[str] = Counter()
    for each in counts:
        findings.update(each)
    if findings:
        detail = ", ".join(f"{name} ({times})" for name, times in findings.most_common(3))
    return Verdict(promise, not findings, detail)


def draw(work: Examination, spark: SparkSession, journal: DataFrame) -> str:
    from octoloom.spark.activity import write_activity
    from octoloom.spark.journal_tables import read_tables, write_tables

    folder = Path(work.report)
    write_tables(journal, folder / TABLES, overwrite=True)
    write_activity(read_tables(spark, folder / TABLES), folder)
    return f"tables and plots are in {folder}: begin with {folder / 'activity.png'}"


def _as_said(verdict: Verdict) -> Said:
    return Said(verdict=verdict)


def main() -> None:
    end_with_parent()
    print(ready_line(), flush=True)
    try:
        work = msgspec.json.decode(sys.argv[1], type=Examination)
    except (IndexError, msgspec.MsgspecError) as error:
        raise UsageError(f"the examiner is started by `octoloom demo`: {error}") from error
    try:
        for said in examine(work):
            say(said)
    except OctoloomError as error:
        say(Said(failed=str(error)))
        sys.exit(1)


if __name__ == "__main__":
    main()
