"""One chromium and one web server for all tests of a process. Other packages may import these fixtures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.chromium import EXECUTABLE, MISSING, Chromium
from tests.browser.site import Server, Site


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    if EXECUTABLE is None:
        pytest.skip(MISSING)
    browser = Chromium()
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    server = Server()
    yield server.site
    server.close()
