"""One Spark and one set of brokers for all tests in one process that ask for them. Nothing is loaded before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.clients.cluster import Cluster
    from tests.spark.conftest import MakeTopic


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
