"""A whole cluster on this machine: a register, brokers and the links of its chains, kept alive and up to date.

With one replica all of them live in this process; with more, each is a process of its own. What is started by an update
is always a process of its own, since it has to load the app's code anew.

1. They start in the order in which they need each other: the register, the brokers, the links. A topic that is made
   before all brokers are there would do with fewer replicas for ever, so the links wait until they are.
2. A restarted register listens where it did before: that is how the others find it.
3. The links of a cluster that was stopped are lost for certain, and the register must hear so: the new ones take over
   the old names, whatever their number, before the chain begins a new generation.
4. A broker that holds a replica is started for as long as it does, even if fewer were asked for: its disk is what the
   topics live on.
5. In a rolling update an old link ends only when a new one stands in its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Sequence

from octoloom.core.errors import OctoloomError, UsageError
from octoloom.core.journal import Durability
from octoloom.core.log_messages import LogDirectory, PartitionState, TopicPartition
from octoloom.core.register_messages import Directory, View
from octoloom.core.roster import name_of
from octoloom.runtime import cluster_file
from octoloom.runtime.cluster_file import ClusterNote
from octoloom.runtime.log_watch import LogWatch
from octoloom.runtime.parts import Parts
from octoloom.runtime.plan import Plan
from octoloom.runtime.process_logs import ProcessLogs
from octoloom.runtime.processes import created_at
from octoloom.runtime.register_client import RegisterClient, ask, ask_log
from octoloom.runtime.services import Kept, News, Service
from octoloom.wire.journal import TOPIC

WHOLE_S = 60.0


class Cluster:
    def __init__(self, plan: Plan, news: News, in_processes: bool = True) -> None:
        self.plan = plan
        self.register: Service | None = None
        self.brokers: list[Service] = []
        self.links: list[Service] = []
        self.log: LogWatch | None = None
        """What the register decides about topics; None without brokers."""
        self.directory: Directory | None = None
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when something ended that cannot be started again in this process."""
        self._news = news
        self._parts = Parts(plan, in_processes, self._on_news, self._on_broken)
        self._lock = cluster_file.lock(plan.data)
        self._logs = ProcessLogs(plan.logs)
        self._follower: RegisterClient | None = None
        self._moved = asyncio.Event()
        self._updates = 0
        self._update = ""
        self._started_ms = time.time_ns() // 1_000_000

    # Starting and ending.

    async def start(self) -> None:
        """Returns once every chain has as many whole links as it should have."""
        self._logs.start()
        try:
            self.register = self._parts.register()
            await self.register.start()
            address = self.register.address
            await self._start_brokers(address)
            known = await ask(address)
            self._check_chains(known)
            self._follower = RegisterClient(address, self._on_directory)
            self._follower.start()
            names = self._names(known)
            self.links = [self._parts.link(address, name, at) for at, name in enumerate(names)]
            await _start(self.links)
            self._write()
            await self.whole()
            for spare in self.links[self.plan.replicas :]:
                await spare.leave()
            del self.links[self.plan.replicas :]
            self._write()
        except BaseException:
            await self.stop()
            raise

    async def _start_brokers(self, register: str) -> None:
        names = self._broker_names(await ask_log(register))
        if not names:
            return
        if len(names) > self.plan.broker_count:
            self._news(f"{len(names)} brokers are started, since each of them holds a part of the topics in here")
        self.log = LogWatch(register, self._moved.set)
        self.log.start()
        self.brokers = [self._parts.broker(register, name, at) for at, name in enumerate(names)]
        await _start(self.brokers)
        await self._soon(self._brokers_are_there, "not all brokers came to the register")

    async def stop(self) -> None:
        """Ends everything that was started here, and nothing else."""
        self._logs.stop()
        if self._follower is not None:
            await self._follower.stop()
        if self.log is not None:
            await self.log.stop()
        for services in (self.links, self.brokers):
            await asyncio.gather(*(service.stop() for service in services))
        if self.register is not None:
            await self.register.stop()
        self._lock.close()
        # Whoever wanted to know has looked by now; nobody has to.
        self.broken.cancel()
        if not self.broken.cancelled():
            self.broken.exception()

    def _check_chains(self, known: Directory) -> None:
        """With more chains spaces would move between them, and their journal would not."""
        journal = self.log.directory.topics.get(TOPIC) if self.log is not None else None
        count = len(known.views)
        if journal is not None and self.plan.journal is not Durability.NONE and 0 < count < self.plan.chains:
            text = f"the journal in {self.plan.data} was made for --chains {count}"
            raise UsageError(f"{text}: start with that, or name another directory with --data")

    def _names(self, known: Directory) -> list[str]:
        """The names that the register counts on, and as many more as are needed."""
        names = list(dict.fromkeys(name_of(link) for view in known.views.values() for link in view.links))
        while len(names) < self.plan.replicas:
            names.append(_free_name("link", names))
        return names

    def _broker_names(self, known: LogDirectory) -> list[str]:
        """Those who hold replicas, and as many more as are wanted; none if none is wanted."""
        if not self.plan.broker_count:
            return []
        names = list(dict.fromkeys(name for _, _, state in known.partitions for name in state.replicas))
        while len(names) < self.plan.broker_count:
            names.append(_free_name("broker", names))
        return sorted(names, key=lambda name: (len(name), name))

    def _on_broken(self, error: BaseException) -> None:
        if not self.broken.done():
            self.broken.set_exception(UsageError(f"a part of it broke ({type(error).__name__}: {error}): see the log"))

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
        await self._soon(self.is_whole, "the chain did not become whole", timeout_s)

    async def _soon(self, condition: Callable[[], bool], otherwise: str, timeout_s: float = WHOLE_S) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self.until(condition)
        except TimeoutError as error:
            logs = self.plan.logs
            text = f"{otherwise} within {timeout_s:.0f} s: look into {logs} and `octoloom status`"
            raise UsageError(text) from error

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._moved.clear()
            # A process may have died without a word of news yet.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self._moved.wait()

    def kill(self, role: str) -> str:
        """Ends the head, middle or tail of the first chain with SIGKILL; answers its name."""
        links = self.views()[0].links
        victim = {"head": links[0], "middle": links[len(links) // 2], "tail": links[-1]}[role]
        link = next(link for link in self.links if link.id == victim)
        assert isinstance(link, Kept)
        link.kill()
        return link.name

    # What is known of the topics.

    def _brokers_are_there(self) -> bool:
        there = self.log.names() if self.log is not None else []
        return all(broker.name in there for broker in self.brokers)

    async def log_whole(self, timeout_s: float = WHOLE_S) -> None:
        """Returns once every broker is there, and all replicas of every partition are in sync."""
        await self._soon(self.log_is_whole, "not all replicas of the topics came in sync", timeout_s)

    def log_is_whole(self) -> bool:
        return self.log is None or (self._brokers_are_there() and self.log.is_whole())

    async def led_anew(self, place: TopicPartition, epoch: int) -> PartitionState:
        """The partition as it is once somebody leads it in a later epoch than this."""
        log = self.log
        assert log is not None
        await self._soon(lambda: log.led_since(place, epoch) is not None, f"nobody leads {place[0]}-{place[1]}")
        found = log.led_since(place, epoch)
        assert found is not None
        return found

    def kill_leader(self, place: TopicPartition) -> str:
        """Ends the broker that leads a partition with SIGKILL; answers its name."""
        leader = self.log.leader(place) if self.log is not None else None
        broker = next((each for each in self.brokers if leader and each.name == name_of(leader.broker)), None)
        if not isinstance(broker, Kept):
            raise UsageError(f"nobody who could be killed leads {place[0]}-{place[1]}: see `octoloom topic describe`")
        broker.kill()
        return broker.name

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
        assert self.register is not None
        name = _free_name("link", [link.name for link in self.links])
        new = self._parts.link(self.register.address, name, self._free_place(), in_process=False)
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
            [service.note() for service in (self.register, *self.brokers, *self.links)], self._updates, self._update,
        )  # fmt: skip
        cluster_file.write(plan.data, note)


def _free_name(kind: str, taken: Sequence[str]) -> str:
    return next(name for number in range(1, len(taken) + 2) if (name := f"{kind}{number}") not in taken)


async def _start(services: Sequence[Service]) -> None:
    # All are waited for, even if one fails, so that none is left half started.
    results = await asyncio.gather(*(service.start() for service in services), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
