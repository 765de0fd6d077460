"""confluent-kafka, which is librdkafka: the client that most of Kafka's clients are built on."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.clients.cluster import SESSION_MS, Cluster, Note, numbered
from tests.clients.groups import PARTITIONS, POLL_S, Member, joined, play_group, read, write
from tests.clients.speakers import Confluent
from tests.waiting import PATIENCE_S


def admin_of(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.register})


def result_of(futures: Any) -> Any:
    [future] = futures.values()
    return future.result(PATIENCE_S)


@pytest.mark.parametrize("where", ["brokers", "register"])
def test_metadata(cluster: Cluster, where: str) -> None:
    topic = cluster.topic(partitions=3)
    admin = AdminClient({"bootstrap.servers": getattr(cluster, where)})
    seen: Any = admin.list_topics(timeout=PATIENCE_S)
    assert sorted(seen.brokers) == [1, 2, 3]
    assert (seen.controller_id in seen.brokers, seen.cluster_id) == (True, "octoloom")
    partitions = seen.topics[topic].partitions
    assert sorted(partitions) == [0, 1, 2]
    assert {part.leader for part in partitions.values()} == {1, 2, 3}
    assert all(sorted(part.replicas) == [1, 2, 3] and part.leader in part.isrs for part in partitions.values())
    missing: Any = admin.list_topics("nowhere", timeout=PATIENCE_S).topics["nowhere"]
    assert missing.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_headers_and_times_come_back_as_they_were(cluster: Cluster) -> None:
    topic = cluster.topic()
    headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("a", b""), ("none", None), ("\u00fc", bytes(range(256)))]
    producer = Producer({"bootstrap.servers": cluster.brokers})
    producer.produce(topic, b"", b"", 0, timestamp=1_700_000_000_123, headers=headers)  # type: ignore[arg-type]
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({"bootstrap.servers": cluster.brokers, "group.id": "nobody"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert (message.key(), message.value(), message.headers()) == (b"", b"", headers)
    assert message.timestamp()[1] == 1_700_000_000_123
    consumer.close()


def test_records_are_found_by_their_time(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = Producer({"bootstrap.servers": cluster.brokers, "enable.idempotence": True, "linger.ms": 20})
    for number in range(10):
        producer.produce(topic, b"%d" % number, None, 0, timestamp=1_000_000 + number * 1000)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({"bootstrap.servers": cluster.brokers, "group.id": "nobody"})

    def offset_at(time_ms: int) -> int:
        [found] = consumer.offsets_for_times([TopicPartition(topic, 0, time_ms)], PATIENCE_S)
        return int(found.offset)

    assert [offset_at(time) for time in (0, 1_003_000, 1_003_001)] == [0, 3, 4]
    assert offset_at(2_000_000) == -1
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_S) == (0, 10)
    consumer.assign([TopicPartition(topic, 0, offset_at(1_006_500))])
    values = [message.value() for message in consumer.consume(3, PATIENCE_S)]
    assert values == numbered(7, 3)
    consumer.close()


class ConfluentMember(Member):
    strategy = "range"

    def open(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 300,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": self.strategy,
        }
        self._consumer = Consumer(settings)
        self._consumer.subscribe([self.topic])

    def poll(self) -> tuple[set[int], list[bytes]]:
        messages = self._consumer.consume(100, POLL_S)
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
        if messages:
            self._consumer.commit(asynchronous=False)
        return {part.partition for part in self._consumer.assignment()}, [m.value() for m in messages]  # type: ignore[misc]

    def close(self) -> None:
        self._consumer.close()


class CooperativeMember(ConfluentMember):
    strategy = "cooperative-sticky"


@pytest.mark.parametrize("join", [ConfluentMember, CooperativeMember])
def test_a_group_shares_a_topic_and_remembers_where_it_was(cluster: Cluster, join: type[Member]) -> None:
    group = play_group(cluster, join)
    admin = admin_of(cluster)
    assert group in [each.group_id for each in admin.list_consumer_groups().result(PATIENCE_S).valid]
    described = result_of(admin.describe_consumer_groups([group]))
    assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])
    wish = [ConsumerGroupTopicPartitions(group)]
    committed = result_of(admin.list_consumer_group_offsets(wish)).topic_partitions
    assert sorted(part.offset for part in committed) == [32] * 4
    changed = ConsumerGroupTopicPartitions(group, [TopicPartition(part.topic, part.partition, 5) for part in committed])
    result_of(admin.alter_consumer_group_offsets([changed]))
    committed = result_of(admin.list_consumer_group_offsets(wish)).topic_partitions
    assert [part.offset for part in committed] == [5] * 4
    assert result_of(admin.delete_consumer_groups([group])) is None
    assert group not in [each.group_id for each in admin.list_consumer_groups().result(PATIENCE_S).valid]


def test_what_a_group_committed_outlives_its_coordinator(cluster: Cluster) -> None:
    admin, topic, group = admin_of(cluster), cluster.topic(PARTITIONS), cluster.name("group")
    write(cluster, topic, numbered(0, 40))
    with joined(ConfluentMember, cluster, group, topic) as ada:
        assert read(ada) == numbered(0, 40)
        cluster.restart(result_of(admin.describe_consumer_groups([group])).coordinator.id)
        write(cluster, topic, numbered(40, 40))
        assert read(ada, count=80) == numbered(0, 80)
    write(cluster, topic, numbered(80, 8))
    with joined(ConfluentMember, cluster, group, topic) as eve:
        assert read(eve, count=8) == numbered(80, 8)


def test_topics_are_administered(cluster: Cluster) -> None:
    admin, topic = admin_of(cluster), cluster.name("topic")
    result_of(admin.create_topics([NewTopic(topic, 2, 3, config={"retention.ms": "60000"})]))
    with pytest.raises(KafkaException) as refused:
        result_of(admin.create_topics([NewTopic(topic, 2, 3)]))
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    result_of(admin.create_partitions([NewPartitions(topic, 4)]))
    assert len(admin.list_topics(timeout=PATIENCE_S).topics[topic].partitions) == 4
    resource = ConfigResource(ResourceType.TOPIC, topic)
    assert result_of(admin.describe_configs([resource]))["retention.ms"].value == "60000"
    entry = ConfigEntry("segment.bytes", "65536", incremental_operation=AlterConfigOpType.SET)
    result_of(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]))
    found = result_of(admin.describe_configs([resource]))
    assert [found[name].value for name in ("segment.bytes", "retention.ms")] == ["65536", "60000"]
    Confluent().write(cluster.brokers, topic, 0, "none", [Note(None, value) for value in numbered(0, 10)])
    assert result_of(admin.delete_records([TopicPartition(topic, 0, 4)])).low_watermark == 4
    earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    assert result_of(admin.list_offsets({TopicPartition(topic, 0): earliest})).offset == 4
    result_of(admin.delete_topics([topic]))
    assert topic not in admin.list_topics(timeout=PATIENCE_S).topics
    described = admin.describe_cluster().result(PATIENCE_S)
    assert sorted(node.id for node in described.nodes) == [1, 2, 3]
