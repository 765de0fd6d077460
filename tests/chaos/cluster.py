"""A register and its links as real processes, and what can be done to them.

1. Every process has a folder and ports of its own, ends with this one, and is ended by its own number.
2. Every wait is bounded, and says what it waited for and what it saw last.

Ports are taken from below the range that the kernel gives to callers. Inside of it, a device that calls a dead link's
port may be given that very port to call from, and so reach itself and keep the link from coming back.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from octoloom.core.register_messages import View
from octoloom.core.roster import name_of
from octoloom.runtime import register_client, stats
from octoloom.runtime.processes import Child
from octoloom.wire.stats import StatsRequest
from tests.chaos import ledger
from tests.waiting import until_answered as until

PORTS = range(20_000, 32_000)
POLL_S = 0.05

Replicas = dict[str, tuple[int, str]]
"""Space → (version, digest)."""


def free_port() -> int:
    for port in random.SystemRandom().sample(PORTS, 100):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    pytest.fail("no free port was found")


class Cluster:
    def __init__(self, folder: Path, links: int = 3, link_options: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.names = [f"link{number}" for number in range(links)]
        self.ports = {name: (free_port(), free_port()) for name in self.names}
        self.children: dict[str, Child] = {}
        self.register = f"127.0.0.1:{free_port()}"
        self.mended = 0
        self._link_options = link_options

    async def __aenter__(self) -> Cluster:
        try:
            await self.start("register")
            await asyncio.gather(*(self.start(name) for name in self.names))
            await self.until_whole()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        await asyncio.gather(*(child.stop(0) for child in self.children.values()))

    # Processes.

    async def start(self, name: str) -> None:
        self.children[name] = await Child.start(name, self._arguments(name), self.folder / f"{name}.log")

    def _arguments(self, name: str) -> list[str]:
        if name == "register":
            port, replicas = self.register.rpartition(":")[2], str(len(self.names))
            return ["register", "--port", port, "--data", str(self.folder), "--replicas", replicas]
        device_port, peer_port = map(str, self.ports[name])
        return [
            "link", "--name", name, "--register", self.register, "--app", f"{ledger.__file__}:app",
            "--device-port", device_port, "--peer-port", peer_port, *self._link_options,
        ]  # fmt: skip

    async def kill(self, name: str) -> None:
        self.children[name].signal(signal.SIGKILL)
        await self.children[name].wait()

    def freeze(self, name: str) -> None:
        self.children[name].signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self.children[name].signal(signal.SIGCONT)

    async def mend_for_ever(self) -> None:
        """Starts again whoever ended."""
        while True:
            for name in self.names:
                if not self.children[name].running:
                    self.mended += 1
                    await self.start(name)
            await asyncio.sleep(POLL_S)

    def logs(self) -> str:
        return "".join((self.folder / f"{name}.log").read_text() for name in ["register", *self.names])

    # What they say.

    @property
    def urls(self) -> list[str]:
        return [f"ws://127.0.0.1:{device_port}" for device_port, _ in self.ports.values()]

    def peer_address(self, name: str) -> str:
        return f"127.0.0.1:{self.ports[name][1]}"

    async def view(self) -> View:
        directory = await register_client.ask(self.register)
        return next(iter(directory.views.values()))

    async def at(self, role: str) -> str:
        """The name of the link that is head, middle or tail."""
        links = (await self.view()).links
        return name_of(links[{"head": 0, "middle": len(links) // 2, "tail": -1}[role]])

    async def ask(self, name: str, space: str = "", digests: bool = False) -> dict[str, Any]:
        return await stats.ask(self.peer_address(name), StatsRequest(digests=digests, space=space))

    async def until_whole(self) -> None:
        await until(self._is_whole, "a whole chain of all links")

    async def _is_whole(self) -> bool:
        view = await self.view()
        if sorted(map(name_of, view.links)) != self.names or view.whole != view.links:
            return False
        told: list[dict[str, Any]] = [next(iter((await self.ask(name))["chains"].values()), {}) for name in self.names]
        return all(chain.get("whole") and chain["epoch"] == view.epoch for chain in told)

    async def until_without(self, name: str) -> None:
        async def is_out() -> bool:
            return name not in map(name_of, (await self.view()).links)

        await until(is_out, f"a view without {name}")

    async def until_equal(self) -> Replicas:
        """Waits until nothing is under way, and returns what all replicas hold."""
        return dict(await until(self._replicas, "equal replicas"))

    async def _replicas(self) -> Replicas | None:
        told = [(await self.ask(name, digests=True))["spaces"] for name in self.names]
        held = [{space["space"]: (space["version"], space["digest"]) for space in spaces} for spaces in told]
        if any(space["live"] for spaces in told for space in spaces) or held.count(held[0]) != len(held):
            return None
        return held[0]

    async def state(self, spaces: Iterable[str]) -> dict[str, Any]:
        """The ledgers of these spaces as one: devices have different names."""
        whole: dict[str, Any] = {"devices": {}, "notes": {}, "doubles": 0}
        for space in spaces:
            state = (await self.ask(self.names[0], space))["snapshot"]["state"]
            whole["devices"] |= state["devices"]
            whole["notes"] |= state["notes"]
            whole["doubles"] += state["doubles"]
        return whole
