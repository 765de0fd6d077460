"""What an audit says: a verdict for each space, partition and group, and a summary that a person can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from octoloom.core.findings import MEANINGS, Finding
from octoloom.core.group_audit import GroupVerdict
from octoloom.core.journal_audit import SpaceVerdict
from octoloom.core.log_audit import PartitionVerdict
from octoloom.spark.space_verdicts import DeadRecord

if TYPE_CHECKING:
    from rich.table import Table

SHOWN_MAX = 20
"""How many findings are told one by one on a screen."""


class JournalPart(msgspec.Struct):
    """The journal. Spaces that are clean are counted, the others told, up to a bound."""

    spaces: int = 0
    clean_spaces: int = 0
    records: int = 0
    changes: int = 0
    events: int = 0
    again: int = 0
    undone: int = 0
    dead: int = 0
    acknowledged: int = 0
    counts: dict[str, int] = {}
    verdicts: list[SpaceVerdict] = []
    findings: list[Finding] = []
    """About no space that has a verdict of its own."""
    letters: list[DeadRecord] = []


class AuditReport(msgspec.Struct):
    """What was asked for is not None."""

    journal: JournalPart | None = None
    logs: list[PartitionVerdict] | None = None
    groups: list[GroupVerdict] | None = None

    @property
    def clean(self) -> bool:
        return not self.counts

    @property
    def counts(self) -> dict[str, int]:
        """All findings, by name, the most frequent first."""
        total = Counter[str]()
        if self.journal is not None:
            total.update(self.journal.counts)
        for verdict in [*(self.logs or ()), *(self.groups or ())]:
            total.update(verdict.counts)
        return dict(total.most_common())

    def findings(self) -> Iterator[Finding]:
        """Those that are kept in full."""
        if self.journal is not None:
            yield from self.journal.findings
            for space in self.journal.verdicts:
                yield from space.findings
        for verdict in [*(self.logs or ()), *(self.groups or ())]:
            yield from verdict.findings

    def to_json(self) -> bytes:
        return msgspec.json.encode({"clean": self.clean, "counts": self.counts, **msgspec.structs.asdict(self)})

    def summary(self) -> Table:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("what", "how many", "looked at", "verdict"):
            table.add_column(column, justify="right" if column == "how many" else "left")
        for what, count, seen, bad in self._rows():
            verdict = "[green]ok[/]" if not bad else f"[red]{bad} findings[/]" if bad > 1 else "[red]1 finding[/]"
            table.add_row(what, count, seen, verdict)
        return table

    def _rows(self) -> Iterator[tuple[str, str, str, int]]:
        if (part := self.journal) is not None:
            seen = f"{part.records:,} records, {part.changes:,} changes, {part.events:,} events"
            if part.acknowledged:
                seen += f", {part.acknowledged:,} acknowledged"
            yield "spaces in the journal", f"{part.spaces:,}", seen, sum(part.counts.values())
        if self.logs is not None:
            topics = {verdict.topic: None for verdict in self.logs}
            seen = f"{sum(v.records for v in self.logs):,} records in {sum(v.batches for v in self.logs):,} batches"
            told = sum(verdict.acknowledged for verdict in self.logs)
            seen += f" of {len(topics):,} topics" + (f", {told:,} acknowledged" if told else "")
            yield "partitions", f"{len(self.logs):,}", seen, sum(sum(v.counts.values()) for v in self.logs)
        for group in self.groups or ():
            orders = ", ".join(group.orders) or "no order"
            seen = f"{group.sent:,} messages, {group.delivered:,} deliveries, {group.views:,} views, {orders}"
            yield f"group {group.group}", f"{group.members:,} members", seen, sum(group.counts.values())

    def meanings(self) -> Table:
        """Each kind that was found, and what it means."""
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("finding", "times", "meaning"):
            table.add_column(column, justify="right" if column == "times" else "left")
        for name, count in self.counts.items():
            table.add_row(f"[red]{name}[/]", f"{count:,}", MEANINGS[name])
        return table
