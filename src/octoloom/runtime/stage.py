"""A cluster with players in it, on this machine and with real processes: where a story about crashes is told.

`Stage` starts both, has links killed, and in the end gathers the evidence for the proof from all who took part.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import msgspec

from octoloom.core.errors import UsageError
from octoloom.runtime import stats
from octoloom.runtime.plan import Plan
from octoloom.runtime.players import Casting, Progress, Testimony, now_ms
from octoloom.runtime.processes import Child
from octoloom.runtime.proof import Evidence, Replica
from octoloom.runtime.services import News
from octoloom.runtime.supervisor import Cluster
from octoloom.wire.stats import StatsRequest

SPACE = "arena"
AGREE_S = 30.0
FINISH_S = 90.0
VOLLEY_S_MAX = 0.02
"""A volley takes a few milliseconds to pass the chain: death may come before, within or after it."""


class Stage:
    def __init__(self, plan: Plan, players: int, processes: int, pause_ms: float, news: News) -> None:
        self.plan = plan
        self.cluster = Cluster(plan, news)
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

    async def start_players(self) -> None:
        names = [f"player{number}" for number in range(1, self._players + 1)]
        castings = [self._casting(at, names[at :: self._processes]) for at in range(self._processes)]
        for at, casting in enumerate(castings):
            log = self.plan.data / "logs" / f"players{at + 1}.log"
            text = msgspec.json.encode(casting).decode()
            child = await Child.start(f"players{at + 1}", [text], log, module="octoloom.runtime.players")
            self._children.append(child)
            self._readers.append(asyncio.get_running_loop().create_task(self._read(child)))

    def _casting(self, at: int, names: list[str]) -> Casting:
        urls = [link.address for link in self.cluster.links]
        observers = [f"observer{at * len(urls) + number}" for number in range(1, len(urls) + 1)]
        record = str(self.plan.data / f"players{at + 1}.json")
        return Casting(urls, SPACE, names, observers, self._pause_ms, random.getrandbits(32), record)

    async def stop(self) -> None:
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*(child.stop(0) for child in self._children))
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
        for child in self._children:
            child.write_line("volley")
        await asyncio.sleep(random.uniform(0, VOLLEY_S_MAX))
        at_ms = now_ms()
        name = self.cluster.kill(role)
        self._news(f"kill -9 of {name}, the {role}")
        await self.cluster.until(lambda: not self.cluster.is_whole())
        return at_ms

    # The end.

    async def evidence(self) -> Evidence:
        """Has everybody come to rest, and asks them all."""
        await self._settle_players()
        answers = await self._agreed()
        version = max(answer["snapshot"]["version"] for answer in answers)
        testimonies = await self._finish_players(version)
        return Evidence(
            [player for testimony in testimonies for player in testimony.players],
            [observer for testimony in testimonies for observer in testimony.observers],
            [
                Replica(answer["link"], answer["snapshot"]["version"], answer["snapshot"]["digest"])
                for answer in answers
            ],
            self.plan.replicas,
            answers[0]["snapshot"]["state"],
        )

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
                    raise UsageError(f"no replica holds the space {SPACE!r}: see {self.plan.data / 'logs'}")
                return held
            await asyncio.sleep(0.05)

    async def _ask_replicas(self) -> list[dict[str, Any]]:
        directory, (view, *_) = self.cluster.directory, self.cluster.views()
        assert directory is not None
        addresses = [directory.links[link].peer for link in view.links]
        return list(await asyncio.gather(*(stats.ask(peer, StatsRequest(space=SPACE)) for peer in addresses)))

    async def _finish_players(self, version: int) -> list[Testimony]:
        testimonies = []
        for child in self._children:
            child.write_line(f"finish {version}")
        for child in self._children:
            code = await asyncio.wait_for(child.wait(), FINISH_S)
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
