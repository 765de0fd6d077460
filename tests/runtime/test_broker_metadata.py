"""Metadata, producer ids and the versions of APIs: what every client asks before it does anything."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from pathlib import Path

import pytest
import uvloop

from octoloom.core.topic_admin import OFFSETS_TOPIC
from octoloom.runtime.broker import BrokerServer
from octoloom.wire.kafka import client_messages as ask
from octoloom.wire.kafka.apis import ADVERTISED, SERVED, Api
from octoloom.wire.kafka.errors import ErrorCode
from tests.runtime.broker_world import FAST, Client, batch, with_settings, world
from tests.waiting import async_until as until


def test_metadata_names_brokers_leaders_and_replicas(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ["b1", "b2", "b3"]) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t", partitions=3)
            cluster = await client.metadata()
            assert sorted(f"{each.host}:{each.port}" for each in cluster.brokers.values()) == sorted(
                broker.address for broker in all_of_it.brokers.values()
            )
            assert cluster.controller in cluster.brokers
            partitions = cluster.topics["t"].partitions
            assert sorted(partitions) == [0, 1, 2]
            assert sorted(each.leader for each in partitions.values()) == [1, 2, 3]
            for number, each in partitions.items():
                leader = cluster.brokers[each.leader]
                assert all_of_it.led("t", number).address == f"{leader.host}:{leader.port}"
                assert sorted(each.replicas) == sorted(each.in_sync) == [1, 2, 3]

    uvloop.run(main())


@pytest.mark.parametrize("version", range(SERVED[Api.METADATA].last + 1))
def test_every_version_tells_the_same(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            names = [{"name": "t", "topic_id": None}]
            answers = [
                await client.ask_cold(
                    Api.METADATA,
                    version,
                    topics=names,
                    allow_auto_topic_creation=False,
                    include_cluster_authorized_operations=False,
                    include_topic_authorized_operations=False,
                )
                for _ in range(2)
            ]
            assert answers[0] == answers[1]  # the second one is a copy that was kept
            [topic] = answers[0].topics
            assert (topic.name, topic.partitions[0].leader_id) == ("t", 1)

    uvloop.run(main())


def test_what_is_kept_is_forgotten_when_the_directory_changes(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic("t")
            assert list((await client.metadata()).topics) == ["t"]
            await all_of_it.topic("u")
            assert list((await client.metadata()).topics) == ["t", "u"]

    uvloop.run(main())


async def may_create(client: Client, *topics: str) -> ask.Cluster:
    pieces = list(ask.encode_metadata(topics))
    pieces[-1] = b"\x01"
    return ask.read(ask.parse_metadata, await client.ask(Api.METADATA, pieces))


def test_a_topic_is_made_when_a_client_asks_for_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            assert (await client.metadata("new")).topics["new"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            async with Client.to(all_of_it.one.address) as other:
                answers = await asyncio.gather(may_create(client, "new"), may_create(other, "new"))
            for answer in answers:
                assert answer.topics["new"].error == 0
                assert answer.topics["new"].partitions[0].leader == 1
            assert (await may_create(client, "bad/name")).topics["bad/name"].error == ErrorCode.INVALID_TOPIC

    uvloop.run(main())


def test_no_topic_is_made_where_that_is_switched_off(tmp_path: Path) -> None:
    async def main() -> None:
        settings = with_settings(auto_create=False)
        async with world(tmp_path, settings=settings) as all_of_it, Client.to(all_of_it.one.address) as client:
            assert (await may_create(client, "new")).topics["new"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    uvloop.run(main())


def test_the_groups_topic_is_internal(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            await all_of_it.topic(OFFSETS_TOPIC)
            answer = await client.ask_cold(Api.METADATA, 7, topics=None, allow_auto_topic_creation=False)
            assert [(topic.name, topic.is_internal) for topic in answer.topics] == [(OFFSETS_TOPIC, True)]

    uvloop.run(main())


def test_a_partition_without_a_leader_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ["b1", "b2"]) as all_of_it:
            await all_of_it.topic("t", replicas=1)
            leader = all_of_it.led("t")
            [name] = [name for name, broker in all_of_it.brokers.items() if broker is leader]
            await all_of_it.brokers.pop(name).stop()
            rest = all_of_it.one
            await until(lambda: len(rest.state.directory.brokers) == 1)
            async with Client.to(rest.address) as client:
                partition = (await client.metadata("t")).topics["t"].partitions[0]
                assert (partition.error, partition.leader) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)

    uvloop.run(main())


def test_versions_are_told_and_an_unknown_version_is_answered_in_the_oldest_form(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            ranges = ask.read(ask.parse_api_versions, await client.ask(Api.API_VERSIONS, ()))
            assert ranges == ADVERTISED
            client.send(Api.API_VERSIONS, 99, (b"whatever follows",))
            answer = await client.receive()
            assert int.from_bytes(answer[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION
            assert (await client.metadata()).brokers

    uvloop.run(main())


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ["b1", "b2"]) as all_of_it:
            given: list[int] = []
            for broker in all_of_it.brokers.values():
                async with Client.to(broker.address) as client:
                    for _ in range(20):
                        client.send(Api.INIT_PRODUCER_ID, 1, ask.encode_init_producer())
                    for _ in range(20):
                        error, producer, epoch = ask.read(ask.parse_init_producer, await client.receive())
                        assert (error, epoch) == (0, 0)
                        given.append(producer)
            assert len(set(given)) == 40

    uvloop.run(main())


def test_a_transactional_id_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it, Client.to(all_of_it.one.address) as client:
            answer = await client.ask_cold(
                Api.INIT_PRODUCER_ID, 1, transactional_id="mine", transaction_timeout=timedelta(seconds=1)
            )
            assert answer.error_code.value == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    uvloop.run(main())


def test_a_broker_that_the_register_has_not_told_anything_keeps_clients_waiting(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it:
            await all_of_it.topic("t")
            silent = BrokerServer("b2", "127.0.0.1:1", tmp_path / "b2", settings=FAST)
            await silent.start()
            try:
                async with Client.to(silent.address) as client, Client.to(silent.address) as other:
                    asking = asyncio.create_task(client.metadata("t"))
                    # Whatever there may be, it is not this one's to say that there is none.
                    assert (await other.produce("t", batch(b"x"))).error == ErrorCode.NOT_LEADER
                    assert (await other.fetch("t")).error == ErrorCode.NOT_LEADER
                    assert not asking.done()
                    silent.state.directory.on_directory(all_of_it.register.log_directory())
                    silent._register.standing.on_heard(time.monotonic_ns() // 1_000_000, 3_600_000)
                    cluster = await asking
                    assert (sorted(cluster.brokers), cluster.topics["t"].error) == ([1], 0)
            finally:
                await silent.stop()

    uvloop.run(main())
