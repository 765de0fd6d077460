"""What was measured of groups, as ratios, and the aims.

A ratio is ours to theirs. Where more is better (messages per second) it should be high, where less is better
(milliseconds) low. The figure of a case is the median of its rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from group_case import Failover
from log_tables import NONE, Table

OURS, JGROUPS = "octoloom", "jgroups"
NAMES = {OURS: "ours", JGROUPS: "JGroups"}
RATE_AT_LEAST = 1.0
BLACKOUT_AT_MOST = 1 / 3
BLACKOUT = "blackout after `kill -9` of the coordinator"
PER_SECOND, MS = "messages/s", "ms"


class Figure(msgspec.Struct, frozen=True):
    """One case of one group, over all rounds."""

    case: str
    unit: str
    group: str
    rounds: list[float]

    @property
    def value(self) -> float:
        return median(self.rounds)

    def __str__(self) -> str:
        digits = 0 if self.unit == PER_SECOND or self.case == BLACKOUT else 3
        return f"{self.value:,.{digits}f}"


class Verdict(msgspec.Struct, frozen=True):
    aim: str
    seen: str
    met: bool | None
    """None if it was not measured."""

    @property
    def result(self) -> str:
        return "not measured" if self.met is None else "met" if self.met else "missed"


class Figures:
    """All figures of a run, by case and group."""

    def __init__(self, figures: Sequence[Figure], failovers: Mapping[str, Sequence[Failover]]) -> None:
        self.failovers = {group: list(runs) for group, runs in failovers.items() if runs}
        self.all = list(figures)
        for group, runs in self.failovers.items():
            self.all.append(Figure(BLACKOUT, MS, group, [run.blackout_ms for run in runs]))
        self._found = {(figure.case, figure.group): figure for figure in self.all}

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(figure.case for figure in self.all))

    def of(self, case: str, group: str) -> Figure | None:
        return self._found.get((case, group))

    def ratio(self, case: str) -> float | None:
        mine, theirs = self.of(case, OURS), self.of(case, JGROUPS)
        return mine.value / theirs.value if mine and theirs and theirs.value else None

    def verdicts(self) -> list[Verdict]:
        rates = list(dict.fromkeys(figure.case for figure in self.all if figure.unit == PER_SECOND))
        found = [self._at_least(case) for case in rates]
        return [*found, self._blackout(), self._clean()]

    def _at_least(self, case: str) -> Verdict:
        ratio = self.ratio(case)
        met = None if ratio is None else ratio >= RATE_AT_LEAST
        return Verdict(f"{case}: as many messages/s as JGroups", shown(ratio), met)

    def _blackout(self) -> Verdict:
        ratio = self.ratio(BLACKOUT)
        met = None if ratio is None else ratio <= BLACKOUT_AT_MOST
        return Verdict("blackout: a third of JGroups' at most", shown(ratio), met)

    def _clean(self) -> Verdict:
        """Our survivors never disagree, and lose, double and swap nothing."""
        runs = self.failovers.get(OURS, [])
        clean = sum(run.clean for run in runs)
        seen = f"{clean} of {len(runs)} failovers" if runs else NONE
        return Verdict("ours: one order, nothing lost, twice or swapped", seen, clean == len(runs) if runs else None)


def shown(ratio: float | None) -> str:
    return NONE if ratio is None else f"{ratio:,.2f}"


def figures_table(figures: Figures) -> Table:
    columns = [" case", " unit", *NAMES.values(), "ours / JGroups", " better is"]
    table = Table("4 members, medians", columns)
    for case in figures.cases:
        found = [figures.of(case, group) for group in NAMES]
        unit = next(figure.unit for figure in found if figure)
        cells = [str(figure) if figure else NONE for figure in found]
        better = "higher" if unit == PER_SECOND else "lower"
        table.rows.append([case, unit, *cells, shown(figures.ratio(case)), better])
    return table


def failovers_table(figures: Figures) -> Table:
    columns = [" group", "run", "blackout, ms", " survivors agree", "twice", "out of order", "missing", "stuck senders"]
    table = Table("Every failover; counts are those of the survivor that is worst off", columns)
    for group, runs in figures.failovers.items():
        for number, run in enumerate(runs, 1):
            agree = "yes" if run.agree else f"no, from delivery {run.differ_at:,}"
            counts = [f"{count:,}" for count in (run.duplicates, run.inversions, run.missing, run.stuck)]
            table.rows.append([NAMES[group], str(number), f"{run.blackout_ms:,.0f}", agree, *counts])
    return table


def verdicts_table(figures: Figures) -> Table:
    table = Table("Aims", [" aim", "seen", " result"])
    for each in figures.verdicts():
        table.rows.append([each.aim, each.seen, each.result])
    return table


def rounds_table(figures: Figures) -> Table:
    table = Table("Every round", [" case", " group", "rounds"])
    for figure in figures.all:
        rounds = " ".join(str(Figure(figure.case, figure.unit, figure.group, [value])) for value in figure.rounds)
        table.rows.append([figure.case, NAMES[figure.group], rounds])
    return table


def tables(figures: Figures, every: bool) -> list[Table]:
    found = [figures_table(figures), failovers_table(figures), verdicts_table(figures)]
    return [*found, rounds_table(figures)] if every else found
