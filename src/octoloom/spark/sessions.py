"""The one place that configures Spark.

A session is local unless a master is named. Everything that depends on where Python, Java and this package are is
decided here, so that `python -m octoloom`, a notebook and `spark-submit` meet the same Spark:

1. Workers run the Python of the driver, not whatever `python3` is on the PATH; PYSPARK_PYTHON names another.
2. Workers import this package. On this machine its directory is on their path; to a cluster a zip of its sources is
   shipped, which stands before whatever is installed there. What it needs (pyarrow, msgspec, …) has to be installed.
3. What Java says goes to a log, which an error names. Under `spark-submit` Java runs already, and its log is its own.
4. On this machine everything listens on loopback only.

A process has one Java, started with its first session: the size of its heap stays when a session is stopped and
another begun.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from octoloom.core.errors import OctoloomError, UsageError
from octoloom.spark import failures, java, masters, shipping
from octoloom.spark.failures import SparkFailed
from octoloom.spark.java_log import JavaLog
from octoloom.spark.masters import LOCAL, is_here, is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEAP_MIN_MB = 1024
HEAP_MAX_MB = 8192
HEAP_SHARE = 4
"""A quarter of the memory: the Python workers and the files' cache want theirs too."""
MEMORY_FORM = re.compile(r"[1-9]\d*[kmgt]b?", re.IGNORECASE)
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives for a second, such as Spark's launcher: it is over before a better compiler pays."""
QUERY_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""They print an error that is raised as well."""
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

AT_START = ("spark.app.name", "spark.driver.", "spark.jars", "spark.kubernetes.", "spark.master", "spark.yarn.")
"""What Java has to know when it starts. It remembers them for as long as it lives, so the rest is told per session."""

DEFAULTS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(
    name: str = "octoloom",
    *,
    master: str | None = None,
    cores: int | None = None,
    memory: str | None = None,
    config: Mapping[str, str] | None = None,
    quiet: bool = True,
) -> SparkSession:
    """A Spark session that knows the format `octoloom`; the one that runs already, if there is one.

    `master` is local by default, with `cores` threads. `memory` is the heap of each Java ("2g"). `config` has the last
    word about every setting. With `quiet=False` Spark logs to standard error as it likes.
    """
    try:
        import pyspark.sql  # noqa: F401
    except ImportError as error:
        raise UsageError(f"PySpark is not there ({error}): pip install 'octoloom[spark]'") from error
    found = running()
    if found is not None:
        _check_master(found, master)
        return _ready(found)
    settings, wanted = _settings(name, master, cores, memory), dict(config or {})
    _check({**settings, **wanted})
    try:
        return _ready(_submitted(settings, wanted) if _is_submitted() else _started({**settings, **wanted}, quiet))
    except OctoloomError:
        raise
    except Exception as error:
        raise SparkFailed(f"Spark did not start: {failures.short(error)}{_see_log()}") from error


def running() -> SparkSession | None:
    """The session of this process: of this thread or, since a process has only one Spark, of any other."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        found = SparkSession.active()
    except PySparkRuntimeError:
        return None
    return None if found.sparkContext._jsc is None else found


def _check_master(found: SparkSession, master: str | None) -> None:
    current = found.sparkContext.master
    if master is not None and master != current:
        raise UsageError(f"this process has a session on {current} already: stop() it before one on {master} is begun")


# Settings.


