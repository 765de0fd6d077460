"""A whole cluster on this machine: a register and the links of its chains, kept alive and brought up to date.

With one replica the register and the link live in this process; with more, each is a process of its own. What is
started by an update is always a process of its own, since it has to load the app's code anew.

1. A restarted register listens where it did before: that is how the links find it.
2. The links of a cluster that was stopped are lost for certain, and the register must hear so: the new ones take over
   the old names, whatever their number, before the chain begins a new generation.
3. In a rolling update an old link ends only when a new one stands in its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from octoloom.core.errors import OctoloomError, UsageError
from octoloom.core.register import RegisterConfig
from octoloom.core.register_messages import Directory, View
from octoloom.core.roster import name_of
from octoloom.runtime import cluster_file
from octoloom.runtime.apps import load_app
from octoloom.runtime.cluster_file import ClusterNote
from octoloom.runtime.frames import split_address
from octoloom.runtime.link import LinkServer
from octoloom.runtime.processes import created_at
from octoloom.runtime.register import RegisterServer
from octoloom.runtime.register_client import RegisterClient, ask
from octoloom.runtime.services import LEAVE_S, Kept, LinkHere, News, RegisterHere, Service

WHOLE_S = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. A port of 0 is any free one; links listen on `device_port` and the ports that follow it."""

    data: Path
    app: str
    replicas: int = 1
    chains: int = 1
    host: str = "127.0.0.1"
    register_port: int = 7070
    device_port: int = 7080

    @property
    def chain_names(self) -> list[str]:
        return chain_names(self.chains)


def chain_names(count: int) -> list[str]:
    return [f"chain{number}" for number in range(1, count + 1)]


