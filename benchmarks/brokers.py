"""A register and brokers for benchmarks that make topics of all sizes, and stop and start brokers.

They run as `octoloom register` and `octoloom broker --sync os` run them, each a process of its own.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from log_case import LogError
from servers import HOST, Servers

WHOLE_S_MAX = 120.0
QUIET: dict[str, Any] = {"log_level": 0, "error_cb": lambda _: None}


class Cluster:
    """A register and brokers, which can be stopped and started one by one."""

    def __init__(self, folder: Path, brokers: int) -> None:
        self._folder = folder
        self._servers = Servers(folder)
        self._count = itertools.count(1)
        data = ["--host", HOST, "--port", "0", "--data", str(folder / "register")]
        self._servers.start("register", [sys.executable, "-m", "octoloom", "register", *data])
        self._register = self._servers.facts(0)["address"]
        self.brokers = [self.start(f"b{number}") for number in range(1, brokers + 1)]
        self.admin = AdminClient({"bootstrap.servers": self._register, **QUIET})

    @property
    def bootstrap(self) -> str:
        return self._register

    def start(self, name: str, data: str = "") -> psutil.Process:
        """Starts a broker and waits until it is ready; a name that was there comes back."""
        where = ["--register", self._register, "--host", HOST, "--port", "0", "--name", name]
        where += ["--data", str(self._folder / (data or name)), "--sync", "os"]
        number = next(self._count)
        self._servers.start(f"{name}-{number}", [sys.executable, "-m", "octoloom", "broker", *where])
        self._servers.facts(number)
        return psutil.Process(self._servers.pids[number])

    def make(self, topic: str, partitions: int, replicas: int) -> float:
        """Makes a topic; answers the seconds until all of it is led and in sync."""
        until("all brokers", lambda: len(self.admin.list_topics(timeout=10).brokers) == len(self.brokers))
        start = time.perf_counter()
        self.admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(WHOLE_S_MAX)
        until("the topic", lambda: self.is_whole(topic, partitions, replicas))
        return time.perf_counter() - start

    def is_whole(self, topic: str, partitions: int, replicas: int) -> bool:
        found = self.admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
        return len(found) == partitions and all(each.leader >= 0 and len(each.isrs) == replicas for each in found)

    def stop(self) -> None:
        self._servers.stop()


@contextmanager
def cluster(folder: str | None, brokers: int) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(dir=folder) as made:
        running = Cluster(Path(made) / "cluster", brokers)
        try:
            yield running
        finally:
            running.stop()


def until(text: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WHOLE_S_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise LogError(f"waited {WHOLE_S_MAX:.0f} s for {text}")
        time.sleep(0.02)
