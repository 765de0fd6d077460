"""What a cluster consists of: processes that are kept alive, and, for a cluster of one, servers in this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from octoloom.core.errors import OctoloomError
from octoloom.runtime.broker import BrokerServer
from octoloom.runtime.cluster_file import ProcessNote
from octoloom.runtime.link import LinkServer
from octoloom.runtime.processes import Child, created_at
from octoloom.runtime.register import RegisterServer
from octoloom.runtime.watchdog import Watchdog

BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 5.0
STEADY_S = 10.0
"""Who has lived for so long has not failed at its start: the next backoff begins small again."""
LEAVE_S = 600.0

News = Callable[[str], None]


class Service(Protocol):
    """A register, a broker or a link of a cluster."""

    name: str

    @property
    def id(self) -> str: ...
    @property
    def address(self) -> str: ...
    async def start(self) -> None: ...
    async def leave(self) -> None: ...
    async def stop(self) -> None: ...
    def note(self) -> ProcessNote: ...


class Kept:
    """A process that is started again whenever it ends, after a pause that grows while it keeps ending."""

    def __init__(
        self, name: str, kind: str, arguments: Callable[[dict[str, str]], list[str]], log: Path, news: News
    ) -> None:
        """`arguments` is given the facts of the last ready line, so that a restart can take the same ports."""
        self.name, self.kind = name, kind
        self.child: Child | None = None
        self.restarts = 0
        self._arguments = arguments
        self._log = log
        self._news = news
        self._facts: dict[str, str] = {}
        self._keeper: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        return self.child.facts.get("id", "") if self.child is not None and self.child.running else ""

    @property
    def address(self) -> str:
        return self._facts.get("address") or self._facts.get("url", "")

    async def start(self) -> None:
        """Raises if it does not come up the first time: then something is wrong that trying again does not mend."""
        await self._begin()
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def _begin(self) -> None:
        self.child = await Child.start(self.name, self._arguments(self._facts), self._log)
        self._facts = self.child.facts
        self._news(f"{self.name} is up, process {self.child.pid}")

    async def _keep(self) -> None:
        backoff_s = BACKOFF_FIRST_S
        while True:
            assert self.child is not None
            begun = time.monotonic()
            code = await self.child.wait()
            self.restarts += 1
            self._news(f"{self.name} ended {_how(code)}, and is started again")
            if time.monotonic() - begun > STEADY_S:
                backoff_s = BACKOFF_FIRST_S
            while True:
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)
                try:
                    await self._begin()
                    break
                except (OctoloomError, OSError, TimeoutError) as error:
                    self._news(f"{self.name} did not come up: {error}")

    async def leave(self) -> None:
        """Has it hand over its place in its chains, or what it leads, and end."""
        await self._unkeep()
        if self.child is not None:
            self.child.signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self.child.wait()
            await self.child.stop()

    def kill(self) -> None:
        """Ends it as a crash would; it is started again."""
        if self.child is not None:
            self.child.signal(signal.SIGKILL)

    async def stop(self) -> None:
        await self._unkeep()
        if self.child is not None:
            await self.child.stop()

    async def _unkeep(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
            self._keeper = None

    def note(self) -> ProcessNote:
        child = self.child if self.child is not None and self.child.running else None
        pid, created = (child.pid, child.created) if child else (0, 0.0)
        peer = self._facts.get("peer", "")
        return ProcessNote(self.name, self.kind, pid, created, self.address, peer, str(self._log), self.restarts)


def _how(code: int) -> str:
    if code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"with exit code {code}"


class RegisterHere:
    """The register, in this process."""

    def __init__(self, server: RegisterServer) -> None:
        self.name = self.id = "register"
        self._server = server

    @property
    def address(self) -> str:
        return self._server.address

    async def start(self) -> None:
        await self._server.start()

    async def leave(self) -> None:
        await self.stop()

    async def stop(self) -> None:
        await self._server.stop()

    def note(self) -> ProcessNote:
        return ProcessNote(self.name, "register", os.getpid(), created_at(os.getpid()), self.address)


class BrokerHere:
    """A broker, in this process."""

    def __init__(self, name: str, server: BrokerServer, on_broken: Callable[[BaseException], None]) -> None:
        self.name = name
        self._server = server
        self._on_broken = on_broken
        self._running = False

    @property
    def id(self) -> str:
        return self._server.id if self._running else ""

    @property
    def address(self) -> str:
        return self._server.address

    async def start(self) -> None:
        await self._server.start()
        self._running = True
        assert self._server.failed is not None
        self._server.failed.add_done_callback(lambda failed: _on_failed(failed, self._on_broken))

    async def leave(self) -> None:
        self._running = False
        await self._server.leave()

    async def stop(self) -> None:
        if self._running:
            self._running = False
            await self._server.stop()

    def note(self) -> ProcessNote:
        return ProcessNote(self.name, "broker", os.getpid(), created_at(os.getpid()), self.address)


class LinkHere:
    """A link, in this process. Its reducers are watched as in a process of their own."""

    def __init__(self, name: str, server: LinkServer, on_broken: Callable[[BaseException], None]) -> None:
        self.name = name
        self._server = server
        self._watchdog = Watchdog([server.app])
        self._on_broken = on_broken
        self._running = False

    @property
    def id(self) -> str:
        return self._server.id if self._running else ""

    @property
    def address(self) -> str:
        return self._server.url

    async def start(self) -> None:
        await self._server.start()
        self._watchdog.start()
        self._running = True
        assert self._server.failed is not None
        self._server.failed.add_done_callback(lambda failed: _on_failed(failed, self._on_broken))

    async def leave(self) -> None:
        await self._server.leave(int(LEAVE_S * 1000))
        self._end()

    async def stop(self) -> None:
        if self._running:
            await self._server.stop()
            self._end()

    def _end(self) -> None:
        self._running = False
        self._watchdog.stop()

    def note(self) -> ProcessNote:
        pid = os.getpid()
        return ProcessNote(self.name, "link", pid, created_at(pid), self.address, self._server.peer_address)


def _on_failed(failed: asyncio.Future[None], on_broken: Callable[[BaseException], None]) -> None:
    if not failed.cancelled() and (error := failed.exception()) is not None:
        on_broken(error)
