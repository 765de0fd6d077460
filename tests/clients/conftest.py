"""One cluster for all tests of this package that run in one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.cluster import Cluster
from tests.runtime.real_log import real_log


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with real_log(tmp_path_factory.mktemp("log"), brokers=3) as log:
        yield Cluster(log)
