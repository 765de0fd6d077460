"""A producer and a consumer on three real brokers, two of which die under them, and one of which freezes."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import uvloop

from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_cluster import address_of
from octoloom.runtime.log_consumer import Consumer
from octoloom.runtime.log_producer import Producer
from tests.runtime.real_log import RealLog, real_log

RECORDS = 400
PARTITIONS = 2
PATIENCE_S = 120.0


async def leader_of(client: LogClient, partition: int) -> str:
    """Where it listens; empty if there is none."""
    cluster = await client.metadata(["t"])
    broker = cluster.brokers.get(cluster.topics["t"].partitions[partition].leader)
    return address_of(broker) if broker is not None else ""


async def until_led_by_another(client: LogClient, partition: int, old: str) -> None:
    while await leader_of(client, partition) in (old, ""):
        await asyncio.sleep(0.05)


async def hurt(log: RealLog, client: LogClient, progress: list[Any]) -> None:
    """Kills a leader, brings it back, and freezes the next one for a while."""
    while len(progress) < RECORDS // 4:
        await asyncio.sleep(0.01)
    address = await leader_of(client, 0)
    dead = log.at(address)
    log.kill(dead)
    await until_led_by_another(client, 0, address)
    log.start(dead)
    while len(progress) < RECORDS // 2:
        await asyncio.sleep(0.01)
    address = await leader_of(client, 1)
    frozen = log.brokers[log.at(address)]
    frozen.send(signal.SIGSTOP)
    await until_led_by_another(client, 1, address)
    frozen.send(signal.SIGCONT)


async def write(client: LogClient, progress: list[Any]) -> list[list[bytes]]:
    """Writes numbered records to both partitions; what was acknowledged counts as progress."""
    sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    async with Producer(client, codec="lz4") as producer:
        waiting = []
        for number in range(RECORDS):
            value, partition = b"%d" % number, number % PARTITIONS
            sent[partition].append(value)
            waiting.append(producer.send("t", value, partition=partition))
            waiting[-1].add_done_callback(progress.append)
            await asyncio.sleep(0.005)
        for number, written in enumerate(waiting):
            assert await written == (number % PARTITIONS, number // PARTITIONS)
    return sent


async def read(client: LogClient) -> list[list[bytes | None]]:
    found: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
    places = [("t", partition) for partition in range(PARTITIONS)]
    until = dict.fromkeys(places, RECORDS // PARTITIONS)
    async with Consumer(client, dict.fromkeys(places, "beginning"), until=until) as consumer:
        async for _, partition, records in consumer:
            assert [record.offset for record in records] == list(
                range(len(found[partition]), len(found[partition]) + len(records))
            )
            found[partition] += [record.value for record in records]
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
            sent, found, _ = await asyncio.wait_for(
                asyncio.gather(write(writer, progress), read(reader), hurt(log, watcher, progress)), PATIENCE_S
            )
            assert found == sent

    with real_log(tmp_path, brokers=3) as log:
        uvloop.run(main(log))
