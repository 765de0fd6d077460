"""ListOffsets and OffsetForLeaderEpoch, in all versions that are served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import uvloop

from octoloom.wire.kafka.apis import SERVED, Api
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.records import Record, build_batch
from tests.runtime.broker_world import Client, world
from tests.waiting import async_until as until


def timed(*timestamps: int) -> bytes:
    return build_batch([Record(0, timestamp, None, b"v") for timestamp in timestamps])


async def list_one(client: Client, version: int, timestamp: int, epoch: int = -1, topic: str = "t") -> Any:
    part: dict[str, Any] = {"partition_index": 0, "timestamp": timestamp}
    if version >= 4:
        part["current_leader_epoch"] = epoch
    answer = await client.ask_cold(
        Api.LIST_OFFSETS, version, replica_id=-1, isolation_level=0, topics=[{"name": topic, "partitions": [part]}]
    )
    return answer.topics[0].partitions[0]


VERSIONS = range(SERVED[Api.LIST_OFFSETS].first, SERVED[Api.LIST_OFFSETS].last + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_by_end_and_by_time(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            await client.produce("t", timed(100, 200))
            await client.produce("t", timed(300, 250))
            cases = {-2: (-1, 0), -1: (-1, 4), 0: (100, 0), 150: (200, 1), 200: (200, 1), 201: (300, 2), 301: (-1, -1)}
            if version >= 7:
                cases[-3] = (300, 3)
            for timestamp, expected in cases.items():
                found = await list_one(client, version, timestamp)
                assert (found.error_code.value, found.timestamp, found.offset) == (0, *expected), timestamp
                if version >= 4 and expected[1] >= 0:
                    assert found.leader_epoch == 1

    uvloop.run(main())


def test_the_wrong_epoch_and_the_wrong_topic_are_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            assert (await list_one(client, 5, -1, epoch=0)).error_code.value == ErrorCode.FENCED_LEADER_EPOCH
            assert (await list_one(client, 5, -1, epoch=9)).error_code.value == ErrorCode.UNKNOWN_LEADER_EPOCH
            missing = await list_one(client, 5, -1, topic="none")
            assert missing.error_code.value == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    uvloop.run(main())


def test_a_leader_that_has_not_caught_up_with_its_beginning_asks_for_patience(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            await client.produce("t", timed(1))
            partition = all_of_it.one.core.partitions["t", 0]
            partition.settled_at = 2
            assert (await list_one(client, 5, -1)).error_code.value == ErrorCode.OFFSET_NOT_AVAILABLE
            assert (await list_one(client, 5, -2)).error_code.value == 0
            partition.settled_at = 1
            assert (await list_one(client, 5, -1)).offset == 1

    uvloop.run(main())


@pytest.mark.parametrize("version", [2, 3, 4])
def test_where_an_epoch_ended(tmp_path: Path, version: int) -> None:
    async def end_of(client: Client, epoch: int, current: int = 1) -> tuple[int, int, int]:
        part = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
        topics = [{"topic": "t", "partitions": [part]}]
        answer = await client.ask_cold(Api.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)
        found = answer.topics[0].partitions[0]
        return found.error_code.value, found.leader_epoch, found.end_offset

    async def main() -> None:
        async with world(tmp_path) as all_of_it:
            await all_of_it.topic("t")
            async with Client.to(all_of_it.one.address) as client:
                await client.produce("t", timed(1, 2))
                assert await end_of(client, 1) == (0, 1, 2)
                assert await end_of(client, 0) == (0, 0, 0)
                assert await end_of(client, 5) == (0, -1, -1)
                assert await end_of(client, 1, current=7) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
            # The broker's next life leads in another epoch.
            await all_of_it.brokers.pop("b1").stop()
            await all_of_it.add("b1")
            await until(lambda: all_of_it.leader("t") is not None)
            epoch = all_of_it.one.core.partitions["t", 0].state.epoch
            assert epoch > 1
            async with Client.to(all_of_it.one.address) as client:
                await client.produce("t", timed(3))
                assert await end_of(client, 1, current=epoch) == (0, 1, 2)
                assert await end_of(client, epoch, current=epoch) == (0, epoch, 3)

    uvloop.run(main())