def _settings(name: str, master: str | None, cores: int | None, memory: str | None) -> dict[str, str]:
    settings = {"spark.app.name": name, **DEFAULTS}
    if master is None and _is_submitted():
        return settings  # spark-submit has its own options for the rest
    master = master or (LOCAL if cores is None else f"local[{cores}]")
    settings["spark.master"] = master
    if is_local(master):
        count = cores or masters.local_cores(master)
        settings["spark.sql.shuffle.partitions"] = str(max(count, 2))
        settings["spark.driver.memory"] = memory or _heap()
        settings["spark.executor.heartbeatInterval"] = "2s"  # rows are counted with it, and people watch
    else:
        if memory is not None:
            settings["spark.executor.memory"] = memory
        if cores is not None:
            settings["spark.cores.max"] = str(cores)
    if is_here(master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


def _heap() -> str:
    share_mb = psutil.virtual_memory().total // (1024 * 1024 * HEAP_SHARE)
    return f"{min(max(share_mb, HEAP_MIN_MB), HEAP_MAX_MB)}m"


def _check(settings: Mapping[str, str]) -> None:
    if "spark.master" in settings:
        masters.check(settings["spark.master"])
    for key in ("spark.driver.memory", "spark.executor.memory"):
        if not MEMORY_FORM.fullmatch(settings.get(key, "1g")):
            raise UsageError(f"{settings[key]!r} is no amount of memory: write 512m or 2g")


# Starting.


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted(settings: Mapping[str, str], wanted: Mapping[str, str]) -> SparkSession:
    """Java runs. The options of spark-submit stand where the caller has not asked for something else by name."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    SparkContext._ensure_initialized()
    conf = SparkConf()
    for key, value in settings.items():
        conf.setIfMissing(key, value)
    for key, value in wanted.items():
        conf.set(key, value)
    SparkContext(conf=conf)
    return SparkSession.builder.getOrCreate()


def _started(settings: Mapping[str, str], quiet: bool) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with _environment(settings["spark.master"]):
        gateway = _launched(settings, quiet) if SparkContext._gateway is None else None
        SparkContext(conf=_conf(settings), gateway=gateway)
    return SparkSession.builder.getOrCreate()


def _conf(settings: Mapping[str, str]) -> Any:
    from pyspark import SparkConf

    conf = SparkConf()
    for key, value in settings.items():
        conf.set(key, value)
    return conf


def _launched(settings: Mapping[str, str], quiet: bool) -> Any:
    """Java with its own log. The launcher waits for it, and fails when it ends early."""
    from pyspark.java_gateway import launch_gateway
    from pyspark.logger import PySparkLogger

    settings = {key: value for key, value in settings.items() if key.startswith(AT_START)}
    if not quiet:
        return launch_gateway(_conf(settings))  # type: ignore[no-untyped-call]
    for logger in QUERY_LOGGERS:
        PySparkLogger.getLogger(logger).disabled = True
    global _log
    _log = JavaLog.fresh(java.cache() / "spark")
    options = settings.get("spark.driver.extraJavaOptions", "")
    settings["spark.driver.extraJavaOptions"] = f"{options} {_log.options(LOG_SETTINGS)}".strip()
    with _log.raw() as raw:
        try:
            streams = {"stdout": raw, "stderr": raw}
            return launch_gateway(_conf(settings), streams)  # type: ignore[no-untyped-call]
        except Exception as error:
            raise SparkFailed(f"Spark's Java did not start: {_log.last_line()}{_see_log()}") from error


_log: JavaLog | None = None


def _see_log() -> str:
    return f" (its log is {_log.path})" if _log is not None else ""


@contextlib.contextmanager
def _environment(master: str) -> Iterator[None]:
    """What Java and the workers inherit. The caller's own environment is as it was afterwards."""
    root = shipping.root()
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if root.name not in ("site-packages", "dist-packages") and str(root) not in paths:
        paths.insert(0, str(root))
    wanted = {
        "JAVA_HOME": str(java.java().home),
        "SPARK_LAUNCHER_OPTS": os.environ.get("SPARK_LAUNCHER_OPTS", BRIEF),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable),
    }
    if paths:
        wanted["PYTHONPATH"] = os.pathsep.join(paths)
    if is_here(master):
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _ready(spark: SparkSession) -> SparkSession:
    """It knows the format, and executors elsewhere have our sources."""
    context = spark.sparkContext
    if not is_local(str(context.master)) and shipping.sources().name not in (context._python_includes or []):
        context.addPyFile(str(shipping.sources()))
    if importlib.util.find_spec("octoloom.spark.source") is not None:
        from octoloom.spark.source import OctoloomSource

        spark.dataSource.register(OctoloomSource)
    return spark
