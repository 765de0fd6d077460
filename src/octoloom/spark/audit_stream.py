"""The audit of the journal while it is written: findings as they arise, each once.

    query = follow_audit(read_journal(spark, {"bootstrap": "127.0.0.1:9092"}, stream=True), "audit", print)
    query.awaitTermination()

Every space's audit goes on, from batch to batch, from what was saved of it (`keyed.py`), beside Spark's checkpoint in
the same directory: a query that is started again goes on where the last one was. What the next record has to explain
is told when that comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from octoloom.core.findings import Finding
from octoloom.core.journal_audit import SpaceAudit
from octoloom.spark.journal_entries import entries
from octoloom.spark.journal_rows import COLUMNS
from octoloom.spark.keyed import PLACE, Hosting, host
from octoloom.spark.state_files import Changes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

EVERY_S = 5.0
SCHEMA = "finding string"
Heard = Callable[[Sequence[Finding]], None]


class AuditRows:
    """A weaver: the spaces of one partition. What it gives are findings, as JSON."""

    def __init__(self) -> None:
        self._audits: dict[str, SpaceAudit] = {}
        self._touched: dict[str, None] = {}

    def take(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        found: list[Finding] = []
        for record in entries(rows):
            place = record.partition, record.offset
            if record.space is None:
                found.append(Finding("unreadable", record.topic, record.error, partition=place[0], offset=place[1]))
                continue
            audit = self._audits.get(record.space)
            if audit is None:
                audit = self._audits[record.space] = SpaceAudit(record.space)
            self._touched[record.space] = None
            before = len(audit.findings.kept)
            if record.entry is None:
                audit.unreadable(record.error, place)
            else:
                audit.read(record.generation, record.entry, place)
            found += audit.findings.kept[before:]
        return _rows(found) if found else None

    def end(self, last: bool) -> pa.RecordBatch | None:
        if not last:
            return None
        found: list[Finding] = []
        for audit in self._audits.values():
            before = len(audit.findings.kept)
            audit.finish()
            found += audit.findings.kept[before:]
        return _rows(found) if found else None

    def load(self, saved: Changes) -> None:
        for space, text in saved.items():
            self._audits[space] = SpaceAudit.load(text)

    def changed(self) -> Changes:
        touched, self._touched = self._touched, {}
        return {space: self._audits[space].save() for space in touched}


def _rows(found: Sequence[Finding]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"finding": pa.array([msgspec.json.encode(one).decode() for one in found])})


def findings(frame: DataFrame, *, state: str | None = None) -> DataFrame:
    """The findings in a frame with the journal, in a column of JSON; a stream needs a directory for its state."""
    # Read from the log, a partition is one task, in order: nothing has to be brought together.
    hosting = Hosting(AuditRows, "key", PLACE, colocated=True, state=state)
    schema: Any = SCHEMA
    return host(frame.select(*COLUMNS), hosting, schema)


def follow_audit(
    stream: DataFrame, directory: str | Path, heard: Heard, *, every_s: float | None = EVERY_S
) -> StreamingQuery:
    """Begins to audit a journal that is still written, or goes on. Without `every_s` it ends with what there is now."""
    own = Path(directory).absolute()
    own.mkdir(parents=True, exist_ok=True)

    def on_batch(batch: DataFrame, _: int) -> None:
        found = [msgspec.json.decode(row["finding"], type=Finding) for row in batch.collect()]
        if found:
            heard(found)

    trigger: dict[str, Any] = {"availableNow": True}
    if every_s is not None:
        trigger = {"processingTime": f"{int(every_s * 1000)} milliseconds"}
    rows = findings(stream, state=str(own / "state"))
    writer = rows.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(own / "checkpoint"))
    return writer.queryName("audit").trigger(**trigger).start()
