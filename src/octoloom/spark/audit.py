"""The audit on Spark: every promise, held against journal, brokers' logs and group traces.

    report = audit(spark, bootstrap="127.0.0.1:9092", steps={"room": ["ada.steps", "bob.steps"]})
    report.clean

Each space is judged where its partition of the journal is read, each partition of the log and each group in one task;
`core/journal_audit.py`, `core/log_audit.py` and `core/group_audit.py` say what is asked of them. With an `app` history
is computed again, too: then a patch that was altered shows as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from octoloom.core.app import App
from octoloom.core.findings import Finding
from octoloom.core.group_audit import audit_group
from octoloom.core.journal_audit import SpaceAudit, SpaceVerdict
from octoloom.core.replay import Divergence, Replayer
from octoloom.spark.acknowledgements import Told
from octoloom.spark.apps import app_loader
from octoloom.spark.audit_report import AuditReport, JournalPart
from octoloom.spark.group_verdicts import file_verdicts, topic_verdicts
from octoloom.spark.journal_entries import Opened
from octoloom.spark.journal_tables import read_journal
from octoloom.spark.log_verdicts import log_verdicts
from octoloom.spark.space_verdicts import REPORTED_MAX, Judged, MakeJudge, gather, judged, watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_encode = msgspec.json.Encoder().encode
SUMS = ("records", "changes", "events", "again", "undone")


class SpaceJudge:
    """One space: audited, and computed again if there is an app."""

    def __init__(self, space: str, told: Told, app: App | None) -> None:
        self._audit = SpaceAudit(space, told.settled.get(space, ()))
        self._replayer = Replayer(space, app) if app is not None else None

    def read(self, record: Opened) -> None:
        place = record.partition, record.offset
        if record.entry is None:
            self._audit.unreadable(record.error, place)
            return
        self._audit.read(record.generation, record.entry, place)
        if self._replayer is not None:
            for divergence in self._replayer.read(record.generation, record.entry, *place):
                # Gaps and events that do not fit have names of their own.
                if divergence.what not in ("gap", "events"):
                    self._add(divergence)

    def _add(self, found: Divergence) -> None:
        text = f"{found.what} of {found.name}: recorded {found.recorded}, computed {found.replayed}"
        self._audit.findings.add(
            "replay-differs",
            text,
            generation=found.generation,
            version=found.version,
            device=found.device,
            sequencer=found.sequencer,
            partition=found.partition,
            offset=found.offset,
        )

    def finish(self) -> Judged:
        verdict = self._audit.finish()
        sums = {name: getattr(verdict, name) for name in SUMS}
        sums |= {f"finding:{name}": count for name, count in verdict.counts.items()}
        return Judged(verdict.clean, _encode(verdict), sums)


@contextmanager
def _begin(told: Any, load: Callable[[], App] | None) -> Iterator[MakeJudge]:
    app = load() if load is not None else None
    with watched(app):
        yield lambda space: SpaceJudge(space, told.value, app)


def space_verdicts(frame: DataFrame, *, told: Told | None = None, app: str | App | None = None) -> DataFrame:
    """A row for each space of the journal in `frame` (`kind` is `space`), with its `report` as JSON."""
    return _judged(frame, told or Told(), app, everything=True)


def _judged(frame: DataFrame, told: Told, app: str | App | None, everything: bool = False) -> DataFrame:
    shared = frame.sparkSession.sparkContext.broadcast(told)
    begin = partial(_begin, shared, app_loader(app) if app is not None else None)
    return judged(frame, begin, everything=everything)


def audit_journal(frame: DataFrame, *, told: Told | None = None, app: str | App | None = None) -> JournalPart:
    """The journal in `frame`, as the source gives it."""
    told = told or Told()
    rows = _judged(frame, told, app).persist()
    try:
        found = gather(rows)
        unheard = _unheard(rows, told)
    finally:
        rows.unpersist()
    count = Counter(found.sums)
    strays = [letter for letter in found.dead if letter.space is None]
    findings = [_doubled(space) for space in found.doubled] + unheard
    findings += [
        Finding("unreadable", letter.topic, letter.reason, partition=letter.partition, offset=letter.offset)
        for letter in strays
    ]
    counts = Counter(found.sum_of("finding"))
    counts.update(finding.name for finding in findings)
    # Of records without a readable key only the first are told; all are counted.
    counts["unreadable"] = max(counts["unreadable"], count["dead"])
    return JournalPart(
        spaces=count["spaces"],
        clean_spaces=count["clean"],
        records=count["records"],
        changes=count["changes"],
        events=count["events"],
        again=count["again"],
        undone=count["undone"],
        dead=count["dead"],
        acknowledged=sum(map(len, told.settled.values())),
        counts={name: times for name, times in counts.items() if times},
        verdicts=[msgspec.json.decode(report, type=SpaceVerdict) for report in found.reports],
        findings=findings,
        letters=found.dead,
    )


def _doubled(space: str) -> Finding:
    return Finding("two-partitions", space, f"records of {space} lie in more than one partition")


def _unheard(rows: DataFrame, told: Told) -> list[Finding]:
    """What was told of spaces of which the journal has nothing at all."""
    if not told.settled:
        return []
    spark = rows.sparkSession
    names = spark.createDataFrame([(space,) for space in told.settled], "space string")
    missing = names.join(rows.where("kind = 'space'"), "space", "left_anti").orderBy("space").limit(REPORTED_MAX)
    return [
        Finding(
            "acknowledged-lost",
            row["space"],
            f"{first.device} was told that its event {first.sequencer} is {first.outcome}: the space is not there",
            device=first.device,
            sequencer=first.sequencer,
        )
        for row in missing.collect()
        for first in told.settled[row["space"]]
        if first.outcome != "superseded"
    ]


def audit(
    spark: SparkSession,
    *,
    bootstrap: str,
    journal: Mapping[str, str] | None = MappingProxyType({}),
    topics: Sequence[str] | None = (),
    directories: Sequence[str] = (),
    steps: Mapping[str, Sequence[str | Path]] | None = None,
    step_topics: Sequence[str] = (),
    told: Told | None = None,
    app: str | App | None = None,
) -> AuditReport:
    """The whole audit. None leaves a part out: `journal` are options of the source; of `topics` none named means all.

    `steps` are files by group, `step_topics` topics with the steps of one group each, `directories` those of brokers on
    this machine.
    """
    report = AuditReport()
    if journal is not None:
        frame = read_journal(spark, {"bootstrap": bootstrap} | dict(journal) if bootstrap else journal)
        report.journal = audit_journal(frame, told=told, app=app)
    if topics is not None:
        report.logs = log_verdicts(spark, bootstrap, topics, directories=directories, told=told)
    if steps or step_topics:
        report.groups = file_verdicts(spark, steps) if steps else []
    for topic in step_topics:
        options = {"bootstrap": bootstrap, "topic": topic, "startingOffsets": "earliest"}
        found = topic_verdicts(spark.read.format("octoloom").options(**options).load())
        report.groups = [*(report.groups or ()), *(found or [audit_group(topic, [])])]
    return report
