"""A chain of real processes is killed, frozen and cut off from its register while devices act all the time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.chaos import journal
from tests.chaos.cluster import Cluster
from tests.chaos.story import FAULTS, publish, report, suffer, swarms, watch_versions
from tests.chaos.swarm import Actor

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `python -m tests.chaos.swarm` is found."""
    monkeypatch.chdir(ROOT)


def cast(devices: int, spaces: int, folder: Path) -> list[Actor]:
    """One device in eight has a store on disk; each space has an observer."""
    named = [
        Actor(f"device{n}", f"space{n % spaces}", store=str(folder / f"device{n}.db") if n % 8 == 0 else "")
        for n in range(devices)
    ]
    return [*named, *(Actor("", f"space{n}") for n in range(spaces))]


async def play(folder: Path, devices: int, spaces: int, pause_ms: float, faults: Sequence[str]) -> None:
    complaints: list[str] = []
    actors = cast(devices, spaces, folder)
    async with Cluster(folder) as cluster, swarms(folder) as swarm:
        for half in (actors[::2], actors[1::2]):
            await swarm.start(cluster.urls, half, pause_ms)
        watching = asyncio.create_task(watch_versions(cluster, complaints))
        await asyncio.sleep(1)
        marks = [await suffer(cluster, kind, calm_s=0.5) for kind in faults]
        await swarm.say("stop", "settled")
        replicas = await cluster.until_equal()
        await swarm.say("see " + msgspec.json.encode({s: v for s, (v, _) in replicas.items()}).decode(), "seen")
        watching.cancel()
        state = await cluster.state(replicas)
        assert (await cluster.view()).generation == 1
        assert "broke" not in cluster.logs()
    book = journal.Book(journal.read(swarm.journals))
    publish(folder, f"{devices} devices, {len(faults)} faults", report(marks, book.lags()))
    assert len(book.told) == devices
    where = {actor.name: actor.space for actor in actors if actor.name}
    assert complaints == []
    assert list(journal.glimpses(book)) == []
    assert list(journal.outcomes(book)) == []
    assert list(journal.settled(book, list(book.sent))) == []
    assert list(journal.trails(book, state)) == []
    assert list(journal.sights(book, replicas, where)) == []


def test_nothing_is_lost_doubled_or_reordered(tmp_path: Path) -> None:
    faults = ["head killed", "tail frozen", "register killed", "middle killed", "head frozen", "tail killed"]
    asyncio.run(play(tmp_path, devices=30, spaces=2, pause_ms=150, faults=faults))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_nothing_is_lost_doubled_or_reordered_for_long(tmp_path: Path) -> None:
    asyncio.run(play(tmp_path, devices=100, spaces=4, pause_ms=250, faults=[*FAULTS] * 3))