class Cluster:
    def __init__(self, plan: Plan, news: News, in_processes: bool = True) -> None:
        self.plan = plan
        self.register: Service | None = None
        self.links: list[Service] = []
        self.directory: Directory | None = None
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when something ended that cannot be started again in this process."""
        self._news = news
        self._in_processes = in_processes
        self._lock = cluster_file.lock(plan.data)
        self._follower: RegisterClient | None = None
        self._moved = asyncio.Event()
        self._updates = 0
        self._update = ""
        self._started_ms = time.time_ns() // 1_000_000

    # Starting and ending.

    async def start(self) -> None:
        """Returns once every chain has as many whole links as it should have."""
        try:
            self.register = self._make_register()
            await self.register.start()
            known = await ask(self.register.address)
            self._follower = RegisterClient(self.register.address, self._on_directory)
            self._follower.start()
            names = self._names(known)
            self.links = [self._make_link(name, at) for at, name in enumerate(names)]
            await self._start_links()
            self._write()
            await self.whole()
            for spare in self.links[self.plan.replicas :]:
                await spare.leave()
            del self.links[self.plan.replicas :]
            self._write()
        except BaseException:
            await self.stop()
            raise

    async def _start_links(self) -> None:
        # All are waited for, even if one fails, so that none is left half started.
        results = await asyncio.gather(*(link.start() for link in self.links), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def stop(self) -> None:
        """Ends everything that was started here, and nothing else."""
        if self._follower is not None:
            await self._follower.stop()
        await asyncio.gather(*(link.stop() for link in self.links))
        if self.register is not None:
            await self.register.stop()
        self._lock.close()
        # Whoever wanted to know has looked by now; nobody has to.
        self.broken.cancel()
        if not self.broken.cancelled():
            self.broken.exception()

    def _names(self, known: Directory) -> list[str]:
        """The names that the register counts on, and as many more as are needed."""
        names = list(dict.fromkeys(name_of(link) for view in known.views.values() for link in view.links))
        while len(names) < self.plan.replicas:
            names.append(self._free_name(names))
        return names

    @staticmethod
    def _free_name(taken: list[str]) -> str:
        return next(name for number in range(1, len(taken) + 2) if (name := f"link{number}") not in taken)

    # The parts.

    def _make_register(self) -> Service:
        plan = self.plan
        if not self._in_processes:
            config = RegisterConfig(plan.chain_names, plan.replicas)
            return RegisterHere(RegisterServer(config, plan.data / "register.db", plan.host, plan.register_port))

        def arguments(facts: dict[str, str]) -> list[str]:
            port = split_address(facts["address"])[1] if facts else plan.register_port
            return [
                "register", "--host", plan.host, "--port", str(port), "--data", str(plan.data),
                "--replicas", str(plan.replicas), "--chains", str(plan.chains),
            ]  # fmt: skip

        return Kept("register", "register", arguments, plan.data / "logs" / "register.log", self._on_news)

    def _make_link(self, name: str, at: int, in_process: bool = True) -> Service:
        assert self.register is not None
        plan, register = self.plan, self.register.address
        port = plan.device_port + at if plan.device_port else 0
        if not self._in_processes and in_process and at == 0:
            return LinkHere(name, LinkServer(name, register, load_app(plan.app), plan.host, port), self._on_broken)

        def arguments(facts: dict[str, str]) -> list[str]:
            # Devices may know no other address than the one that this link had before it died.
            known = int(facts["url"].rpartition(":")[2]) if facts else port
            return [
                "link", "--name", name, "--register", register, "--app", plan.app, "--host", plan.host,
                "--device-port", str(known), "--leave-seconds", str(LEAVE_S),
            ]  # fmt: skip

        return Kept(name, "link", arguments, plan.data / "logs" / f"{name}.log", self._on_news)

    def _on_broken(self, error: BaseException) -> None:
        if not self.broken.done():
            self.broken.set_exception(UsageError(f"the link broke ({type(error).__name__}: {error}): see the log"))

    def _on_news(self, text: str) -> None:
        self._news(text)
        if self.links:
            self._write()
        self._moved.set()

    # What is known of the chains.

    def _on_directory(self, directory: Directory) -> None:
        self.directory = directory
        self._moved.set()

    def views(self) -> list[View]:
        return list(self.directory.views.values()) if self.directory is not None else []

    def is_whole(self) -> bool:
        """Whether every chain consists of as many links as it should have, all of them whole and alive."""
        alive = [link.id for link in self.links]
        views = self.views()
        return len(views) >= self.plan.chains and all(
            len(view.whole) >= self.plan.replicas and all(link in alive and link in view.whole for link in view.links)
            for view in views
        )

    async def whole(self, timeout_s: float = WHOLE_S) -> None:
        try:
            await asyncio.wait_for(self.until(self.is_whole), timeout_s)
        except TimeoutError as error:
            logs = self.plan.data / "logs"
            text = (
                f"the chain did not become whole within {timeout_s:.0f} s: look into {logs} and `octoloom chain show`"
            )
            raise UsageError(text) from error

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._moved.clear()
            # A process may have died without a word of news yet.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), 0.2)

    def kill(self, role: str) -> str:
        """Ends the head, middle or tail of the first chain with SIGKILL; answers its name."""
        links = self.views()[0].links
        victim = {"head": links[0], "middle": links[len(links) // 2], "tail": links[-1]}[role]
        link = next(link for link in self.links if link.id == victim)
        assert isinstance(link, Kept)
        link.kill()
        return link.name

    # New code.

    async def update(self) -> bool:
        """Puts a link with the app's newest code in the place of each, one by one; False if the code is no good."""
        if self._update_is_running:
            return False
        try:
            for at, old in enumerate(list(self.links), start=1):
                self._tell_update(f"replacing link {at} of {self.plan.replicas}")
                await self._replace(old)
            await self._move_back()
        except (OctoloomError, OSError, TimeoutError) as error:
            self._end_update(f"failed: {error}")
            return False
        self._end_update("done")
        return True

    @property
    def _update_is_running(self) -> bool:
        return self._update.startswith("replacing")

    async def _replace(self, old: Service) -> None:
        new = self._make_link(self._free_name([link.name for link in self.links]), self._free_place(), in_process=False)
        await new.start()
        self.links.append(new)
        await old.leave()
        self.links.remove(old)
        self._write()
        await self.whole()

    def _free_place(self) -> int:
        if not self.plan.device_port:
            return 0
        taken = [int(link.address.rpartition(":")[2]) - self.plan.device_port for link in self.links]
        return next(at for at in range(len(taken) + 1) if at not in taken)

    async def _move_back(self) -> None:
        """The last one to be replaced freed a port that users know; whoever listens beside them moves there."""
        if self.plan.device_port and (free := self._free_place()) < self.plan.replicas:
            self._tell_update(f"replacing the link beside the ports, to listen on {self.plan.device_port + free} again")
            first, count = self.plan.device_port, self.plan.replicas
            beside = [link for link in self.links if int(link.address.rpartition(":")[2]) >= first + count]
            for link in beside:
                await self._replace(link)

    def _tell_update(self, text: str) -> None:
        self._update = text
        self._on_news(f"update: {text}")

    def _end_update(self, text: str) -> None:
        self._updates += 1
        self._tell_update(text)

    def _write(self) -> None:
        assert self.register is not None
        plan, pid = self.plan, os.getpid()
        note = ClusterNote(
            pid, created_at(pid), self.register.address, plan.app, plan.replicas, plan.chains, self._started_ms,
            [service.note() for service in (self.register, *self.links)], self._updates, self._update,
        )  # fmt: skip
        cluster_file.write(plan.data, note)
