"""A cluster with players in it, on this machine and with real processes: where a story about crashes is told.

`Stage` starts both, has links and brokers killed, and in the end gathers the evidence for the proof from all who took
part, and from the journal. Groups have a stage of their own beside it (`group_stage.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from octoloom.core.errors import UsageError
from octoloom.core.journal import Durability
from octoloom.core.log_messages import Aborted, Announced, LogNews, PartitionState, TopicPartition
from octoloom.core.roster import name_of
from octoloom.runtime import stats
from octoloom.runtime.group_stage import GroupStage
from octoloom.runtime.journal_copy import place_of, read_journal
from octoloom.runtime.journal_proof import JournalCopy
from octoloom.runtime.log_watch import LogWatch, Step
from octoloom.runtime.plan import Plan
from octoloom.runtime.players import Casting, Progress, Testimony, now_ms
from octoloom.runtime.processes import Child
from octoloom.runtime.proof import Evidence, Replica
from octoloom.runtime.services import News
from octoloom.runtime.supervisor import Cluster
from octoloom.wire.journal import TOPIC
from octoloom.wire.stats import StatsRequest

AGREE_S = 30.0
FINISH_S = 90.0
JOURNAL_S = 60.0
VOLLEY_S_MAX = 0.02
"""A volley takes a few milliseconds to pass the chain: death may come before, within or after it."""


@dataclass(frozen=True, slots=True)
class Succession:
    """A partition's leader died, and another one leads."""

    killed_ms: float
    led_ms: float
    leader: str
    epoch: int


