"""A broker and a register as real processes, somebody who means well and uses them, and what must not happen."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psutil

from octoloom.wire.kafka.apis import Api
from tests.chaos.bystander import Bystander, bystander
from tests.chaos.raw_log import raw
from tests.runtime.real_log import RealLog, RealProcess, real_log

DOORS = ("broker", "register")
GROWTH_BYTES_MAX = 128 * 1024 * 1024
"""By how much a process may be larger after anything that is done here."""
BREAKAGE = ("Traceback", "CRITICAL", " broke: ")
TOPIC = "target"


class Scene:
    def __init__(self, log: RealLog, friend: Bystander) -> None:
        self.log, self.friend = log, friend
        self._sizes = [self.size(door) for door in DOORS]

    def address(self, door: str) -> str:
        return self._at(door).address

    def process(self, door: str) -> psutil.Process:
        return psutil.Process(self._at(door).process.pid)

    def size(self, door: str) -> int:
        return int(self.process(door).memory_info().rss)

    def _at(self, door: str) -> RealProcess:
        return self.log.brokers[1] if door == "broker" else self.log.register

    def is_unharmed(self) -> None:
        self.friend.moves()
        for door, before in zip(DOORS, self._sizes, strict=True):
            text = self._at(door).log.read_text()
            assert not [word for word in BREAKAGE if word in text], text[-3000:]
            assert self.size(door) - before < GROWTH_BYTES_MAX, door


@contextlib.contextmanager
def played(folder: Path) -> Iterator[Scene]:
    with many_files(), real_log(folder) as log, bystander(log.bootstrap) as friend:
        with raw(log.bootstrap) as client:
            topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
            client.ask_cold(Api.CREATE_TOPICS, 4, topics=[topic], timeout=timedelta(seconds=10))
        friend.moves()
        yield Scene(log, friend)


@contextlib.contextmanager
def many_files() -> Iterator[int]:
    """For this process and those that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
