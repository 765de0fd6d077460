"""A link's journal on real brokers: what is published, when devices hear of it, and what a chain begins anew with."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from octoloom.core.admission import Limits
from octoloom.core.app import App, AppEvent, Reject
from octoloom.core.effects import Publish
from octoloom.core.errors import UsageError
from octoloom.core.event import JournalEntry, SpaceSnapshot
from octoloom.core.journal import Durability
from octoloom.runtime import journal as journal_module
from octoloom.runtime import journal_lane
from octoloom.runtime import link as link_module
from octoloom.runtime.device import Device
from octoloom.runtime.journal import Journal, Journaled
from octoloom.runtime.journal_reader import JournalPass
from octoloom.runtime.link import LinkServer
from octoloom.runtime.log_admin import describe_topics
from octoloom.runtime.log_client import LogClient
from tests.runtime.broker_world import World, world
from tests.runtime.journal_entries import entries, entry
from tests.waiting import async_until as until

app = App("counter", state={"n": 0})


@app.on("add")
def add(state: Any, event: AppEvent) -> None:
    state["n"] += event.payload


@app.on("refuse")
def refuse(state: Any, event: AppEvent) -> None:
    raise Reject("not today")


@app.on("fill")
def fill(state: Any, event: AppEvent) -> None:
    state["text"] = "x" * event.payload


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one broker, do not wait for more."""
    monkeypatch.setattr(journal_module, "FORM_S", 0.05)
    monkeypatch.setattr(link_module, "FLUSH_S", 0.3)


def mine_of(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "octoloom.journal"]


class Heard:
    """A journal, and what it told."""

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        self.told: list[list[Journaled]] = []
        self.restored: list[tuple[str, int, list[SpaceSnapshot]]] = []
        self.broken: list[Exception] = []
        chains = settings.pop("chains", ("c",))
        self.journal = Journal(
            bootstrap, self.told.append, self._on_restored, self.broken.append, chain_names=lambda: chains, **settings
        )

    def _on_restored(self, chain: str, generation: int, snapshots: list[SpaceSnapshot]) -> None:
        self.restored.append((chain, generation, snapshots))

    def publish(self, space: str, some: list[JournalEntry], generation: int = 1) -> None:
        self.journal.publish("c", 1, Publish(space, generation, some))

    def versions(self) -> dict[str, int]:
        return {one.space: one.version for told in self.told for one in told}

    async def restore(self, generation: int, chain: str = "c") -> dict[str, int]:
        before = len(self.restored)
        self.journal.restore(chain, generation)
        await until(lambda: len(self.restored) > before)
        assert self.restored[-1][:2] == (chain, generation)
        return {snapshot.space: snapshot.version for snapshot in self.restored[-1][2]}


@contextlib.asynccontextmanager
async def heard(bootstrap: str, **settings: Any) -> AsyncIterator[Heard]:
    there = Heard(bootstrap, **settings)
    try:
        yield there
    finally:
        await there.journal.close()
        assert there.broken == []


def test_what_is_published_is_acknowledged_and_can_be_taken_over(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as there, heard(there.register.address) as mine:
            for space in ("a", "b", "c"):
                mine.publish(space, entries(1, 3))
            await until(lambda: mine.versions() == {"a": 3, "b": 3, "c": 3})
            mine.publish("a", entries(4, 9))
            await until(lambda: mine.versions()["a"] == 9)
            assert mine.told[-1] == [Journaled("c", "a", 1, 9)]
            assert await mine.restore(2) == {"a": 9, "b": 3, "c": 3}

    uvloop.run(main())


def test_the_topic_is_made_to_keep_everything(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ("b1", "b2", "b3")) as there, heard(there.register.address, partitions=5) as mine:
            assert await mine.restore(1) == {}
            async with LogClient(there.register.address) as client:
                [status] = await describe_topics(client, ["journal"])
            assert len(status.partitions) == 5
            assert all(len(partition.replicas) == 3 for partition in status.partitions)
            assert status.config["retention.ms"] == "-1"
            assert status.config["max.message.bytes"] == str(32 * 1024 * 1024)

    uvloop.run(main())


def test_a_topic_that_is_there_is_used_as_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as there:
            await there.topic("diary", partitions=3)
            async with heard(there.one.address, topic="diary") as mine:
                mine.publish("a", entries(1, 3))
                await until(lambda: mine.versions() == {"a": 3})
                async with LogClient(there.one.address) as client:
                    assert sorted((await client.metadata()).topics) == ["diary"]
                    assert len((await client.topic("diary")).partitions) == 3

    uvloop.run(main())


def test_brokers_may_come_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ()) as there, heard(there.register.address) as mine:
            mine.publish("a", entries(1, 2))
            mine.publish("a", entries(3, 4))
            mine.journal.restore("c", 5)
            await asyncio.sleep(0.1)
            assert mine.told == []
            await there.add("b1")
            await until(lambda: mine.versions() == {"a": 4})
            await until(lambda: mine.restored)

    uvloop.run(main())