class Stage:
    def __init__(self, plan: Plan, players: int, processes: int, pause_ms: float, news: News) -> None:
        self.plan = plan
        # A space of its own for every story: the journal of a directory that is used again remembers the last one.
        self.space = f"arena-{time.time_ns() // 1_000_000:x}"
        self.cluster = Cluster(plan, news)
        self.groups: GroupStage | None = None
        self.progress: dict[str, Progress] = {}
        self.lags_ms: list[float] = []
        """Of the last moves that were settled, for the display."""
        self._players, self._processes, self._pause_ms, self._news = players, processes, pause_ms, news
        self._children: list[Child] = []
        self._readers: list[asyncio.Task[None]] = []
        self._heard = asyncio.Event()

    # Starting and ending.

    async def start_cluster(self) -> None:
        await self.cluster.start()
        if self.cluster.log is not None:
            self.cluster.log.on_step = self._on_step

    async def load_groups(self) -> None:
        assert self.cluster.register is not None
        self.groups = GroupStage(self.cluster.register.address, self.plan.data, self._news)
        await self.groups.load()

    async def start_players(self) -> None:
        names = [f"player{number}" for number in range(1, self._players + 1)]
        castings = [self._casting(at, names[at :: self._processes]) for at in range(self._processes)]
        for at, casting in enumerate(castings):
            log = self.plan.logs / f"players{at + 1}.log"
            text = msgspec.json.encode(casting).decode()
            child = await Child.start(f"players{at + 1}", [text], log, module="octoloom.runtime.players")
            self._children.append(child)
            self._readers.append(asyncio.get_running_loop().create_task(self._read(child)))

    def _casting(self, at: int, names: list[str]) -> Casting:
        urls = [link.address for link in self.cluster.links]
        observers = [f"observer{at * len(urls) + number}" for number in range(1, len(urls) + 1)]
        record = str(self.plan.data / f"players{at + 1}.json")
        return Casting(urls, self.space, names, observers, self._pause_ms, random.getrandbits(32), record)

    async def stop(self) -> None:
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*(child.stop(0) for child in self._children))
        if self.groups is not None:
            await self.groups.stop()
        await self.cluster.stop()

    async def _read(self, child: Child) -> None:
        while line := await child.read_line():
            progress = msgspec.json.decode(line, type=Progress)
            self.progress[child.name] = progress
            self.lags_ms = [*self.lags_ms, *progress.lags_ms][-300:]
            self._heard.set()

    # What is going on.

    def total(self, of: str) -> int:
        return sum(int(getattr(progress, of)) for progress in self.progress.values())

    async def kill(self, role: str) -> float:
        """Kills a link while many moves are on their way, and answers when."""
        await self.cluster.whole()
        at_ms = await self._volley()
        name = self.cluster.kill(role)
        self._news(f"kill -9 of {name}, the {role}")
        await self.cluster.until(lambda: not self.cluster.is_whole())
        return at_ms

    async def kill_leader(self) -> Succession:
        """Kills the broker that leads the arena's part of the journal while many moves are on their way."""
        await self.cluster.log_whole()
        log, place = self._log, self._place()
        before = log.state(place)
        assert before is not None
        at_ms = await self._volley()
        name = self.cluster.kill_leader(place)
        self._news(f"kill -9 of {name}, which leads {place[0]}-{place[1]} in epoch {before.epoch}")
        after = await self.cluster.led_anew(place, before.epoch)
        return Succession(at_ms, now_ms(), name_of(after.leader), after.epoch)

    async def _volley(self) -> float:
        """Has every player make many moves at once, and answers when, in the middle of it, it is time to strike."""
        for child in self._children:
            child.write_line("volley")
        await asyncio.sleep(random.uniform(0, VOLLEY_S_MAX))
        return now_ms()

    # The journal, as the register orders it.

    @property
    def _log(self) -> LogWatch:
        assert self.cluster.log is not None
        return self.cluster.log

    def _place(self) -> TopicPartition:
        """The partition of the journal that the arena is in."""
        return place_of(self.space, max(len(self._log.directory.partitions(TOPIC)), 1))

    def journal_leaders(self) -> str:
        """Who leads the arena's part of the journal, and who follows; empty while there is none."""
        state = self._log.state(self._place()) if self.cluster.log is not None else None
        return _led(self._place(), state) if state is not None else ""

    def _on_step(self, step: Step) -> None:
        place = self._place()
        match step:
            case Announced(number, partitions, reason) if place in [(topic, at) for topic, at, _ in partitions]:
                self._news(f"the register announces transition {number}: {reason}")
            case Aborted(number, reason):
                self._news(f"transition {number} aborted: {reason}")
            case LogNews() if decided := [state for topic, at, state in step.partitions if (topic, at) == place]:
                self._news(f"transition {step.transition} committed: {_led(place, decided[-1])}")

    # The end.

    async def evidence(self) -> Evidence:
        """Has everybody come to rest, and asks them all."""
        await self._settle_players()
        answers = await self._agreed()
        version = max(answer["snapshot"]["version"] for answer in answers)
        journal = await self._read_journal(version)
        testimonies = await self._finish_players(version)
        if self.cluster.log is not None:
            # The story is over, even if leaders still go back to their places.
            self.cluster.log.on_step = None
        return Evidence(
            [player for testimony in testimonies for player in testimony.players],
            [observer for testimony in testimonies for observer in testimony.observers],
            [_replica(answer) for answer in answers],
            self.plan.replicas,
            answers[0]["snapshot"]["state"],
            journal,
            self.groups.evidence() if self.groups is not None else None,
        )

    async def _read_journal(self, version: int) -> JournalCopy | None:
        if self.plan.journal is Durability.NONE or self.cluster.register is None:
            return None
        return await read_journal(self.cluster.register.address, self.space, version, JOURNAL_S)

    async def _settle_players(self) -> None:
        for child in self._children:
            child.write_line("stop")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_S):
                while not all(progress.settled for progress in self.progress.values()):
                    self._heard.clear()
                    await self._heard.wait()

    async def _agreed(self) -> list[dict[str, Any]]:
        """What the replicas hold once they hold the same, or, if they never do, what they hold then."""
        await self.cluster.whole()
        deadline_ms = now_ms() + AGREE_S * 1000
        while True:
            answers = await self._ask_replicas()
            versions = [answer["snapshot"]["version"] for answer in answers if "snapshot" in answer]
            if len(versions) == self.plan.replicas and len(dict.fromkeys(versions)) == 1:
                return answers
            if now_ms() > deadline_ms:
                held = [answer for answer in answers if "snapshot" in answer]
                if not held:
                    raise UsageError(f"no replica holds the space {self.space!r}: see {self.plan.data / 'logs'}")
                return held
            await asyncio.sleep(0.05)

    async def _ask_replicas(self) -> list[dict[str, Any]]:
        directory, (view, *_) = self.cluster.directory, self.cluster.views()
        assert directory is not None
        addresses = [directory.links[link].peer for link in view.links]
        return list(await asyncio.gather(*(stats.ask(peer, StatsRequest(space=self.space)) for peer in addresses)))

    async def _finish_players(self, version: int) -> list[Testimony]:
        testimonies = []
        for child in self._children:
            child.write_line(f"finish {version}")
        for child in self._children:
            try:
                async with asyncio.timeout(FINISH_S):
                    code = await child.wait()
            except TimeoutError as error:
                text = f"{child.name} did not tell what it saw within {FINISH_S:.0f} s: see {child.log}"
                raise UsageError(text) from error
            if code != 0:
                raise UsageError(
                    f"{child.name} ended with exit code {code} before it told what it saw: see {child.log}"
                )
        for child in self._children:
            record = Path(self.plan.data / f"{child.name}.json").read_bytes()
            testimonies.append(msgspec.json.decode(record, type=Testimony))
        return testimonies


def _replica(answer: dict[str, Any]) -> Replica:
    snapshot = answer["snapshot"]
    return Replica(answer["link"], snapshot["version"], snapshot["digest"])


def _led(place: TopicPartition, state: PartitionState) -> str:
    others = ", ".join(name_of(member) for member in state.in_sync if member != state.leader) or "nobody"
    return f"{name_of(state.leader)} leads {place[0]}-{place[1]} in epoch {state.epoch}, in sync: {others}"
