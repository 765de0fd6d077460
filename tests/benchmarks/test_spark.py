"""All ways to read give the same rows, all ways to fold the same states, and CPU is counted wherever it was used."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

pytest.importorskip("pyspark")

import spark as benchmark
import spark_work
from spark_figures import CORES, FOLD, READ, SPACES, Figure, Figures, tables
from spark_meter import Measured, Meter
from spark_work import Topic, WrongResult
from tests.clients.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS, SPACES_COUNT = 600, 7
BURN = "import time\nwhile time.process_time() < 0.8: pass"


# Figures.


def figure(kind: str, case: str, cpu_s: float, cores: int = 2, elapsed_s: float = 4.0) -> Figure:
    rounds = [Measured(each, 0.5, elapsed_s) for each in (cpu_s, cpu_s * 9, cpu_s / 9)]
    return Figure(kind, case, 1_000_000, rounds, cores)


def test_the_median_of_the_rounds_is_held_against_the_aims() -> None:
    read = [figure(READ, way, cpu_s) for way, cpu_s in (("Parquet", 2), ("log", 4), ("archive", 2.5), ("table", 2))]
    folded = [figure(FOLD, way, cpu_s) for way, cpu_s in (("loop", 10), ("batch", 15), ("stream", 36))]
    figures = Figures(read + folded)
    assert [(each.seen, each.result) for each in figures.verdicts()] == [
        (0.5, "met"), (0.8, "missed"), (1.0, "met"), (1.5, "met"), (3.6, "missed"),
    ]  # fmt: skip
    assert {each.result for each in Figures([]).verdicts()} == {"not measured"}


def test_a_record_costs_what_the_run_cost_and_cores_are_compared_by_time() -> None:
    one, two = figure(CORES, "fold, batch", 6, 1, 9.0), figure(CORES, "fold, batch", 8, 2, 5.0)
    assert (one.cpu_us, one.server_cpu_us, two.per_s) == (6.0, 0.5, 200_000)
    assert Figures([one, two]).speed_up("fold, batch") == 1.8
    assert Figures([two]).speed_up("fold, batch") is None


def test_every_table_can_be_shown() -> None:
    figures = Figures([figure(READ, "log", 3), figure(FOLD, "loop", 3), figure(CORES, "x", 3), figure(SPACES, "10", 3)])
    shown = "".join(table.markdown() for table in tables(figures, every=True))
    assert "Reading 1,000,000 records" in shown
    assert "| log | – | 3.00 | 0.50 | 250,000 |" in shown
    assert "| 10 | 1,000,000 | 3.0 | 3.00 |" in shown


# Counting.


def test_cpu_of_children_is_counted_even_if_they_are_gone_and_that_of_servers_apart() -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", "input()\n" + BURN + "\ninput()"], stdin=subprocess.PIPE, text=True
    )
    try:
        meter = Meter()
        assert server.stdin is not None
        # As Spark's workers do, the grandchild ends while it is measured, and nobody waits for it.
        parent = (
            "import signal, subprocess, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
            f"subprocess.Popen([sys.executable, '-c', {BURN + chr(10) + 'time.sleep(2)'!r}]).wait(); print(); input()"
        )
        with meter.running() as found:
            server.stdin.write("\n")
            server.stdin.flush()
            child = subprocess.Popen(
                [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            assert child.stdout is not None
            child.stdout.readline()
        child.communicate("\n")
        assert 0.7 < found.cpu_s < 5
        assert 0 <= found.server_cpu_s < 5
        with meter.running() as nothing:
            pass
        assert nothing.cpu_s < 0.7
    finally:
        server.kill()
        server.communicate()


def test_ways_that_differ_are_no_comparison() -> None:
    spark_work.same({"a": {"rows": 1, "hash": 5}, "b": {"rows": 1}, "c": {"rows": 1, "more": 9}})
    with pytest.raises(WrongResult, match="rows is 1 by way of a, and 2 by way of b"):
        spark_work.same({"a": {"rows": 1}, "b": {"rows": 2}})


def test_a_case_that_fails_is_named_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    @contextmanager
    def started(cores: int) -> Iterator[None]:
        if cores == 1:
            raise RuntimeError("as told\nand more")
        yield

    said: list[str] = []
    monkeypatch.setattr(benchmark, "started", started)
    monkeypatch.setattr(benchmark, "Topic", lambda *_: SimpleNamespace(write=lambda _: None, records=9, parquet="/"))
    monkeypatch.setattr(spark_work, "read", lambda topic, spark, way: {"rows": 9})
    runs = benchmark.Runs(benchmark.Plan(records=100, rounds=2), SimpleNamespace(), tmp_path, said.append)  # type: ignore[arg-type]
    runs.run(["cores", "read"])
    assert runs.failures == ["cores: RuntimeError: as told"]
    assert [(each.kind, each.case, len(each.rounds)) for each in runs.figures().all] == [
        (READ, way, 2) for way in benchmark.WAYS
    ]
    assert msgspec.json.decode(benchmark.as_json({}, runs.figures(), runs.failures))["failures"] == runs.failures


def test_the_command_tells_its_options() -> None:
    script = Path(str(benchmark.__file__))
    found = subprocess.run([sys.executable, str(script), "--help"], capture_output=True, text=True, check=True)
    assert "octoloom bench spark --quick" in found.stdout


# The work itself.


@pytest.mark.slow
@pytest.mark.spark
def test_all_ways_give_the_same(
    spark: SparkSession, brokers: Cluster, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_work, "PARTITIONS", 1)
    cluster: Any = SimpleNamespace(bootstrap=bootstrap, make=lambda *_: 0.0)
    topic = Topic(cluster, tmp_path, brokers.topic(), RECORDS, SPACES_COUNT)
    topic.files = str(brokers.log.data / "b1")
    topic.write(spark)
    topic.copy(spark)
    read = {way: spark_work.read(topic, spark, way) for way in benchmark.WAYS}
    spark_work.same(read)
    assert read["log"]["rows"] == RECORDS
    folded = {
        "loop": spark_work.fold_loop(topic),
        "bare": spark_work.fold_bare(topic),
        "batch": spark_work.fold_batch(topic, spark),
        "stream": spark_work.fold_stream(topic, spark, tmp_path, 1),
    }
    spark_work.same(folded)
    assert folded["batch"] == {**folded["batch"], "spaces": SPACES_COUNT, "events": RECORDS, "errors": 0}
    assert folded["stream"] == {"events": RECORDS, "batches": 1}
    assert {len(value) for _, values in spark_work.columns(topic) for value in values} == {100}
