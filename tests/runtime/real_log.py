"""A register and brokers as processes of their own, on free ports, for tests of what talks to them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from octoloom.runtime.processes import PARENT, parse_ready
from tests.runtime.broker_world import Client
from tests.shared_processes import shared

STOP_S = 10.0
READY_S = 240.0
POLL_S = 0.01
LEASE_MS = 20_000
"""Nobody is given up for being slow."""
SHORT_LEASE_MS = 5_000
"""For tests that stop a broker and wait until it is given up; they must bear that another one is."""


class RealProcess:
    def __init__(self, name: str, data: Path, *arguments: str) -> None:
        self.log = data / f"{name}.log"
        self.facts: dict[str, str] = {}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "octoloom", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**os.environ, PARENT: str(os.getpid())},
            )
        shared.add(self.process.pid)

    def await_ready(self) -> None:
        assert self.process.stdout is not None
        while not self.facts:
            line = self.process.stdout.readline()
            if not line:
                pytest.fail(f"it ended before it was ready: {self.log.read_text()[-2000:]}")
            self.facts = parse_ready(line)

    @property
    def address(self) -> str:
        self.await_ready()
        return self.facts["address"]

    def send(self, number: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)

    def end(self, number: int) -> None:
        self.send(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_S)
        self.send(signal.SIGKILL)
        self.process.wait()
        shared.discard(self.process.pid)
        if self.process.stdout is not None:
            self.process.stdout.close()


class RealLog:
    def __init__(self, data: Path, brokers: int, lease_ms: int) -> None:
        self.data = data
        where = ["--port", "0", "--data", str(data / "register"), "--lease-ms", str(lease_ms)]
        self.register = RealProcess("register", data, "register", *where)
        self.brokers: dict[int, RealProcess] = {}
        """By a number of ours; what Kafka clients know them by is the order in which they first came."""
        self._ports: dict[int, str] = {}
        for number in range(1, brokers + 1):
            self.start(number)
        for number, broker in self.brokers.items():
            self._ports[number] = broker.address.rpartition(":")[2]
        asyncio.run(self.whole())

    async def whole(self) -> None:
        """Waits until every broker that was started knows all of them. One that has just started says that it is ready
        before the register has heard of it, and counts for no topic until then."""
        async with asyncio.timeout(READY_S):
            for broker in self.brokers.values():
                async with Client.to(broker.address) as client:
                    while len((await client.metadata()).brokers) < len(self.brokers):
                        await asyncio.sleep(POLL_S)

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def at(self, address: str) -> int:
        """Our number of the broker at an address."""
        return next(number for number, broker in self.brokers.items() if broker.address == address)

    def start(self, number: int) -> None:
        """Starts a broker, where it was if it comes back."""
        name = f"b{number}"
        port = self._ports.get(number, "0")
        where = ["--name", name, "--data", str(self.data / name), "--port", port, "--no-auto-create"]
        self.brokers[number] = RealProcess(name, self.data, "broker", "--register", self.register.address, *where)

    def bring_back(self, number: int) -> None:
        """Starts a broker again, for tests that share the log: the next of them finds all brokers there."""
        self.start(number)
        asyncio.run(self.whole())

    def kill(self, number: int) -> None:
        self.brokers.pop(number).end(signal.SIGKILL)

    def stop(self) -> None:
        for broker in self.brokers.values():
            broker.send(signal.SIGCONT)
            broker.end(signal.SIGINT)
        self.register.end(signal.SIGINT)


@contextlib.contextmanager
def real_log(data: Path, brokers: int = 1, lease_ms: int = LEASE_MS) -> Iterator[RealLog]:
    log = RealLog(data, brokers, lease_ms)
    try:
        yield log
    finally:
        log.stop()
