"""Consumer groups looked at from outside, on real brokers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import uvloop
from confluent_kafka import Consumer, TopicPartition

from octoloom.core.errors import UsageError
from octoloom.runtime import log_groups
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import UnknownGroup
from octoloom.runtime.log_group_consumer import GroupConsumer
from octoloom.runtime.log_groups import GroupPartition, describe_groups, list_groups, reset_group
from octoloom.runtime.log_producer import Producer
from tests.runtime.real_log import RealLog, real_log

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealLog]:
    with real_log(tmp_path_factory.mktemp("log"), brokers=3) as log:
        yield log


def commit(log: RealLog, group: str, topic: str, offset: int) -> None:
    """As somebody does who is in no group and only remembers there where he was."""
    consumer = Consumer({"bootstrap.servers": log.bootstrap, "group.id": group, "log_level": 2})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_groups_of_all_coordinators_are_found_with_what_they_lack(log: RealLog) -> None:
    names = [f"group-{number}" for number in range(12)]

    async def make() -> None:
        async with LogClient(log.bootstrap) as client:
            await client.create_topic("read", replicas=3)
            await client.create_topic("gone", replicas=3)
            async with Producer(client) as producer:
                await producer.send_many("read", [b"x"] * 5)

    async def look() -> None:
        async with LogClient(log.bootstrap) as client:
            assert set(names) <= set(await list_groups(client))
            found = [status for status in await describe_groups(client) if status.name in names]
            assert [status.name for status in found] == sorted(names)
            for status in found:
                at = int(status.name.removeprefix("group-"))
                lag = max(5 - at, 0)
                assert (status.state, status.lag, status.members) == ("Empty", lag, [])
                assert status.partitions == [GroupPartition("read", 0, at, 5, lag, "")]

    async def look_again() -> None:
        async with LogClient(log.bootstrap) as client:
            await client.delete_topic("gone")
            [status] = await describe_groups(client, ["group-3"])
            assert GroupPartition("read", 0, 3, 5, 2, "") in status.partitions
            assert status.lag == 2
            with pytest.raises(UnknownGroup, match="the consumer group nobody does not exist"):
                await describe_groups(client, ["group-3", "nobody"])

    uvloop.run(make())
    for at, name in enumerate(names):
        commit(log, name, "read", at)
    uvloop.run(look())
    commit(log, "group-3", "gone", 0)
    uvloop.run(look_again())


def test_the_groups_of_a_broker_that_died_are_told_of_by_the_next(log: RealLog) -> None:
    names = {f"heir-{number}" for number in range(12)}

    async def make() -> None:
        async with LogClient(log.bootstrap) as client:
            await client.create_topic("inherited", replicas=3)

    async def found() -> set[str]:
        async with LogClient(log.bootstrap) as client:
            return names & set(await list_groups(client))

    uvloop.run(make())
    for name in names:
        commit(log, name, "inherited", 0)
    assert uvloop.run(found()) == names
    log.kill(2)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while uvloop.run(found()) != names:
            assert time.monotonic() < deadline
    finally:
        log.bring_back(2)


def test_a_reset_that_a_member_forestalls_is_refused_by_the_coordinator(log: RealLog) -> None:
    """Somebody may join between the look and the commit."""

    async def story() -> None:
        async with LogClient(log.bootstrap) as client:
            await client.create_topic("joined", replicas=3)
            async with Producer(client) as producer:
                await producer.send_many("joined", [b"x"] * 5)
            async with GroupConsumer(client, "in-time", ["joined"]) as member:
                await anext(member)
                with pytest.raises(UsageError, match="the consumer group in-time has members"):
                    await reset_group(client, "in-time", "beginning")
                with pytest.raises(UsageError, match="the consumer group in-time has members"):
                    await log_groups._commit(client, "in-time", {("joined", 0): 0})
                await member.commit()
            assert await reset_group(client, "in-time", 2) == {("joined", 0): 2}
            [status] = await describe_groups(client, ["in-time"])
            assert status.lag == 3

    uvloop.run(story())
