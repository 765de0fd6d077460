"""Links that keep a journal, killed while devices act: what was committed is in it once, and a lost chain is in it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.chaos import journal
from tests.chaos.journal import Behind, Fell
from tests.chaos.journaled import JournaledCluster, JournalText
from tests.chaos.story import Swarms, publish, report, swarms
from tests.chaos.swarm import Actor
from tests.waiting import until_answered as until

ROOT = Path(__file__).parents[2]
DOWN_S = 0.5
"""How long brokers are away, beyond what the register has patience for."""


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `python -m tests.chaos.swarm` is found."""
    monkeypatch.chdir(ROOT)


def cast(devices: int, spaces: int, folder: Path) -> list[Actor]:
    """Every device has a store on disk."""
    return [Actor(f"device{n}", f"space{n % spaces}", store=str(folder / f"device{n}.db")) for n in range(devices)]


def told(swarm: Swarms) -> int:
    return sum(len(of) for of in journal.Book(journal.read(swarm.journals)).told.values())


async def until_told(swarm: Swarms, more: int) -> None:
    wanted = told(swarm) + more

    async def enough() -> bool:
        return told(swarm) >= wanted

    await until(enough, f"{more} more outcomes")


async def conclude(cluster: JournaledCluster, swarm: Swarms, actors: Sequence[Actor]) -> tuple[JournalText, str]:
    """Has everything come to rest, and holds devices, replicas and the journal against each other."""
    await swarm.say("stop", "settled")
    await cluster.until_whole()
    replicas = await cluster.until_equal()
    await swarm.say("see " + msgspec.json.encode({s: v for s, (v, _) in replicas.items()}).decode(), "seen")
    state = await cluster.state(replicas)

    async def is_all_there() -> JournalText | None:
        text = await cluster.journal()
        there = text.versions()
        return text if all(there.get(space, 0) >= version for space, (version, _) in replicas.items()) else None

    text: JournalText = await until(is_all_there, "all versions in the journal")
    book = journal.Book(journal.read(swarm.journals))
    where = {actor.name: actor.space for actor in actors}
    assert list(text.doubts(replicas)) == []
    assert len(book.told) == len(actors)
    assert list(journal.outcomes(book)) == []
    assert list(journal.settled(book, list(book.sent))) == []
    assert list(journal.trails(book, state)) == []
    assert list(journal.sights(book, replicas, where)) == []
    for device, space in where.items():
        assert text.consumed()[space, device] == [one.sequencer for one in book.told[device, 0]], device
    assert " broke: " not in cluster.logs()
    assert "Traceback" not in cluster.logs()
    publish(cluster.folder, f"{len(actors)} devices", report([], book.lags()))
    return text, f"{len(text)} records, {text.duplicates} of them twice"


def test_heads_that_die_leave_no_gap_in_the_journal(tmp_path: Path) -> None:
    async def play() -> None:
        actors = cast(12, 3, tmp_path)
        async with JournaledCluster(tmp_path, "chain") as cluster, swarms(tmp_path) as swarm:
            await swarm.start(cluster.urls, actors, pause_ms=60)
            for _ in range(3):
                await until_told(swarm, 60)
                await cluster.kill(head := await cluster.at("head"))
                await until_told(swarm, 30)
                await cluster.start(head)
                await cluster.until_whole()
            text, summary = await conclude(cluster, swarm, actors)
            assert (await cluster.view()).generation == 1
            print(summary)
        book = journal.Book(journal.read(swarm.journals))
        assert list(journal.glimpses(book)) == []
        assert {generation for records in text.records.values() for generation, _ in records} == {1}

    asyncio.run(play())


def test_no_device_is_told_anything_while_the_brokers_hang(tmp_path: Path) -> None:
    async def play() -> None:
        actors = cast(8, 2, tmp_path)
        async with JournaledCluster(tmp_path, "journal") as cluster, swarms(tmp_path) as swarm:
            await swarm.start(cluster.urls, actors, pause_ms=60)
            for down_s in (DOWN_S, 3.0):
                await until_told(swarm, 60)
                for broker in cluster.brokers:
                    cluster.freeze(broker)
                # What was acknowledged already is still on its way to the devices.
                await asyncio.sleep(DOWN_S)
                before = told(swarm)
                await asyncio.sleep(down_s)
                assert told(swarm) == before
                for broker in cluster.brokers:
                    cluster.thaw(broker)
                await until_told(swarm, 60)
            await conclude(cluster, swarm, actors)
            assert (await cluster.view()).generation == 1
        assert list(journal.glimpses(journal.Book(journal.read(swarm.journals)))) == []

    asyncio.run(play())


async def lose_links(cluster: JournaledCluster, swarm: Swarms) -> None:
    await cluster.kill_links()
    await cluster.start_links()


async def lose_links_and_a_broker(cluster: JournaledCluster, swarm: Swarms) -> None:
    await asyncio.gather(cluster.kill_links(), cluster.kill("broker0"))
    await cluster.start_links()
    await until_told(swarm, 50)
    await cluster.start("broker0")


async def lose_links_while_a_broker_wakes_up(cluster: JournaledCluster, swarm: Swarms) -> None:
    """It believes that it still leads, and knows nothing of what was committed since."""
    cluster.freeze("broker1")
    try:
        await until_told(swarm, 100)
        await cluster.kill_links()
        starting = asyncio.ensure_future(cluster.start_links())
    finally:
        cluster.thaw("broker1")
    await starting


def test_a_chain_that_lost_all_links_goes_on_from_the_journal(tmp_path: Path) -> None:
    losses = [lose_links, lose_links_and_a_broker, lose_links_while_a_broker_wakes_up]

    async def play() -> None:
        actors = cast(12, 3, tmp_path)
        async with JournaledCluster(tmp_path, "journal") as cluster, swarms(tmp_path) as swarm:
            await swarm.start(cluster.urls, actors, pause_ms=60)
            for lose in losses:
                await until_told(swarm, 100)
                await lose(cluster, swarm)
            await until_told(swarm, 100)
            text, summary = await conclude(cluster, swarm, actors)
            assert (await cluster.view()).generation == 1 + len(losses)
            print(summary)
        book = journal.Book(journal.read(swarm.journals))
        # Devices hear that history began anew (a slow one may have slept through a whole generation), and see that
        # nothing of it is missing.
        falls = [fact for fact in book.facts if isinstance(fact, Fell)]
        assert [fall for fall in falls if fall.after < fall.before] == []
        assert {fall.device for fall in falls} == {actor.name for actor in actors}
        assert [fact for fact in book.facts if isinstance(fact, Behind)] == []
        starts = [entry for records in text.records.values() for _, entry in records if entry.start is not None]
        assert len(starts) >= len(losses) * len(text.records)

    asyncio.run(play())
