"""A session as people get it: its settings, its workers, its errors, and what it says when it cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

import octoloom.spark
from octoloom.core.errors import OctoloomError, UsageError
from octoloom.spark import sessions
from octoloom.spark.failures import SparkFailed, told
from octoloom.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_package_has_the_function_whoever_was_loaded_first() -> None:
    assert octoloom.spark.session is session
    assert sorted(octoloom.spark.__all__) == dir(octoloom.spark)
    assert not hasattr(octoloom.spark, "gadget")


# Settings, without a Spark.


def test_this_machine_is_the_default() -> None:
    settings = sessions._settings("x", None, None, None)
    assert settings["spark.master"] == "local[*]"
    assert settings["spark.driver.host"] == "127.0.0.1"
    assert settings["spark.sql.shuffle.partitions"] == str(max(os.cpu_count() or 1, 2))
    heap_mb = int(settings["spark.driver.memory"].removesuffix("m"))
    assert sessions.HEAP_MIN_MB <= heap_mb <= sessions.HEAP_MAX_MB


def test_cores_and_memory_mean_the_driver_here_and_the_executors_elsewhere() -> None:
    here = sessions._settings("x", None, 3, "2g")
    assert (here["spark.master"], here["spark.driver.memory"]) == ("local[3]", "2g")
    there = sessions._settings("x", "spark://far:7077", 3, "2g")
    assert (there["spark.cores.max"], there["spark.executor.memory"]) == ("3", "2g")
    assert "spark.driver.memory" not in there
    assert "spark.driver.host" not in there


def test_under_spark_submit_its_options_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    settings = sessions._settings("x", None, None, None)
    assert "spark.master" not in settings
    assert "spark.driver.memory" not in settings
    assert settings["spark.sql.session.timeZone"] == "UTC"


def test_the_environment_is_as_it_was_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    before = dict(os.environ)
    with sessions._environment("local[1]"):
        assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
        assert os.environ["PYSPARK_PYTHON"] == sys.executable
        assert os.environ["PYTHONPATH"].split(os.pathsep)[-1] == "/somewhere"
        assert Path(os.environ["JAVA_HOME"], "bin", "java").exists()
    assert dict(os.environ) == before


@pytest.mark.spark
def test_a_java_that_does_not_start_is_told_with_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sessions, "_log", None)
    with pytest.raises(SparkFailed) as raised:
        sessions._launched({"spark.driver.extraJavaOptions": "-agentlib:no-such-library"}, quiet=True)
    assert "Spark's Java did not start: Could not find agent library no-such-library" in str(raised.value)
    log = next((tmp_path / "octoloom" / "spark").iterdir())
    assert str(log) in str(raised.value)
    assert "no-such-library" in (log / "java.err").read_text()


# A session that runs.


def report_of(batches: Iterator[Any]) -> Iterator[Any]:
    """Who works: which Python, with which package."""
    import pyarrow

    for _ in batches:
        here = [sys.executable, octoloom.__file__]
        yield pyarrow.RecordBatch.from_pylist([{"said": each} for each in here])


@pytest.mark.spark
def test_workers_are_this_python_with_this_package(spark: SparkSession) -> None:
    rows = spark.range(1).mapInArrow(report_of, "said string").collect()
    assert [row.said for row in rows] == [sys.executable, octoloom.__file__]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    context = spark.sparkContext
    assert context.uiWebUrl is None
    assert context.getConf().get("spark.driver.host") == "127.0.0.1"


@pytest.mark.spark
def test_a_process_has_one_session(spark: SparkSession) -> None:
    found: list[object] = []
    asking = threading.Thread(target=lambda: found.append(session().sparkContext))
    asking.start()
    asking.join()
    assert found == [spark.sparkContext]
    assert session(master="local[2]").sparkContext is spark.sparkContext
    with pytest.raises(UsageError, match=r"a session on local\[2\] already: stop\(\) it before one on local\[7\]"):
        session(master="local[7]")


def broken(batches: Iterator[Any]) -> Iterator[Any]:
    raise ValueError("of the reducer: at cell b4")


def misused(batches: Iterator[Any]) -> Iterator[Any]:
    raise UsageError("there is no topic moves: make it with `octoloom topic create moves`")


@pytest.mark.spark
def test_what_spark_raises_is_told_in_a_line(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    def fails(kind: type[OctoloomError], says: str, work: Any) -> None:
        with pytest.raises(OctoloomError) as raised, told():
            work()
        assert (type(raised.value), str(raised.value)) == (kind, says)

    fails(SparkFailed, "ValueError: of the reducer: at cell b4", spark.range(1).mapInArrow(broken, "id long").collect)
    topic = "there is no topic moves: make it with `octoloom topic create moves`"
    fails(UsageError, topic, spark.range(1).mapInArrow(misused, "id long").collect)
    missing = Path(tempfile.gettempdir(), "no such table").as_posix()
    fails(SparkFailed, f"Path does not exist: file:{missing}.", lambda: spark.read.parquet(missing))
    fails(
        SparkFailed,
        "A column, variable, or function parameter with name `x` cannot be resolved. "
        "Did you mean one of the following? [`id`].",
        lambda: spark.range(1).select("x"),
    )
    assert capfd.readouterr() == ("", ""), "nothing of it is on the terminal"


SUBMITTED = """
from octoloom.spark import session

spark = session(config={"spark.octoloom.mark": "from the code"})
keys = ("spark.octoloom.mark", "spark.sql.shuffle.partitions", "spark.sql.session.timeZone")
count = spark.range(5).mapInArrow(lambda same: same, "id long").count()
print(spark.sparkContext.master, *(spark.conf.get(key) for key in keys), count, sep="|")
"""


@pytest.mark.slow
@pytest.mark.spark
def test_under_spark_submit_there_is_a_session_too(tmp_path: Path) -> None:
    (tmp_path / "submitted.py").write_text(SUBMITTED)
    settings = {
        "spark.octoloom.mark": "from the command line",
        "spark.sql.shuffle.partitions": "3",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    with sessions._environment("local[1]"):
        ran = subprocess.run(
            [str(program), "--master", "local[1]", "--driver-memory", "512m", *options, "submitted.py"],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == "local[1]|from the code|3|UTC|5\n"
