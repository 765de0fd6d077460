"""What all tests share: one Spark and one set of brokers in a process, for those that ask for them (nothing is loaded
before), and how many examples a property is tried on: few in every run, many with `--hypothesis-profile=deep`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.clients.cluster import Cluster
    from tests.spark.conftest import MakeTopic

settings.register_profile("deep", max_examples=1_000, deadline=None)
settings.register_profile("short", max_examples=40, deadline=None)
settings.load_profile("short")


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
