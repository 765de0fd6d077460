"""The log as a source of Spark beside Spark's own Parquet reader, and `fold` beside a plain Python loop, in one run.

All sides see the same rows, and what they compute from them is compared. Rounds are interleaved, and come after one
that does not count: Java compiles what it runs for a while. `spark_work` says what is done, `spark_meter` how CPU is
counted, README.md how to read it.
"""

from __future__ import annotations

import gc
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

import spark_figures
import spark_work
from brokers import Cluster
from octoloom.spark import session
from printed_tables import show
from spark_figures import CORES, EVENTS, FOLD, READ, SPACES, Figure, Figures
from spark_meter import Measured, Meter
from spark_work import Result, Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = ("read", "fold", "cores", "growth")
WAYS = ("Parquet", "log", "files", "archive", "table")
BATCHES = 20
SHARES = (0.1, 0.3, 1.0)
SPACE_COUNTS = (10, 1_000, 100_000)
GROWTH_SHARE = 10
"""The topics with other numbers of spaces have a tenth of the events."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    records: int = 10_000_000
    spaces: int = 1_000
    rounds: int = 3
    fold_rounds: int = 1
    cores: int = 2


QUICK = Plan(records=200_000, rounds=1)


class Runs:
    """Runs, and what came of them. A case that fails is named, and does not take the others down."""

    def __init__(self, plan: Plan, cluster: Cluster, folder: Path, say: Callable[[str], None]) -> None:
        self.failures: list[str] = []
        self._plan = plan
        self._cluster = cluster
        self._folder = folder
        self._say = say
        self._meter = Meter()
        self._found: dict[tuple[str, str, int, int], list[Measured]] = {}
        """By kind, case, records and cores."""
        self._topics: dict[tuple[int, int], Topic] = {}

    def run(self, cases: Sequence[str]) -> None:
        for case in cases:
            try:
                getattr(self, f"_{case}")()
            except Exception as error:
                self.failures.append(f"{case}: {type(error).__name__}: {str(error).strip().splitlines()[0]}")
                self._say(self.failures[-1])

    def figures(self) -> Figures:
        return Figures([Figure(*named[:3], rounds, named[3]) for named, rounds in self._found.items()])

    # Cases.

    def _read(self) -> None:
        with started(self._plan.cores) as spark:
            topic = self._topic(spark, self._plan.records, self._plan.spaces)
            self._copies(topic, spark)
            for number in range(self._plan.rounds + 1):
                ways = {way: partial(spark_work.read, topic, spark, way) for way in WAYS}
                self._compared(READ, ways, topic.records, self._plan.cores, number > 0)

    def _fold(self) -> None:
        with started(self._plan.cores) as spark:
            topic = self._topic(spark, self._plan.records, self._plan.spaces)
            small = self._small(spark, self._plan.spaces)
            self._say("warming up")
            spark_work.fold_batch(small, spark)
            spark_work.fold_batch(small, spark, colocated=False)
            spark_work.fold_stream(small, spark, self._folder, 3)
            for _ in range(self._plan.fold_rounds):
                ways: dict[str, Callable[[], Result]] = {
                    "loop": partial(spark_work.fold_loop, topic),
                    "bare loop": partial(spark_work.fold_bare, topic),
                    "batch": partial(spark_work.fold_batch, topic, spark),
                    "batch, shuffled": partial(spark_work.fold_batch, topic, spark, colocated=False),
                    "stream": partial(spark_work.fold_stream, topic, spark, self._folder, BATCHES),
                }
                self._compared(FOLD, ways, topic.records, self._plan.cores, True)

    def _cores(self) -> None:
        for cores in (1, 2):
            with started(cores) as spark:
                topic = self._topic(spark, self._plan.records, self._plan.spaces)
                self._copies(topic, spark)
                ways = {f"read, {way}": partial(spark_work.read, topic, spark, way) for way in WAYS}
                self._say("warming up")
                for work in ways.values():
                    work()
                spark_work.fold_batch(self._small(spark, self._plan.spaces), spark)
                ways["fold, batch"] = partial(spark_work.fold_batch, topic, spark)
                for way, work in ways.items():
                    self._measured(CORES, way, topic.records, cores, work)

    def _growth(self) -> None:
        with started(self._plan.cores) as spark:
            topic = self._topic(spark, self._plan.records, self._plan.spaces)
            topics = [self._small(spark, spaces) for spaces in SPACE_COUNTS]
            self._say("warming up")
            spark_work.fold_batch(topics[1], spark)
            for share in SHARES:
                events = sum(int(high * share) for high in topic.highs().values())
                work = partial(spark_work.fold_batch, topic, spark, share)
                found = self._measured(EVENTS, f"{events:,}", events, self._plan.cores, work)
                spark_work.same({"offsets": {"events": events}, "fold": found})
            for one in topics:
                work = partial(spark_work.fold_batch, one, spark)
                self._measured(SPACES, f"{one.spaces:,}", one.records, self._plan.cores, work)

    # What they are made of.

    def _topic(self, spark: SparkSession, records: int, spaces: int) -> Topic:
        if (records, spaces) not in self._topics:
            self._say(f"writing {records:,} events of {spaces:,} spaces")
            topic = Topic(self._cluster, self._folder, f"events-{len(self._topics) + 1}", records, spaces)
            topic.write(spark)
            self._topics[records, spaces] = topic
        return self._topics[records, spaces]

    def _small(self, spark: SparkSession, spaces: int) -> Topic:
        return self._topic(spark, max(self._plan.records // GROWTH_SHARE, 1), spaces)

    def _copies(self, topic: Topic, spark: SparkSession) -> None:
        if not Path(topic.parquet).exists():
            self._say("copying them to Parquet, and to an archive")
            topic.copy(spark)

    def _compared(
        self, kind: str, ways: Mapping[str, Callable[[], Result]], records: int, cores: int, counts: bool
    ) -> None:
        spark_work.same({way: self._measured(kind, way, records, cores, work, counts) for way, work in ways.items()})

    def _measured(
        self, kind: str, case: str, records: int, cores: int, work: Callable[[], Result], counts: bool = True
    ) -> Result:
        gc.collect()
        os.sync()
        with self._meter.running() as found:
            result = work()
        if counts:
            self._found.setdefault((kind, case, records, cores), []).append(found)
        text = "" if counts else ", warming up"
        self._say(f"{kind}, {case}{text}: {found.cpu_s:.2f} s of CPU in {found.elapsed_s:.2f} s")
        return result


@contextmanager
def started(cores: int) -> Iterator[SparkSession]:
    spark = session("benchmark", master=f"local[{cores}]")
    try:
        yield spark
    finally:
        spark.stop()


def machine() -> dict[str, str]:
    """What the figures were made with."""
    return {
        "cores": str(os.cpu_count()),
        "load before": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        **{package: version(package) for package in ("octoloom", "pyspark", "pyarrow", "numpy")},
    }


def as_json(facts: dict[str, str], figures: Figures, failures: list[str]) -> bytes:
    return msgspec.json.encode(
        {
            "machine": facts,
            "figures": [{**msgspec.to_builtins(each), "cpu_us_per_record": each.cpu_us} for each in figures.all],
            "aims": figures.verdicts(),
            "failures": failures,
        }
    )


@click.command()
@click.option("--quick", is_flag=True, help=f"{QUICK.records:,} records and one round, for a first look.")
@click.option("--records", type=click.IntRange(1_000, 1_000_000_000), help=f"{Plan().records:,} if left out.")
@click.option("--spaces", type=click.IntRange(1, 1_000_000), help=f"{Plan().spaces:,} if left out.")
@click.option("--case", "cases", multiple=True, type=click.Choice(CASES), help="All of them if left out.")
@click.option("--rounds", type=click.IntRange(1, 100), help=f"Of reading; {Plan().rounds} if left out.")
@click.option("--fold-rounds", type=click.IntRange(1, 100), help=f"Of folding; {Plan().fold_rounds} if left out.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False, exists=True), help="Where the files go.")
@click.option("--every", is_flag=True, help="Show every round.")
@click.option("--markdown", is_flag=True, help="Print tables for a page.")
@click.option("--json", "json", is_flag=True, help="Print JSON, for programs.")
def main(
    quick: bool,
    records: int | None,
    spaces: int | None,
    cases: tuple[str, ...],
    rounds: int | None,
    fold_rounds: int | None,
    folder: Path | None,
    every: bool,
    markdown: bool,
    json: bool,
) -> None:
    """Measure Spark on the log: reading beside Parquet, folding beside a plain loop, cores, and growth.

    About half an hour, and four gigabytes of disk, on a machine with nothing else to do.

    \b
    Examples:
      octoloom bench spark --quick
      octoloom bench spark --records 1000000 --case read
      octoloom bench spark --markdown
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    def say(text: str) -> None:
        click.echo(text, err=True)

    wanted = {"records": records, "spaces": spaces, "rounds": rounds, "fold_rounds": fold_rounds}
    asked = {name: value for name, value in wanted.items() if value is not None}
    plan = msgspec.structs.replace(QUICK if quick else Plan(), **asked)
    facts, began = machine(), time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder, prefix="octoloom-bench-") as place:
        cluster = Cluster(Path(place) / "cluster", 1)
        try:
            runs = Runs(plan, cluster, Path(place), say)
            runs.run(cases or CASES)
        finally:
            cluster.stop()
    facts["seconds"] = f"{time.monotonic() - began:.0f}"
    if json:
        click.echo(as_json(facts, runs.figures(), runs.failures))
    else:
        show(facts, spark_figures.tables(runs.figures(), every), runs.failures, markdown)
    raise click.exceptions.Exit(1 if runs.failures else 0)


if __name__ == "__main__":
    main()
