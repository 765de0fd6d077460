"""What all tests share: one Spark and one set of brokers in a process, for those that ask for them (nothing is loaded
before), what becomes of the processes that tests start, and how many examples a property is tried on: few in every
run, many with `--hypothesis-profile=deep`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import settings

from tests.shared_processes import shared
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.clients.cluster import Cluster
    from tests.spark.conftest import MakeTopic

settings.register_profile("deep", max_examples=1_000, deadline=None)
settings.register_profile("short", max_examples=40, deadline=None)
settings.register_profile("quick", max_examples=10, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))

SHARED = frozenset({"scene", "spark", "trials"})
"""Fixtures that several tests share, with processes that a test may start again."""


def _children() -> set[int]:
    """The processes that this one has started and not waited for, dead or alive."""
    found: set[int] = set()
    for thread in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(map(int, thread.read_text().split()))
    return found


def _named(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        return f"{pid} ({process.status()}): {' '.join(process.cmdline()) or process.name()}"
    except psutil.Error:
        return f"{pid}, which is gone"


@pytest.fixture(autouse=True)
def _children_are_waited_for(request: pytest.FixtureRequest) -> Iterator[None]:
    """Who starts a process waits for it: another test of this process would find it among its own."""
    before = _children()
    yield
    if _children() - shared <= before or not SHARED.isdisjoint(request.fixturenames):
        return
    try:
        until(lambda: _children() - shared <= before, limit_s=20)
    except AssertionError:
        left = [_named(pid) for pid in _children() - shared - before]
        pytest.fail("this test has left processes behind:\n" + "\n".join(left))


@pytest.fixture(scope="session", autouse=True)
def _processes_without_hypothesis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Processes that tests start run as users' do. With hypothesis kio imports it: half of a broker's start."""
    folder = tmp_path_factory.mktemp("python")
    (folder / "hypothesis.py").write_text("raise ImportError('only for the tests themselves')\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]))
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from octoloom.spark.sessions import session

    # Tests are over before Java's better compiler pays: without it they take half the time.
    config = {"spark.sql.shuffle.partitions": "2", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    made = session("tests", master="local[2]", memory="1g", config=config)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers and a register as real processes, which a test may kill and start again."""
    from tests.clients.cluster import Cluster
    from tests.runtime.real_log import real_log

    with real_log(tmp_path_factory.mktemp("log"), brokers=3) as log:
        yield Cluster(log)


@pytest.fixture(scope="session")
def bootstrap(brokers: Cluster) -> str:
    return brokers.brokers


@pytest.fixture
def topic(brokers: Cluster) -> MakeTopic:
    return brokers.topic
