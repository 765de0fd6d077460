"""aiokafka, a client of its own for asyncio: another codec, another group protocol, another way to administer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete  # type: ignore[import-untyped]
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType  # type: ignore[import-untyped]
from aiokafka.errors import OffsetOutOfRangeError, for_code  # type: ignore[import-untyped]
from aiokafka.structs import TopicPartition  # type: ignore[import-untyped]

from tests.clients.cluster import SESSION_MS, Cluster, Note, numbered
from tests.clients.groups import POLL_S, Member, play_group
from tests.clients.speakers import Aio
from tests.waiting import STORY_S


def play(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), STORY_S))


@pytest.mark.parametrize("where", ["brokers", "register"])
def test_metadata(cluster: Cluster, where: str) -> None:
    topic = cluster.topic(partitions=3)

    async def look() -> None:
        async with AIOKafkaConsumer(topic, bootstrap_servers=getattr(cluster, where)) as consumer:
            assert consumer.partitions_for_topic(topic) == {0, 1, 2}
            assert topic in await consumer.topics()
            assert consumer.partitions_for_topic("nowhere") is None
            known = consumer._client.cluster
            assert {broker.nodeId for broker in known.brokers()} == {1, 2, 3}
            assert {known.leader_for_partition(TopicPartition(topic, each)) for each in range(3)} == {1, 2, 3}

    play(look)


def test_headers_and_times_come_back_as_they_were(cluster: Cluster) -> None:
    topic = cluster.topic()
    headers = (("a", b"1"), ("a", b""), ("\u00fc", bytes(range(256))))

    async def talk() -> None:
        async with AIOKafkaProducer(bootstrap_servers=cluster.brokers) as producer:
            await producer.send_and_wait(topic, b"", b"", 0, 1_700_000_000_123, headers=list(headers))
        async with AIOKafkaConsumer(bootstrap_servers=cluster.brokers) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek_to_beginning()
            record = await consumer.getone()
            assert (record.key, record.value, record.headers) == (b"", b"", headers)
            assert record.timestamp == 1_700_000_000_123

    play(talk)


def test_records_are_found_by_their_time_and_offset(cluster: Cluster) -> None:
    topic = cluster.topic()
    where = TopicPartition(topic, 0)

    async def talk() -> None:
        async with AIOKafkaProducer(bootstrap_servers=cluster.brokers, enable_idempotence=True) as producer:
            for number in range(10):
                await producer.send(topic, b"%d" % number, None, 0, 1_000_000 + number * 1000)
        async with AIOKafkaConsumer(bootstrap_servers=cluster.brokers, auto_offset_reset="none") as consumer:
            consumer.assign([where])
            found = [await consumer.offsets_for_times({where: time}) for time in (0, 1_003_000, 1_003_001, 2_000_000)]
            assert [each[where].offset if each[where] else None for each in found] == [0, 3, 4, None]
            assert await consumer.beginning_offsets([where]) == {where: 0}
            assert await consumer.end_offsets([where]) == {where: 10}
            consumer.seek(where, 7)
            assert [(await consumer.getone()).value for _ in range(3)] == numbered(7, 3)
            consumer.seek(where, 11)
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.getone()

    play(talk)


class AioMember(Member):
    def open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        self._consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await self._consumer.start()

    def poll(self) -> tuple[set[int], list[bytes]]:
        return self._loop.run_until_complete(self._poll())

    async def _poll(self) -> tuple[set[int], list[bytes]]:
        batches = await self._consumer.getmany(timeout_ms=int(POLL_S * 1000))
        if batches:
            await self._consumer.commit()
        assigned = {part.partition for part in self._consumer.assignment()}
        return assigned, [record.value for records in batches.values() for record in records]

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


def test_a_group_shares_a_topic_and_remembers_where_it_was(cluster: Cluster) -> None:
    group = play_group(cluster, AioMember)

    async def look() -> None:
        async with administering(cluster) as admin:
            assert (group, "consumer") in [tuple(each[:2]) for each in await admin.list_consumer_groups()]
            [answer] = await admin.describe_consumer_groups([group])
            [described] = answer.to_object()["groups"]
            assert (described["group"], described["state"], described["members"]) == (group, "Empty", [])
            committed = await admin.list_consumer_group_offsets(group)
            assert sorted(each.offset for each in committed.values()) == [32] * 4

    play(look)


class administering:  # noqa: N801
    """The admin client as a context: it has none of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def __aenter__(self) -> AIOKafkaAdminClient:
        self._admin = AIOKafkaAdminClient(bootstrap_servers=self._cluster.register)
        await self._admin.start()
        return self._admin

    async def __aexit__(self, *_: object) -> None:
        await self._admin.close()


def test_topics_are_administered(cluster: Cluster) -> None:
    topic = cluster.name("topic")
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)

    async def administer() -> None:
        async with administering(cluster) as admin:
            new = NewTopic(topic, 2, 3, topic_configs={"retention.ms": "60000"})
            made = [await admin.create_topics([new]) for _ in range(2)]
            errors = [for_code(answer.topic_errors[0][1]).__name__ for answer in made]
            assert errors == ["NoError", "TopicAlreadyExistsError"]
            await admin.create_partitions({topic: NewPartitions(4)})
            [described] = await admin.describe_topics([topic])
            assert sorted(part["partition"] for part in described["partitions"]) == [0, 1, 2, 3]
            assert topic in await admin.list_topics()
            change = ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.bytes": "65536"})
            [answer] = await admin.alter_configs([change])
            assert [each[0] for each in answer.resources] == [0]
            [answer] = await admin.describe_configs([resource])
            found = {each[0]: each[1] for each in answer.resources[0][4]}
            settings = [found[name] for name in ("segment.bytes", "retention.ms", "min.insync.replicas")]
            assert settings == ["65536", "604800000", "2"]
            cluster_seen = await admin.describe_cluster()
            assert sorted(each["node_id"] for each in cluster_seen["brokers"]) == [1, 2, 3]

    async def delete() -> None:
        async with administering(cluster) as admin:
            where = TopicPartition(topic, 0)
            assert await admin.delete_records({where: RecordsToDelete(before_offset=4)}) == {where: 4}
            assert for_code((await admin.delete_topics([topic])).topic_error_codes[0][1]).__name__ == "NoError"
            assert topic not in await admin.list_topics()

    play(administer)
    Aio().write(cluster.brokers, topic, 0, "none", [Note(None, value) for value in numbered(0, 10)])
    play(delete)
