"""`octoloom spark`: the list of pipelines, the options they share, and the session they get."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner, Result

from octoloom.cli import octoloom
from octoloom.cli.broker_options import BOOTSTRAP
from octoloom.cli.spark import PIPELINES
from octoloom.cli.spark_options import Common, spark_options
from octoloom.core.errors import OctoloomError, UsageError
from octoloom.runtime import cluster_file, processes
from octoloom.runtime.cluster_file import ClusterNote
from tests.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.clients.cluster import Cluster


def run(*arguments: str) -> Result:
    return CliRunner().invoke(octoloom, list(arguments))


def test_the_list_is_told_without_loading_spark_or_a_pipeline() -> None:
    code = """
import sys
from click.testing import CliRunner
from octoloom.cli import octoloom
print(CliRunner().invoke(octoloom, ["spark", "run", "--help"]).output)
loaded = [name for name in sys.modules if name.split(".")[0] in ("pyspark", "pyarrow", "numpy", "pandas")]
loaded += [name for name in sys.modules if name.startswith("octoloom.cli.spark_")]
sys.exit(str(loaded) if loaded else 0)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for name, purpose in PIPELINES.items():
        assert f"  {name} " in ran.stdout
        assert purpose in ran.stdout


@pytest.mark.parametrize("name", PIPELINES)
def test_each_pipeline_has_help_with_examples_and_the_shared_options(name: str) -> None:
    result = run("spark", "run", name, "--help")
    assert result.exit_code == 0, result.output
    assert f"octoloom spark run {name}" in result.output
    assert "Examples:" in result.output
    assert {"--bootstrap", "--master", "--quiet"} <= set(result.output.split())


@pytest.mark.parametrize("name", PIPELINES)
def test_no_pipeline_loads_spark_before_it_runs(name: str) -> None:
    code = f"import sys, octoloom.cli.spark_{name}; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_pipeline_is_one_clear_line() -> None:
    result = run("spark", "run", "dance")
    assert result.exit_code == 2
    assert "No such command 'dance'" in result.output


# Where the brokers are.


@click.command()
@spark_options
def tell(common: Common) -> None:
    click.echo(common.bootstrap)


def told(*arguments: str, **environment: str) -> str:
    result = CliRunner(env=environment).invoke(tell, list(arguments), catch_exceptions=False)
    return result.output.strip()


def running_in(data: Path, register: str) -> None:
    """Leaves the note of a cluster that is this very process."""
    data.mkdir(parents=True, exist_ok=True)
    created = processes.created_at(os.getpid())
    cluster_file.write(data, ClusterNote(os.getpid(), created, register, "game:app", 1, 1, 0, []))


def test_brokers_are_those_that_were_named_or_those_of_the_cluster_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OCTOLOOM_BOOTSTRAP", raising=False)
    assert told() == BOOTSTRAP
    running_in(tmp_path / "octoloom-data", "127.0.0.1:1111")
    running_in(tmp_path / "other", "127.0.0.1:2222")
    assert told() == "127.0.0.1:1111"
    assert told("--data", "other") == "127.0.0.1:2222"
    assert told("--data", "other", "--register", "far:7070") == "far:7070"
    assert told("--register", "far:7070", "-b", "near:9092") == "near:9092"
    assert told(OCTOLOOM_BOOTSTRAP="named:9092") == "named:9092"


def test_a_directory_without_a_cluster_is_named_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="start one with `octoloom up --data"):
        told("--data", str(tmp_path))


# The session.


@click.command()
@spark_options
@click.option("--fail", is_flag=True)
@click.option("--ask", type=click.Choice(["before", "within"]))
def work(common: Common, fail: bool, ask: str | None) -> None:
    if ask == "before":
        assert common.bootstrap
    with common.spark() as spark:
        if ask == "within":
            assert common.bootstrap
        frame = spark.range(3)
        if fail:
            frame = frame.mapInArrow(refuse, "id long")
        click.echo(f"{frame.count()} rows")


def refuse(batches: Iterator[Any]) -> Iterator[Any]:
    raise UsageError("there is nothing to count")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--master", "locally"], "is no Spark master"),
        (["--master", "spark://127.0.0.1:1"], "no Spark master answers"),
        (["--memory", "much"], "is no amount of memory: write 512m or 2g"),
        (["--ask", "before", "-b", "127.0.0.1:1"], "no broker answers at 127.0.0.1:1: start one with"),
    ],
    ids=["form", "nobody", "memory", "brokers"],
)
def test_wrong_options_are_told_before_spark_starts(arguments: list[str], says: str) -> None:
    code = f"from tests.cli.test_spark import work; work({arguments!r})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert says in ran.stderr.splitlines()[-1]


@pytest.mark.spark
def test_a_pipeline_uses_the_session_that_runs_and_tells_errors_short(spark: SparkSession) -> None:
    result = CliRunner().invoke(work, [], catch_exceptions=False)
    assert result.output == "3 rows\n"
    with pytest.raises(OctoloomError, match="there is nothing to count"):
        CliRunner().invoke(work, ["--fail"], catch_exceptions=False)
    with pytest.raises(OctoloomError, match="no broker answers"):
        CliRunner().invoke(work, ["--ask", "within", "-b", "127.0.0.1:1"], catch_exceptions=False)
    assert spark.range(2).count() == 2, "it is not its own, so it did not stop it"


@pytest.mark.spark
def test_brokers_that_answer_are_used(spark: SparkSession, brokers: Cluster) -> None:
    for address in (brokers.brokers, brokers.register):
        for ask in ("before", "within"):
            assert CliRunner().invoke(work, ["--ask", ask, "-b", address], catch_exceptions=False).output == "3 rows\n"


NAP = """
import time
from octoloom.cli.spark_options import spark_options
import click

@click.command()
@spark_options
def nap(common):
    with common.spark() as spark:
        def never(batches):
            open("begun", "w").close()
            time.sleep(600)
            yield from batches
        spark.range(1).mapInArrow(never, "id long").collect()
nap()
"""


@pytest.mark.slow
@pytest.mark.spark
def test_ctrl_c_ends_it_at_once_and_in_silence(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NAP, "--master", "local[1]", "--memory", "512m"]
    napping = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: (tmp_path / "begun").exists() or napping.poll() is not None, "the nap to begin", pause_s=0.1)
    napping.send_signal(2)
    said = napping.communicate(timeout=PATIENCE_S)
    assert (napping.returncode, said) == (130, ("", ""))
