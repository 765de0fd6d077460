"""What the name of a master says, and what is wrong with it."""

from __future__ import annotations

import os
import socket

import pytest

from octoloom.core.errors import UsageError
from octoloom.spark import masters


@pytest.mark.parametrize(
    ("master", "is_local", "is_here", "cores"),
    [
        ("local", True, True, 1),
        ("local[3]", True, True, 3),
        ("local[3,2]", True, True, 3),
        ("local[*]", True, True, os.cpu_count()),
        ("spark://127.0.0.1:7077", False, True, 1),
        ("spark://localhost:7077,127.0.0.1:7078", False, True, 1),
        ("spark://far:7077,127.0.0.1:7078", False, False, 1),
        ("yarn", False, False, 1),
    ],
)
def test_where_it_is(master: str, is_local: bool, is_here: bool, cores: int) -> None:
    assert (masters.is_local(master), masters.is_here(master), masters.local_cores(master)) == (
        is_local,
        is_here,
        cores,
    )


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "yarn", "k8s://https://host:443"])
def test_what_can_be_used_passes(master: str) -> None:
    masters.check(master)


@pytest.mark.parametrize(
    ("master", "says"),
    [
        ("locally", "is no Spark master: write local[2], or spark://host:7077"),
        ("local[two]", "is no Spark master"),
        ("local[0]", "has no thread to work with"),
        ("", "is no Spark master"),
        ("127.0.0.1:7077", "is no Spark master"),
        ("spark://", "names no host and port"),
        ("spark://host", "names no host and port"),
        ("spark://host:x", "names no host and port"),
        ("spark://host:70770", "names no host and port"),
        ("spark://127.0.0.1:1", "no Spark master answers at spark://127.0.0.1:1: start one with"),
    ],
)
def test_what_cannot_is_said_at_once(master: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        masters.check(master)
    assert says in str(raised.value)


def test_one_master_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        masters.check(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")