def test_an_outage_is_told_once_and_so_is_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "LATE_S", 0.2)
    monkeypatch.setattr(journal_module, "WATCH_S", 0.05)

    async def main() -> None:
        async with world(tmp_path) as there, heard(there.register.address) as mine:
            for version in (1, 2):
                mine.publish("a", entries(version, version))
                await until(lambda wanted=version: mine.versions().get("a") == wanted)  # type: ignore[misc]
            for version in (3, 4):
                port = int(there.one.address.rpartition(":")[2])
                await there.brokers.pop("b1").stop()
                mine.publish("a", entries(version, version))
                await until(lambda wanted=version: len(warnings()) == wanted - 2)  # type: ignore[misc]
                await asyncio.sleep(0.3)
                await there.add("b1", port=port)
                await until(lambda wanted=version: mine.versions().get("a") == wanted)  # type: ignore[misc]
                await until(lambda wanted=version: len(ends()) == wanted - 2)  # type: ignore[misc]
            assert await mine.restore(2) == {"a": 4}

    def warnings() -> list[str]:
        return [record.message for record in mine_of(caplog) if record.levelno == logging.WARNING]

    def ends() -> list[str]:
        return [record.message for record in mine_of(caplog) if "goes on after" in record.message]

    with caplog.at_level(logging.INFO, "octoloom.journal"):
        uvloop.run(main())
    assert len(warnings()) == len(ends()) == 2
    assert all("keep this link waiting" in text for text in warnings())


def test_what_is_too_large_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_lane, "ASIDE_S", 0.02)

    async def main() -> None:
        async with world(tmp_path) as there:
            await there.topic("journal", partitions=1, max_message_bytes="20000")
            async with heard(there.register.address) as mine:
                mine.publish("large", [entry(1), entry(2, padding=30_000), entry(3)])
                mine.publish("small", entries(1, 3))
                await until(lambda: mine.versions() == {"large": 1, "small": 3})
                await asyncio.sleep(0.2)
                assert mine.versions()["large"] == 1

    with caplog.at_level(logging.ERROR, "octoloom.journal"):
        uvloop.run(main())
    [told] = [record.message for record in mine_of(caplog)]
    assert "version 2 of the space large" in told
    assert "max.message.bytes" in told


