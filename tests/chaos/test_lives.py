"""Devices are killed with `kill -9` and come back with their store, without it, or with an older copy of it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from octoloom.core.device_effects import Saved
from octoloom.runtime.processes import Child
from octoloom.storage.device_store import DeviceStore
from tests.chaos import journal
from tests.chaos.cluster import Cluster
from tests.chaos.journal import Ended
from tests.chaos.ledger import REFUSED
from tests.chaos.story import Swarms, publish, report, swarms
from tests.chaos.swarm import Actor
from tests.waiting import until_answered as until

ROOT = Path(__file__).parents[2]
SPACE = "space"
RETURNS = ("with its store", "with an older copy", "without a store")
TOLD_MIN = 4
"""A life ends once each device was told of so many actions."""
APART_S = 0.2


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `python -m tests.chaos.swarm` is found."""
    monkeypatch.chdir(ROOT)


class Inherited(msgspec.Struct, frozen=True):
    """What a device found in its store when it began this life."""

    device: str
    life: int
    how: str
    pending: dict[int, tuple[int, int]]
    """Sequencer → (life, number)."""
    queued: list[tuple[int, int]]


class Remains(msgspec.Struct, frozen=True):
    """What was in a device's store when it was killed."""

    device: str
    life: int
    version: int
    next_sequencer: int
    unsettled: list[tuple[int, int]]


