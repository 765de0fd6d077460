"""What a broker does now and then: retention, saving, opening again what could not be opened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event

import pytest
import uvloop

from octoloom.core.errors import StoreError
from octoloom.core.log_messages import ConfigureTopic
from octoloom.runtime import broker_upkeep
from octoloom.runtime.broker_logs import Logs, load_side
from octoloom.storage.log import Log
from octoloom.wire.kafka.records import Record, build_batch
from tests.runtime.broker_world import Client, World, batch, with_settings, world
from tests.waiting import async_until as until


def old(value: bytes) -> bytes:
    return build_batch([Record(0, 1_000, None, value)])


@asynccontextmanager
async def kept_small(tmp_path: Path) -> AsyncIterator[World]:
    """Two brokers with a topic `t` that keeps 50,000 bytes, in segments of 20,000."""
    settings = with_settings(retention_check_ms=20, sync_ms=20)
    async with world(tmp_path, ("b1", "b2"), settings) as all_of_it:
        await all_of_it.topic("t", segment_bytes="20000", retention_bytes="50000", retention_ms="-1")
        yield all_of_it


async def fill(client: Client) -> None:
    for _ in range(30):
        assert (await client.produce("t", batch(b"x" * 5_000))).error == 0


def test_retention_by_size_moves_the_start_on_the_leader_and_its_followers(tmp_path: Path) -> None:
    async def main() -> None:
        async with kept_small(tmp_path) as all_of_it:
            leader = all_of_it.led("t")
            async with Client.to(leader.address) as client:
                await fill(client)
                logs = [broker.state.replicas["t", 0].log for broker in all_of_it.brokers.values()]
                # Segments go as long as what is left without the oldest is enough.
                await until(lambda: all(log.size < 50_000 + 25_000 for log in logs))
                start = leader.core.partitions["t", 0].start
                assert start > 10
                assert (await client.fetch("t", start - 1)).error == 1
                fetched = await client.fetch("t", start)
                assert (fetched.error, fetched.start) == (0, start)

    uvloop.run(main())


def test_a_follower_deletes_once_it_is_synced_what_the_leader_has_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, gate, slow = Log.sync, Event(), list[Log]()

    def sync(self: Log) -> int:
        if self in slow:
            gate.wait()
        return right(self)

    async def main() -> None:
        async with kept_small(tmp_path) as all_of_it:
            leader = all_of_it.led("t")
            [follower] = [broker for broker in all_of_it.brokers.values() if broker is not leader]
            log = follower.state.replicas["t", 0].log
            slow.append(log)
            try:
                async with Client.to(leader.address) as client:
                    await fill(client)
                await until(lambda: leader.state.replicas["t", 0].log.size < 50_000 + 25_000)
                await until(lambda: log.start == leader.core.partitions["t", 0].start)
                assert log.size > 100_000
            finally:
                gate.set()
            await until(lambda: log.size < 50_000 + 25_000)

    monkeypatch.setattr(Log, "sync", sync)
    uvloop.run(main())


def test_retention_by_age_follows_the_topics_settings(tmp_path: Path) -> None:
    async def main() -> None:
        settings = with_settings(retention_check_ms=20, sync_ms=20)
        async with world(tmp_path, settings=settings) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t", retention_ms="-1")
            for number in range(3):
                await client.produce("t", old(b"%d" % number))
            assert len(await client.read_all("t")) == 3
            change = ConfigureTopic(0, "t", {"retention.ms": "1000"})
            assert (await all_of_it.one._register.request(change)).error == 0
            await until(lambda: all_of_it.one.core.partitions["t", 0].start == 3)
            assert await client.produce("t", old(b"next")) == (0, 3, 3)

    uvloop.run(main())


def test_watermarks_and_producers_are_saved_while_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_upkeep, "STEP_MS_MIN", 1)

    async def main() -> None:
        async with world(tmp_path, settings=with_settings(snapshot_ms=10)) as all_of_it:
            await all_of_it.topic("t", partitions=3)
            async with Client.to(all_of_it.one.address) as client:
                for number in range(3):
                    await client.produce("t", batch(b"a", b"b", producer=1, epoch=0, sequence=0), number)
            logs = [all_of_it.one.state.replicas["t", number].log for number in range(3)]

            def is_saved() -> bool:
                sides = [load_side(log) for log in logs]
                return all(side is not None and (side.high, side.offset) == (2, 2) for side in sides)

            await until(is_saved)

    uvloop.run(main())


def test_a_log_that_cannot_be_opened_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_upkeep, "OPEN_MS", 20)
    original = Logs.take
    refused: list[int] = []

    def take(*arguments: object) -> object:
        if len(refused) < 2:
            refused.append(1)
            raise StoreError("no space left")
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Logs, "take", take)

    async def main() -> None:
        async with world(tmp_path) as all_of_it:
            await all_of_it.topic("t")
            async with Client.to(all_of_it.one.address) as client:
                assert (await client.produce("t", batch(b"a"))).error == 0

    uvloop.run(main())
    assert len(refused) == 2


def test_records_are_deleted_on_demand(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ("b1", "b2")) as all_of_it:
            await all_of_it.topic("t")
            leader = all_of_it.led("t")
            [other] = [broker for broker in all_of_it.brokers.values() if broker is not leader]
            async with Client.to(leader.address) as client:
                for number in range(5):
                    await client.produce("t", batch(b"%d" % number))
                assert leader.services.delete_records(("t", 0), 6) == (1, -1)
                assert leader.services.delete_records(("t", 9), 1) == (3, -1)
                assert other.services.delete_records(("t", 0), 1) == (6, -1)
                assert leader.services.delete_records(("t", 0), 3) == (0, 3)
                assert (await client.fetch("t", 2)).error == 1
                await until(lambda: other.state.replicas["t", 0].log.start == 3)
                assert leader.services.delete_records(("t", 0), -1) == (0, 5)

    uvloop.run(main())
