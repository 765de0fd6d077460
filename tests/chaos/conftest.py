"""What the tests of bad input on the log share: one scene for each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.bad_scene import Scene, played
from tests.chaos.raw_log import Raw, raw


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with played(tmp_path_factory.mktemp("log")) as made:
        yield made


@pytest.fixture
def unharmed(scene: Scene) -> Iterator[None]:
    """Somebody else's records go on before and after, nothing breaks, and memory stays within bounds."""
    scene.friend.moves()
    yield
    scene.is_unharmed()


@pytest.fixture
def client(scene: Scene) -> Iterator[Raw]:
    with raw(scene.address("broker")) as made:
        yield made
