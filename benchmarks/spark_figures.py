"""What was measured of Spark, as ratios, and the aims.

CPU seconds are what is compared: they say what a record costs, on however many cores, and a busy machine distorts them
least. The figure of a case is the median of its rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from log_tables import NONE, Table
from spark_meter import Measured

READ, FOLD, CORES, EVENTS, SPACES = "read", "fold", "cores", "events", "spaces"
PARQUET, LOOP = "Parquet", "loop"
LOG_AT_LEAST = 0.4
ARCHIVE_AT_LEAST = 0.9
BATCH_AT_MOST = 2.0
STREAM_AT_MOST = 3.5


class Figure(msgspec.Struct, frozen=True):
    """One case, over all rounds."""

    kind: str
    case: str
    records: int
    rounds: list[Measured]
    cores: int = 0

    @property
    def cpu_s(self) -> float:
        return median(each.cpu_s for each in self.rounds)

    @property
    def elapsed_s(self) -> float:
        return median(each.elapsed_s for each in self.rounds)

    @property
    def cpu_us(self) -> float:
        """CPU of the session for one record, in microseconds."""
        return self.cpu_s / self.records * 1e6

    @property
    def server_cpu_us(self) -> float:
        return median(each.server_cpu_s for each in self.rounds) / self.records * 1e6

    @property
    def per_s(self) -> float:
        return self.records / self.elapsed_s


class Verdict(msgspec.Struct, frozen=True):
    aim: str
    seen: float | None
    met: bool | None
    """None if it was not measured."""

    @property
    def result(self) -> str:
        return "not measured" if self.met is None else "met" if self.met else "missed"


class Figures:
    """All figures of a run, by kind and case."""

    def __init__(self, figures: Sequence[Figure]) -> None:
        self.all = list(figures)

    def of(self, kind: str, case: str, cores: int | None = None) -> Figure | None:
        found = (each for each in self.all if (each.kind, each.case) == (kind, case))
        return next((each for each in found if cores in (None, each.cores)), None)

    def kind(self, kind: str) -> list[Figure]:
        return [each for each in self.all if each.kind == kind]

    def speed(self, way: str) -> float | None:
        """How fast a way of reading is, Spark's own reader being 1."""
        mine, theirs = self.of(READ, way), self.of(READ, PARQUET)
        return theirs.cpu_s / mine.cpu_s if mine and theirs else None

    def cost(self, way: str) -> float | None:
        """What a way of folding costs, a plain loop being 1."""
        mine, theirs = self.of(FOLD, way), self.of(FOLD, LOOP)
        return mine.cpu_s / theirs.cpu_s if mine and theirs else None

    def speed_up(self, case: str) -> float | None:
        one, two = self.of(CORES, case, 1), self.of(CORES, case, 2)
        return one.elapsed_s / two.elapsed_s if one and two else None

    def verdicts(self) -> list[Verdict]:
        at_least = [("log", LOG_AT_LEAST), ("archive", ARCHIVE_AT_LEAST), ("table", ARCHIVE_AT_LEAST)]
        at_most = [("batch", BATCH_AT_MOST), ("stream", STREAM_AT_MOST)]
        found = [
            Verdict(
                f"reading from the {way}: {least} of the speed of Parquet",
                seen,
                None if seen is None else seen >= least,
            )
            for way, least in at_least
            for seen in [self.speed(way)]
        ]
        return found + [
            Verdict(
                f"fold, {way}: {most} times the CPU of a plain loop at most",
                seen,
                None if seen is None else seen <= most,
            )
            for way, most in at_most
            for seen in [self.cost(way)]
        ]


def shown(ratio: float | None) -> str:
    return NONE if ratio is None else f"{ratio:,.2f}"


def read_table(figures: Figures) -> Table:
    columns = [" from", "speed to Parquet", "CPU µs per record", "brokers' CPU µs", "records/s"]
    found = figures.kind(READ)
    table = Table(f"Reading {found[0].records:,} records, all columns used" if found else "Reading", columns)
    for each in found:
        costs = [f"{each.cpu_us:.2f}", f"{each.server_cpu_us:.2f}", f"{each.per_s:,.0f}"]
        table.rows.append([each.case, shown(figures.speed(each.case)), *costs])
    return table


def fold_table(figures: Figures) -> Table:
    columns = [" fold", "CPU to a plain loop", "CPU µs per event", "events/s"]
    found = figures.kind(FOLD)
    table = Table(f"Folding {found[0].records:,} events" if found else "Folding", columns)
    for each in found:
        table.rows.append([each.case, shown(figures.cost(each.case)), f"{each.cpu_us:.2f}", f"{each.per_s:,.0f}"])
    return table


def cores_table(figures: Figures) -> Table:
    table = Table("From one core to two", [" what", "1 core, s", "2 cores, s", "speed-up"])
    for case in dict.fromkeys(each.case for each in figures.kind(CORES)):
        times = [found.elapsed_s if (found := figures.of(CORES, case, cores)) else None for cores in (1, 2)]
        table.rows.append([case, *(shown(each) for each in times), shown(figures.speed_up(case))])
    return table


def growth_table(figures: Figures, kind: str) -> Table:
    table = Table(f"Fold, by the number of {kind}", [kind, "events", "CPU s", "CPU µs per event"])
    for each in figures.kind(kind):
        table.rows.append([each.case, f"{each.records:,}", f"{each.cpu_s:,.1f}", f"{each.cpu_us:.2f}"])
    return table


def aims_table(figures: Figures) -> Table:
    table = Table("Aims, in CPU seconds", [" aim", "seen", " result"])
    for each in figures.verdicts():
        table.rows.append([each.aim, shown(each.seen), each.result])
    return table


def rounds_table(figures: Figures) -> Table:
    table = Table("Every round", [" kind", " case", "cores", "CPU s", "brokers' CPU s", "s"])
    for each in figures.all:
        for one in each.rounds:
            times = (one.cpu_s, one.server_cpu_s, one.elapsed_s)
            table.rows.append([each.kind, each.case, str(each.cores), *(f"{seconds:.2f}" for seconds in times)])
    return table


def tables(figures: Figures, every: bool) -> list[Table]:
    found = [aims_table(figures), read_table(figures), fold_table(figures), cores_table(figures)]
    found += [growth_table(figures, EVENTS), growth_table(figures, SPACES)]
    return [*found, rounds_table(figures)] if every else found
