"""Figures of the log as tables: for a terminal, or as Markdown for a page.

The ratios are what counts. The absolute figures depend on the machine, and are there for information.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

from rich.table import Column
from rich.table import Table as RichTable

from log_case import Setup
from log_figures import CLIENTS, LATENCY, OTHERS, WEAKER, Figure, Figures, Verdict, records_case

NONE = "–"
WEAKER_NOTE = f"{WEAKER} This peer cannot sync before it acknowledges. It syncs in the background, and stands as that."


@dataclass(frozen=True, slots=True)
class Table:
    """Columns whose name begins with a space hold text, the others numbers."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)

    def rich(self) -> RichTable:
        columns = [
            Column(name.strip(), justify="left" if name.startswith(" ") else "right", overflow="fold")
            for name in self.columns
        ]
        table = RichTable(*columns, title=self.title)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        marks = ["---" if name.startswith(" ") else "---:" for name in self.columns]
        rows = [[name.strip() for name in self.columns], marks, *self.rows]
        lines = ["|".join(["", *(cell if row is marks else f" {cell} " for cell in row), ""]) for row in rows]
        return "\n".join([f"{self.title}:", "", *lines, ""])


def _number(figure: Figure | None) -> str:
    if figure is None:
        return NONE
    return f"{figure.value:,.3f}" if figure.case.startswith(LATENCY) else f"{figure.value:,.0f}"


def _ours(case: str) -> list[tuple[str, str]]:
    """What of ours stands beside a case, and the name of it: beside blobs of theirs, records and blobs of ours."""
    records = records_case(case)
    return [("records", records), ("blobs", case)] if records != case else [("records", case)]


def case_table(figures: Figures, case: str) -> Table:
    unit = "ms" if case.startswith(LATENCY) else "records/s"
    others = figures.others
    names = ["replicas", " sync", " ours", " client", *(f"to {OTHERS[peer]}" for peer in others)]
    names += [f"ours, {unit}", *(f"{OTHERS[peer]}, {unit}" for peer in others)]
    table = Table(f"{case[0].upper()}{case[1:]}", names)
    for mine in figures.ours:
        for way, my_case in _ours(case):
            ratios = [figures.ratio(my_case, mine, peer, case) for peer in others]
            theirs = [found[0] if (found := figures.theirs(case, peer, mine)) else None for peer in others]
            cells = [str(ratio) if ratio else NONE for ratio in ratios]
            numbers = [_number(figure) for figure in (figures.of(my_case, mine), *theirs)]
            table.rows.append([str(mine.replicas), mine.sync, way, CLIENTS[mine.system], *cells, *numbers])
    return table


def summary_table(figures: Figures, replicas: int) -> Table:
    """All cases, as ratios alone."""
    ours = [mine for mine in figures.ours if mine.replicas == replicas]
    pairs = [(sync, peer) for sync in dict.fromkeys(mine.sync for mine in ours) for peer in figures.others]
    names = [" case", " ours", " client", *(f"{sync}: to {OTHERS[peer]}" for sync, peer in pairs)]
    table = Table(f"{_replicas(replicas)}, above 1 is ahead", names)
    for case in figures.cases:
        for system, (way, my_case) in product(dict.fromkeys(mine.system for mine in ours), _ours(case)):
            ratios = [figures.ratio(my_case, Setup(system, replicas, sync), peer, case) for sync, peer in pairs]
            table.rows.append([case, way, CLIENTS[system], *(str(ratio) if ratio else NONE for ratio in ratios)])
    return table


def absolute_table(figures: Figures, replicas: int) -> Table:
    return _by_log(figures, replicas, "records per second, and milliseconds", figures.cases, _number)


def cpu_table(figures: Figures, replicas: int) -> Table:
    """What a record costs, which a busy machine distorts least."""
    cases = [case for case in figures.cases if not case.startswith(LATENCY)]
    return _by_log(figures, replicas, "µs of CPU per record, client + servers", cases, _cost)


def _cost(figure: Figure | None) -> str:
    if figure is None:
        return NONE
    client, server = (cpu / figure.value * 1e6 for cpu in (figure.client_cpu, figure.server_cpu))
    return f"{client:,.2f} + {server:,.2f}"


def _by_log(
    figures: Figures, replicas: int, what: str, cases: Sequence[str], cell: Callable[[Figure | None], str]
) -> Table:
    """One column for each log with so many replicas."""
    setups = dict.fromkeys(figure.setup for figure in figures.all if figure.setup.replicas == replicas)
    names = [" case", *(f"{setup.system}, {setup.sync}" for setup in setups)]
    table = Table(f"{_replicas(replicas)}, {what}", names)
    for case in cases:
        table.rows.append([case, *(cell(figures.of(case, setup)) for setup in setups)])
    return table


def _replicas(count: int) -> str:
    return f"{count} replica{'s' if count > 1 else ''}"


def goals_table(verdicts: Sequence[Verdict]) -> Table:
    table = Table("Goals, with three replicas", [" goal", " sync", " client", "seen", " result"])
    for each in verdicts:
        seen = [each.ratio.sync, each.ratio.client, str(each.ratio)]
        table.rows.append([each.goal.text, *seen, "met" if each.met else "missed"])
    return table


def runs_table(figures: Figures) -> Table:
    names = [" case", " log", "median", "rounds", "client's CPU", "servers' CPU"]
    table = Table("Every round, and who was busy", names)
    for figure in figures.all:
        digits = 3 if figure.case.startswith(LATENCY) else 0
        rounds = " ".join(f"{value:,.{digits}f}" for value in figure.rounds)
        busy = [f"{figure.client_cpu:.0%}", f"{figure.server_cpu:.0%}"]
        table.rows.append([figure.case, str(figure.setup), _number(figure), rounds, *busy])
    return table


def tables(figures: Figures, verdicts: Sequence[Verdict]) -> list[Table]:
    return [*(case_table(figures, case) for case in figures.cases), goals_table(verdicts)]


def page_tables(figures: Figures, verdicts: Sequence[Verdict]) -> list[Table]:
    """Fewer and wider ones, for a page."""
    found = [goals_table(verdicts)]
    for replicas in _counts(figures):
        found += [summary_table(figures, replicas), absolute_table(figures, replicas), cpu_table(figures, replicas)]
    return found


def busy_tables(figures: Figures) -> list[Table]:
    return [runs_table(figures), *(cpu_table(figures, replicas) for replicas in _counts(figures))]


def _counts(figures: Figures) -> list[int]:
    return sorted({mine.replicas for mine in figures.ours}, reverse=True)