def test_a_large_start_is_written_whole(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as there, heard(there.register.address) as mine:
            mine.publish("a", [entry(1, padding=6_000_000), entry(2)])
            await until(lambda: mine.versions() == {"a": 2})
            assert await mine.restore(2) == {"a": 2}
            [snapshot] = mine.restored[-1][2]
            assert len(snapshot.state) < 1000

            big = entry(3, padding=30_000_000)
            mine.publish("a", [big])
            await until(lambda: mine.versions() == {"a": 3})
            assert await mine.restore(2) == {"a": 3}
            [snapshot] = mine.restored[-1][2]
            mine.publish("a", snapshot.backlog, generation=2)
            await until(lambda: mine.told[-1] == [Journaled("c", "a", 2, 3)])
            assert await mine.restore(3) == {"a": 3}

    uvloop.run(main())


def test_a_chain_that_cannot_be_read_is_told_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with world(tmp_path) as there, heard(there.register.address) as mine:
            mine.publish("a", entries(1, 2), generation=4)
            await until(lambda: mine.versions() == {"a": 2})
            mine.journal.restore("c", 4)
            await until(lambda: mine_of(caplog))
            assert mine.restored == []
            # Another generation may begin all the same.
            assert await mine.restore(5) == {"a": 2}

    with caplog.at_level(logging.ERROR, "octoloom.journal"):
        uvloop.run(main())
    [told] = [record.message for record in mine_of(caplog)]
    assert "start it with the data that it had" in told
    assert told.endswith("c does not serve")


def test_those_who_ask_together_share_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[dict[str, int]] = []
    run = JournalPass.run

    async def counted(self: JournalPass) -> None:
        passes.append(dict(self._beginning))
        await run(self)

    monkeypatch.setattr(JournalPass, "run", counted)

    async def main() -> None:
        async with world(tmp_path) as there, heard(there.register.address, chains=("c", "d", "e")) as mine:
            mine.journal.restore("c", 1)
            mine.journal.restore("d", 2)
            mine.journal.restore("d", 3)
            await until(lambda: len(mine.restored) == 2)
            mine.journal.restore("e", 1)
            await until(lambda: len(mine.restored) == 3)
            assert [one[:2] for one in mine.restored] == [("c", 1), ("d", 3), ("e", 1)]
            assert passes == [{"c": 1, "d": 3}, {"e": 1}]

    uvloop.run(main())


# A link with a journal.


@contextlib.asynccontextmanager
async def link(there: World, durability: Durability, name: str = "one", **settings: Any) -> AsyncIterator[LinkServer]:
    server = LinkServer(name, there.register.address, app, journal="register", durability=durability, **settings)
    await server.start()
    try:
        yield server
        assert server.failed is not None
        assert not server.failed.done()
    finally:
        await server.stop()


async def serving(server: LinkServer) -> None:
    await until(lambda: "c" in server.chains and server.chains["c"].serving)


async def journal_versions(there: World) -> dict[str, int]:
    async with LogClient(there.register.address) as client:
        done = JournalPass(client, "journal", {"c": 99}, ["c"])
        await done.run()
        assert done.failures == {}
        return {snapshot.space: snapshot.version for snapshot in await done.snapshots("c")}


@pytest.mark.parametrize("durability", [Durability.CHAIN, Durability.JOURNAL])
def test_a_chain_goes_on_from_the_journal(tmp_path: Path, durability: Durability) -> None:
    async def main() -> None:
        async with world(tmp_path) as there:
            store = tmp_path / "ada.db"
            async with (
                link(there, durability) as first,
                Device.connect(first.url, "s", "ada", store) as ada,
                Device.connect(first.url, "other", "bob") as bob,
            ):
                assert [(await ada.send("add", n)).status for n in (1, 2, 3)] == ["applied"] * 3
                assert (await bob.send("add", 5)).status == "applied"
                assert (await ada.send("refuse")).status == "rejected"
                held, version, generation = dict(ada.state), ada.version, first.chains["c"].view.generation
            before = await journal_versions(there)
            assert before["s"] >= version
            async with link(there, durability) as second:
                await serving(second)
                assert second.chains["c"].view.generation == generation + 1
                async with Device.connect(second.url, "s", "ada", store) as ada:
                    assert (await ada.send("add", 4)).status == "applied"
                    assert ada.state == {"n": held["n"] + 4}
                    assert ada.version > version
                # A device that lost its store is told which numbers are taken.
                async with Device.connect(second.url, "other", "bob") as bob:
                    assert (await bob.send("add", 1)).sequencer > 1
                    assert bob.state == {"n": 6}

    uvloop.run(main())


def test_with_durability_journal_nobody_is_told_before_the_brokers_have_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as there, link(there, Durability.JOURNAL) as server:
            await serving(server)
            async with Device.connect(server.url, "s", "ada") as ada:
                assert (await ada.send("add", 1)).status == "applied"
                port = int(there.one.address.rpartition(":")[2])
                await there.brokers.pop("b1").stop()
                sending = [ada.send("add", 1) for _ in range(3)]
                await until(lambda: server.chains["c"].spaces["s"].state["n"] == 4)
                await asyncio.sleep(0.2)
                assert ada.state == {"n": 1}
                await there.add("b1", port=port)
                assert [(await one).status for one in sending] == ["applied"] * 3
                assert ada.state == {"n": 4}

    uvloop.run(main())


def test_a_link_serves_nobody_before_it_has_read_the_journal(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ()) as there, link(there, Durability.CHAIN) as server:
            await until(lambda: "c" in server.chains and server.chains["c"].place.is_member)
            await asyncio.sleep(0.2)
            assert not server.chains["c"].serving
            await there.add("b1")
            await serving(server)

    uvloop.run(main())


def test_a_backlog_that_is_full_makes_devices_wait(tmp_path: Path) -> None:
    async def main() -> None:
        limits = Limits(backlog_max=10_000)
        async with world(tmp_path) as there, link(there, Durability.CHAIN, limits=limits) as server:
            await serving(server)
            async with Device.connect(server.url, "s", "ada") as ada:
                assert (await ada.send("fill", 1)).status == "applied"
                port = int(there.one.address.rpartition(":")[2])
                await there.brokers.pop("b1").stop()
                assert (await ada.send("fill", 20_000)).status == "applied"
                late = ada.send("add", 1)
                await asyncio.sleep(0.2)
                backlog = server.chains["c"].spaces["s"].backlog
                assert backlog is not None
                assert 20_000 < backlog.size < 30_000
                assert ada.state["n"] == 0
                await there.add("b1", port=port)
                assert (await late).status == "applied"
                await until(lambda: backlog.size == 0)

    uvloop.run(main())


def test_what_was_told_is_in_the_journal_when_a_link_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "FLUSH_S", 10.0)

    async def main() -> None:
        async with world(tmp_path) as there:
            async with link(there, Durability.CHAIN) as server, Device.connect(server.url, "s", "ada") as ada:
                await ada.send("add", 1)
                port = int(there.one.address.rpartition(":")[2])
                await there.brokers.pop("b1").stop()
                outcome = await ada.send("add", 1)
                await there.add("b1", port=port)
            assert (await journal_versions(there))["s"] >= outcome.version

    uvloop.run(main())


def test_a_journal_is_needed_where_devices_shall_wait_for_it() -> None:
    with pytest.raises(UsageError, match="needs a journal"):
        LinkServer("one", "127.0.0.1:1", app, durability=Durability.JOURNAL)
