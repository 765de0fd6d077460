"""A producer and a consumer on three real brokers, two of which die under them, and one of which freezes."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import uvloop

from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_cluster import address_of
from octoloom.runtime.log_consumer import Consumer, ValueConsumer
from octoloom.runtime.log_producer import Producer
from tests.runtime.real_log import SHORT_LEASE_MS, RealLog, real_log
from tests.waiting import STORY_S, async_until, until_answered

RECORDS = 400
LIST = 10
PARTITIONS = 2


async def leader_of(client: LogClient, partition: int) -> str:
    """Where it listens; empty if there is none."""
    cluster = await client.metadata(["t"])
    broker = cluster.brokers.get(cluster.topics["t"].partitions[partition].leader)
    return address_of(broker) if broker is not None else ""


async def until_led_by_another(client: LogClient, partition: int, old: str) -> None:
    async def another() -> bool:
        return await leader_of(client, partition) not in (old, "")

    await until_answered(another, f"another leader than {old}")


async def hurt(log: RealLog, client: LogClient, progress: list[Any]) -> None:
    """Kills a leader, brings it back, and freezes the next one for a while."""
    await async_until(lambda: len(progress) >= RECORDS // 4)
    address = await leader_of(client, 0)
    dead = log.at(address)
    log.kill(dead)
    await until_led_by_another(client, 0, address)
    log.start(dead)
    await async_until(lambda: len(progress) >= RECORDS // 2)
    address = await leader_of(client, 1)
    frozen = log.brokers[log.at(address)]
    frozen.send(signal.SIGSTOP)
    await until_led_by_another(client, 1, address)
    frozen.send(signal.SIGCONT)


async def write(client: LogClient, progress: list[Any]) -> list[list[bytes]]:
    """Writes numbered records to one partition and lists of them to the other; what is acknowledged is progress."""
    sent: list[list[bytes]] = [[], []]
    async with Producer(client, codec="lz4") as producer:
        waiting = []
        for number in range(RECORDS // 2):
            values = [b"%d.%d" % (number, place) for place in range(LIST)]
            sent[0].append(b"%d" % number)
            sent[1] += values
            waiting.append(producer.send("t", b"%d" % number, partition=0))
            waiting.append(producer.send_many("t", values, partition=1))
            for written in waiting[-2:]:
                written.add_done_callback(progress.append)
            await asyncio.sleep(0.01)
        for number in range(RECORDS // 2):
            assert await waiting[2 * number] == (0, number)
            assert await waiting[2 * number + 1] == (1, number * LIST)
    return sent


async def read(client: LogClient) -> list[bytes | None]:
    found: list[bytes | None] = []
    async with Consumer(client, {("t", 0): "beginning"}, until={("t", 0): RECORDS // 2}) as consumer:
        async for _, _, records in consumer:
            assert [record.offset for record in records] == list(range(len(found), len(found) + len(records)))
            found += [record.value for record in records]
    return found


async def read_values(client: LogClient) -> list[bytes | None]:
    found: list[bytes | None] = []
    async with ValueConsumer(client, {("t", 1): "beginning"}, until={("t", 1): RECORDS // 2 * LIST}) as consumer:
        async for _, _, offset, values in consumer:
            assert offset == len(found)
            found += values
    return found


def test_every_record_is_written_once_and_read_once_while_brokers_die_and_freeze(tmp_path: Path) -> None:
    async def main(log: RealLog) -> None:
        progress: list[Any] = []
        async with (
            LogClient(log.bootstrap, timeout_ms=60_000) as writer,
            LogClient(log.bootstrap) as reader,
            LogClient(log.bootstrap) as watcher,
        ):
            await writer.create_topic("t", PARTITIONS, replicas=3)
            async with asyncio.timeout(STORY_S):
                sent, *found, _ = await asyncio.gather(
                    write(writer, progress), read(reader), read_values(reader), hurt(log, watcher, progress)
                )
            assert found == sent

    with real_log(tmp_path, 3, SHORT_LEASE_MS) as log:
        uvloop.run(main(log))
