"""The proof's copy of the journal: everything of one space, and what does not belong there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop

from octoloom.core.event import Change, JournalEntry
from octoloom.core.journal import Durability
from octoloom.runtime.journal_copy import place_of, read_journal
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.plan import Plan
from octoloom.runtime.supervisor import Cluster
from octoloom.wire.journal import TOPIC, JournalRecord, encode
from octoloom.wire.kafka.records import Record, build_batch
from tests.waiting import PATIENCE_S, STORY_S

PARTITIONS = 3


@asynccontextmanager
async def broker(data: Path) -> AsyncIterator[LogClient]:
    """One broker with an empty journal."""
    plan = Plan(data, "octoloom.arena:app", register_port=0, device_port=0, broker_port=0, durability=Durability.NONE)
    cluster = Cluster(plan, lambda _: None, in_processes=False)
    try:
        await cluster.start()
        async with LogClient(cluster.brokers[0].address) as client:
            await client.create_topic(TOPIC, PARTITIONS)
            yield client
    finally:
        await cluster.stop()


def record(space: str, version: int) -> Record:
    change = Change(1, version, replace=False, merge=b'{"n":%d}' % version, kills=[])
    key, value, headers = encode(JournalRecord(space, "chain1", 1, 1, 5, JournalEntry(version, change, [])))
    return Record(0, 5, key, value, headers)


async def write(client: LogClient, partition: int, *records: Record) -> None:
    await client.produce(TOPIC, partition, build_batch(list(records)))


def bootstrap(client: LogClient) -> str:
    return client.cluster.bootstrap[0]


def test_the_copy_has_all_of_one_space_in_order_and_nothing_of_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker(tmp_path) as client:
            place = place_of("hall", PARTITIONS)
            await write(client, place[1], record("hall", 1), record("yard", 1), record("hall", 2), record("hall", 2))
            await write(client, (place[1] + 1) % PARTITIONS, record("yard", 2))
            copy = await read_journal(bootstrap(client), "hall", 2, PATIENCE_S)
            assert [(line.offset, line.generation, line.entry.version) for line in copy.lines] == [
                (0, 1, 1),
                (2, 1, 2),
                (3, 1, 2),
            ]
            assert (copy.high, copy.place, copy.space) == (4, f"{TOPIC}-{place[1]}", "hall")
            assert copy.strays == []

    uvloop.run(asyncio.wait_for(main(), STORY_S))


def test_what_is_damaged_or_out_of_place_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker(tmp_path) as client:
            place = place_of("hall", PARTITIONS)
            other = (place[1] + 1) % PARTITIONS
            await write(client, other, record("hall", 1))
            await write(client, place[1], record("hall", 1)._replace(value=b"{"), record("hall", 2))
            copy = await read_journal(bootstrap(client), "hall", 2, PATIENCE_S)
            assert [line.entry.version for line in copy.lines] == [2]
            assert any(f"at {TOPIC}-{other}, offset 0" in stray for stray in copy.strays)
            assert any("offset 0, cannot be read" in stray for stray in copy.strays)

    uvloop.run(asyncio.wait_for(main(), STORY_S))


def test_it_waits_for_a_journal_that_lags_and_does_with_what_there_is_in_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker(tmp_path) as client:
            partition = place_of("hall", PARTITIONS)[1]
            reading = asyncio.ensure_future(read_journal(bootstrap(client), "hall", 2, PATIENCE_S))
            await write(client, partition, record("hall", 1))
            assert not reading.done()
            await write(client, partition, record("hall", 2))
            assert [line.entry.version for line in (await reading).lines] == [1, 2]
            copy = await read_journal(bootstrap(client), "hall", 3, 0.5)
            assert [line.entry.version for line in copy.lines] == [1, 2]

    uvloop.run(asyncio.wait_for(main(), STORY_S))