class Cupboard:
    """The devices' stores, with a copy of each from the end of each life."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder, self.names = folder, names

    def store(self, name: str, life: int = 0) -> Path:
        """The store in use, or the copy that was made when `life` ended."""
        return self.folder / (f"{name}.{life}.db" if life else f"{name}.db")

    def _move(self, source: Path, target: Path) -> None:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{target}{suffix}").unlink()
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(f"{source}{suffix}", f"{target}{suffix}")

    def keep_copies(self, life: int) -> list[Remains]:
        for name in self.names:
            self._move(self.store(name), self.store(name, life))
        return [self._remains(name, life) for name in self.names]

    def _remains(self, name: str, life: int) -> Remains:
        saved = self._load(name)
        keys = [key_of(event.payload) for event in (*saved.pending, *saved.queue)]
        return Remains(name, life, saved.version, saved.next_sequencer, keys)

    def prepare(self, name: str, life: int, how: str) -> Inherited:
        """Puts the store in place with which a device begins `life`."""
        if how == "without a store":
            self._move(self.folder / "nothing", self.store(name))
        elif how == "with an older copy":
            self._move(self.store(name, life - 2), self.store(name))
        saved = self._load(name)
        pending = {event.sequencer: key_of(event.payload) for event in saved.pending}
        return Inherited(name, life, how, pending, [key_of(action.payload) for action in saved.queue])

    def _load(self, name: str) -> Saved:
        """What is in the store in use. It is read from a copy, so that looking does not mend anything."""
        scratch = self.folder / "scratch.db"
        self._move(self.store(name), scratch)
        store = DeviceStore(scratch, SPACE, name)
        try:
            return store.load() or Saved()
        finally:
            store.close()


def key_of(payload: bytes) -> tuple[int, int]:
    return msgspec.json.decode(payload, type=tuple[int, int])


async def live(cluster: Cluster, swarm: Swarms, actors: list[Actor]) -> None:
    """One life, from the start until everybody was told of a few actions; then `kill -9`, or the end."""
    child = await swarm.start(cluster.urls, actors, pause_ms=60)
    life, names = actors[0].life, [actor.name for actor in actors]

    async def told_enough() -> bool:
        book = journal.Book(journal.read([swarm.journals[-1]]))
        return all(len(book.told[name, life]) >= TOLD_MIN for name in names)

    await until(told_enough, f"the outcomes of life {life}")
    await END[life % len(END)](cluster, swarm, child)


async def die(cluster: Cluster, swarm: Swarms, child: Child) -> None:
    await swarm.kill(child)


async def die_after_the_head(cluster: Cluster, swarm: Swarms, child: Child) -> None:
    """What they do in between has no number yet, and stays in their stores."""
    await cluster.kill(head := await cluster.at("head"))
    await asyncio.sleep(APART_S)
    await swarm.kill(child)
    await cluster.start(head)


async def die_while_the_tail_hangs(cluster: Cluster, swarm: Swarms, child: Child) -> None:
    """What they do in between has numbers, and is held by the chain and by their stores."""
    cluster.freeze(tail := await cluster.at("tail"))
    try:
        await asyncio.sleep(APART_S)
        await swarm.kill(child)
    finally:
        cluster.thaw(tail)


END = (die, die_while_the_tail_hangs, die_after_the_head)


async def play(folder: Path, devices: int, lives: int) -> None:
    names = [f"device{n}" for n in range(devices)]
    cupboard = Cupboard(folder, names)
    inherited: list[Inherited] = []
    remains: list[Remains] = []
    async with Cluster(folder) as cluster, swarms(folder) as swarm:
        for life in range(1, lives + 1):
            for at, name in enumerate(names):
                how = "for the first time" if life == 1 else RETURNS[(at + life) % 3]
                inherited.append(cupboard.prepare(name, life, how))
            actors = [Actor(name, SPACE, life, str(cupboard.store(name))) for name in names]
            if life < lives:
                await live(cluster, swarm, actors)
                remains += cupboard.keep_copies(life)
        await swarm.start(cluster.urls, actors, pause_ms=60)
        await asyncio.sleep(1)
        await swarm.say("stop", "settled")
        await cluster.until_whole()
        replicas = await cluster.until_equal()
        await swarm.say("see " + msgspec.json.encode({SPACE: replicas[SPACE][0]}).decode(), "seen")
        state = await cluster.state([SPACE])
        assert "broke" not in cluster.logs()
    book = journal.Book(journal.read(swarm.journals))
    publish(folder, f"{devices} devices, {lives} lives each", report([], book.lags()))
    print_returns(book, inherited)
    assert list(journal.glimpses(book)) == []
    assert list(journal.outcomes(book)) == []
    assert list(journal.settled(book, [(name, lives) for name in names])) == []
    assert list(journal.notes(book, state)) == []
    assert list(journal.sights(book, replicas, dict.fromkeys(names, SPACE))) == []
    assert list(unsaved(book, remains)) == []
    assert list(legacies(book, inherited, state)) == []


def endings(book: journal.Book) -> dict[tuple[str, int], dict[int, str]]:
    found: dict[tuple[str, int], dict[int, str]] = {}
    for fact in book.facts:
        if isinstance(fact, Ended):
            found.setdefault((fact.device, fact.life), {})[fact.sequencer] = fact.status
    return found


def unsaved(book: journal.Book, remains: list[Remains]) -> Iterator[str]:
    """A device is told how an action ended only once that is in its store."""
    for left in remains:
        for told in book.told[left.device, left.life]:
            if told.sequencer >= left.next_sequencer or told.version > left.version:
                yield f"{left.device} was told {told}, and its store has come to {left.version} only"
            if (told.life, told.number) in left.unsettled:
                yield f"{left.device} was told {told}, and its store still has it to send"


def legacies(book: journal.Book, inherited: list[Inherited], state: Any) -> Iterator[str]:
    """What a life found in its store was settled before its own actions, and what was told of it is true."""
    ended = endings(book)
    for legacy in inherited:
        if not book.told[legacy.device, legacy.life]:
            continue
        told, held = ended[legacy.device, legacy.life], state["notes"][legacy.device]
        for sequencer, (life, number) in legacy.pending.items():
            status, there = told.get(sequencer, "never settled"), f"{life}.{number}" in held
            true = {"applied": there, "rejected": number % REFUSED == 0, "superseded": not there, "forgotten": True}
            if not true.get(status, False):
                yield f"{legacy.device} found {life}.{number} {legacy.how}: {status}, and in the state it is {there}"
            if legacy.how == "with its store" and status not in ("applied", "rejected"):
                yield f"{legacy.device} came back with its store, and {life}.{number} was {status}"
        for life, number in legacy.queued if legacy.how == "with its store" else ():
            if number % REFUSED and f"{life}.{number}" not in held:
                yield f"{legacy.device} came back with its store, and {life}.{number} is lost"


def print_returns(book: journal.Book, inherited: list[Inherited]) -> None:
    ended = endings(book)
    for how in RETURNS:
        found = [legacy for legacy in inherited if legacy.how == how]
        statuses = Counter(
            ended.get((legacy.device, legacy.life), {}).get(sequencer, "never settled")
            for legacy in found
            for sequencer in legacy.pending
        )
        queued = sum(len(legacy.queued) for legacy in found)
        print(f"{len(found)} came back {how}: pending {dict(statuses)}, queued {queued}")


def test_devices_that_die_lose_and_double_nothing(tmp_path: Path) -> None:
    asyncio.run(play(tmp_path, devices=9, lives=5))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_devices_that_die_often_lose_and_double_nothing(tmp_path: Path) -> None:
    asyncio.run(play(tmp_path, devices=24, lives=15))
