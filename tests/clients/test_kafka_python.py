"""kafka-python, the oldest of the clients in Python, rewritten in its third version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]
from kafka.admin import ConfigResource, ConfigResourceType  # type: ignore[import-untyped]
from kafka.errors import NoError, OffsetOutOfRangeError, TopicAlreadyExistsError  # type: ignore[import-untyped]
from kafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]

from tests.clients.cluster import SESSION_MS, Cluster, Note, numbered
from tests.clients.groups import POLL_S, Member, play_group
from tests.clients.speakers import Python
from tests.waiting import PATIENCE_S

PATIENCE_MS = PATIENCE_S * 1000


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.register)
    yield client
    client.close()


@pytest.fixture
def consumer(cluster: Cluster) -> Iterator[KafkaConsumer]:
    """One that has no group, and fails where an offset is not there."""
    client = KafkaConsumer(bootstrap_servers=cluster.brokers, auto_offset_reset="none", consumer_timeout_ms=PATIENCE_MS)
    yield client
    client.close()


@pytest.mark.parametrize("where", ["brokers", "register"])
def test_metadata(cluster: Cluster, where: str) -> None:
    topic = cluster.topic(partitions=3)
    client = KafkaConsumer(bootstrap_servers=getattr(cluster, where))
    assert topic in client.topics()
    assert client.partitions_for_topic(topic) == {0, 1, 2}
    assert not client.partitions_for_topic("nowhere")
    client.close()


def test_headers_and_times_come_back_as_they_were(cluster: Cluster, consumer: KafkaConsumer) -> None:
    topic = cluster.topic()
    headers = [("a", b"1"), ("a", b""), ("\u00fc", bytes(range(256)))]
    producer = KafkaProducer(bootstrap_servers=cluster.brokers)
    producer.send(topic, b"", b"", headers, 0, 1_700_000_000_123).get(PATIENCE_S)
    producer.close()
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    record = next(consumer)
    assert (record.key, record.value, list(record.headers)) == (b"", b"", headers)
    assert record.timestamp == 1_700_000_000_123


def test_records_are_found_by_their_time_and_offset(cluster: Cluster, consumer: KafkaConsumer) -> None:
    topic = cluster.topic()
    where = TopicPartition(topic, 0)
    producer = KafkaProducer(bootstrap_servers=cluster.brokers, enable_idempotence=True, acks="all")
    for number in range(10):
        producer.send(topic, b"%d" % number, None, None, 0, 1_000_000 + number * 1000)
    producer.close()
    consumer.assign([where])
    found = [consumer.offsets_for_times({where: time})[where] for time in (0, 1_003_000, 1_003_001, 2_000_000)]
    assert [each and each.offset for each in found] == [0, 3, 4, None]
    assert consumer.beginning_offsets([where]) == {where: 0}
    assert consumer.end_offsets([where]) == {where: 10}
    consumer.seek(where, 7)
    assert [next(consumer).value for _ in range(3)] == numbered(7, 3)
    consumer.seek(where, 11)
    with pytest.raises(OffsetOutOfRangeError):
        next(consumer)


class PythonMember(Member):
    def open(self) -> None:
        self._consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    def poll(self) -> tuple[set[int], list[bytes]]:
        batches = self._consumer.poll(POLL_S * 1000)
        if batches:
            self._consumer.commit()
        assigned = {part.partition for part in self._consumer.assignment()}
        return assigned, [record.value for records in batches.values() for record in records]

    def close(self) -> None:
        self._consumer.close()


def test_a_group_shares_a_topic_and_remembers_where_it_was(cluster: Cluster, admin: KafkaAdminClient) -> None:
    group = play_group(cluster, PythonMember)
    assert group in [each["group_id"] for each in admin.list_groups()]
    described = admin.describe_groups([group])[group]
    assert (described["group_state"], described["members"]) == ("Empty", [])
    committed = admin.list_group_offsets([group])[group]
    assert sorted(each.offset for each in committed.values()) == [32] * 4
    changed = admin.alter_group_offsets(group, {part: OffsetAndMetadata(5, "back", -1) for part in committed})
    assert set(changed.values()) == {NoError}
    committed = admin.list_group_offsets([group])[group]
    assert [(each.offset, each.metadata) for each in committed.values()] == [(5, "back")] * 4
    admin.delete_groups([group])
    assert group not in [each["group_id"] for each in admin.list_groups()]


def test_topics_are_administered(cluster: Cluster, admin: KafkaAdminClient) -> None:
    topic = cluster.name("topic")
    new = {topic: {"num_partitions": 2, "replication_factor": 3, "configs": {"retention.ms": "60000"}}}
    admin.create_topics(new, wait_for_metadata=True)
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics(new)
    admin.create_partitions({topic: 4})

    def parts() -> list[int]:
        [described] = admin.describe_topics([topic])
        return sorted(part["partition_index"] for part in described["partitions"])

    assert parts() == [0, 1, 2, 3]
    assert topic in admin.list_topics()

    def settings() -> dict[str, str]:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
        return {name: config["value"] for name, config in found.items()}

    assert settings() == {"retention.ms": "60000", "min.insync.replicas": "2"}
    for incremental, value in ((True, "65536"), (False, "131072")):
        change = ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.bytes": value})
        assert admin.alter_configs([change], incremental=incremental) == {"topic": {topic: "OK"}}
        assert settings() == {"retention.ms": "60000", "min.insync.replicas": "2", "segment.bytes": value}
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["segment.bytes"])])
    assert "segment.bytes" not in settings()
    Python().write(cluster.brokers, topic, 0, "none", [Note(None, value) for value in numbered(0, 10)])
    where = TopicPartition(topic, 0)
    assert admin.delete_records({where: 4})[where]["low_watermark"] == 4
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    seen = admin.describe_cluster()
    assert sorted(each["broker_id"] for each in seen["brokers"]) == [1, 2, 3]
