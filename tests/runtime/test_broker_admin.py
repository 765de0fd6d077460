"""Topic administration by real admin clients, and in every version by hand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
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
from kafka.admin import KafkaAdminClient  # type: ignore[import-untyped]
from kafka.admin import NewTopic as OtherNewTopic

from octoloom.core.topic_admin import OFFSETS_TOPIC, SETTINGS
from octoloom.wire.kafka.apis import SERVED, Api
from octoloom.wire.kafka.errors import ErrorCode
from tests.runtime.inner_log import InnerLog, inner_log, line
from tests.waiting import PATIENCE_S

TIMEOUT = timedelta(seconds=PATIENCE_S)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InnerLog]:
    with inner_log(tmp_path_factory.mktemp("log"), brokers=3) as made:
        yield made


@pytest.fixture
def admin(log: InnerLog) -> AdminClient:
    return AdminClient({"bootstrap.servers": log.address})


def outcome(futures: Any) -> dict[str, int]:
    """The error code of each, by name; 0 if it worked."""
    codes = {}
    for key, future in futures.items():
        name = key if isinstance(key, str) else str(getattr(key, "name", key))
        try:
            future.result(PATIENCE_S)
            codes[name] = 0
        except KafkaException as error:
            codes[name] = error.args[0].code()
    return codes


def test_topics_are_made_grown_and_deleted(admin: AdminClient) -> None:
    wishes = [
        NewTopic("plain", -1, -1),
        NewTopic("wide", 5, 2, config={"retention.ms": "60000"}),
        NewTopic("b?d", 1, 1),
        NewTopic("many", 1, 9),
        NewTopic("odd", 1, 1, config={"no.such": "1"}),
        NewTopic(OFFSETS_TOPIC, 1, 1),
        NewTopic("placed", 2, replica_assignment=[[1], [2]]),
    ]
    assert outcome(admin.create_topics(wishes)) == {
        "plain": 0,
        "wide": 0,
        "b?d": ErrorCode.INVALID_TOPIC,
        "many": ErrorCode.INVALID_REPLICATION_FACTOR,
        "odd": ErrorCode.INVALID_CONFIG,
        OFFSETS_TOPIC: ErrorCode.INVALID_TOPIC,
        "placed": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    }
    assert outcome(admin.create_topics([NewTopic("plain", 1, 1)])) == {"plain": ErrorCode.TOPIC_ALREADY_EXISTS}
    assert outcome(admin.create_topics([NewTopic("later", 1, 1)], validate_only=True)) == {"later": 0}
    seen = admin.list_topics(timeout=PATIENCE_S)
    assert (len(seen.topics["wide"].partitions), "later" in seen.topics) == (5, False)
    assert [len(part.replicas) for part in seen.topics["wide"].partitions.values()] == [2] * 5
    grown = admin.create_partitions([NewPartitions("wide", 7), NewPartitions("plain", 1), NewPartitions("none", 3)])
    assert outcome(grown) == {
        "wide": 0,
        "plain": ErrorCode.INVALID_PARTITIONS,
        "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert len(admin.list_topics(timeout=PATIENCE_S).topics["wide"].partitions) == 7
    assert outcome(admin.delete_topics(["plain", "wide", "none", OFFSETS_TOPIC])) == {
        "plain": 0,
        "wide": 0,
        "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        OFFSETS_TOPIC: ErrorCode.INVALID_TOPIC,
    }
    assert "wide" not in admin.list_topics(timeout=PATIENCE_S).topics


def test_settings_are_shown_and_changed(admin: AdminClient) -> None:
    outcome(admin.create_topics([NewTopic("tuned", 1, 3, config={"retention.ms": "60000"})]))
    resource = ConfigResource(ResourceType.TOPIC, "tuned")

    def shown() -> dict[str, Any]:
        [future] = admin.describe_configs([resource]).values()
        entries: dict[str, Any] = future.result(PATIENCE_S)
        return entries

    before = shown()
    assert set(SETTINGS) <= set(before)
    assert (before["retention.ms"].value, before["retention.ms"].is_default) == ("60000", False)
    assert (before["segment.bytes"].value, before["segment.bytes"].is_default) == ("134217728", True)
    assert before["cleanup.policy"].is_read_only
    changes = [
        ConfigEntry("retention.ms", "", incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("segment.bytes", "1000000", incremental_operation=AlterConfigOpType.SET),
    ]
    change = ConfigResource(ResourceType.TOPIC, "tuned", incremental_configs=changes)
    assert list(outcome(admin.incremental_alter_configs([change])).values()) == [0]
    after = shown()
    assert (after["retention.ms"].value, after["segment.bytes"].value) == ("604800000", "1000000")
    for name, value in (("retention.ms", "soon"), ("no.such", "1")):
        wrong = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)]
        change = ConfigResource(ResourceType.TOPIC, "tuned", incremental_configs=wrong)
        codes = list(outcome(admin.incremental_alter_configs([change])).values())
        assert codes == [ErrorCode.INVALID_CONFIG]
    assert {name: entry.value for name, entry in shown().items()} == {name: e.value for name, e in after.items()}
    [missing] = outcome(admin.describe_configs([ConfigResource(ResourceType.TOPIC, "none")])).values()
    assert missing == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    [future] = admin.describe_configs([ConfigResource(ResourceType.BROKER, "2")]).values()
    assert future.result(PATIENCE_S)["broker.id"].value == "2"


def test_records_are_deleted_up_to_an_offset(log: InnerLog, admin: AdminClient) -> None:
    outcome(admin.create_topics([NewTopic("trimmed", 1, 3)]))
    producer = Producer({"bootstrap.servers": log.address, "linger.ms": 0, "batch.num.messages": 1})
    for number in range(20):
        producer.produce("trimmed", str(number))
        producer.flush(PATIENCE_S)
    [future] = admin.delete_records([TopicPartition("trimmed", 0, 7)]).values()
    assert future.result(PATIENCE_S).low_watermark == 7
    earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    [future] = admin.list_offsets({TopicPartition("trimmed", 0): earliest}).values()
    assert future.result(PATIENCE_S).offset == 7
    [code] = outcome(admin.delete_records([TopicPartition("trimmed", 0, 50)])).values()
    assert code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_cluster_is_described(log: InnerLog, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(PATIENCE_S)
    assert sorted(node.id for node in cluster.nodes) == [1, 2, 3]
    assert cluster.controller.id == 1


def test_kafka_python_administers_too(log: InnerLog) -> None:
    admin = KafkaAdminClient(bootstrap_servers=log.address)
    admin.create_topics([OtherNewTopic("python", 3, 2)])
    assert "python" in admin.list_topics()
    [described] = admin.describe_topics(["python"])
    assert len(described["partitions"]) == 3
    admin.delete_topics(["python"])
    assert "python" not in admin.list_topics()
    admin.close()


def versions(api: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", range(SERVED[api].first, SERVED[api].last + 1))


@versions(Api.CREATE_TOPICS)
def test_create_topics_in_every_version(log: InnerLog, version: int) -> None:
    topic = {
        "name": f"made{version}",
        "num_partitions": 2,
        "replication_factor": 3,
        "assignments": [],
        "configs": [{"name": "retention.ms", "value": "5000"}],
    }
    twice = {**topic, "name": "twice"}
    nothing = {**topic, "name": "nothing", "num_partitions": 0}
    valueless = {**topic, "name": "valueless", "configs": [{"name": "retention.ms", "value": None}]}
    with line(log.address_of(2)) as broker:
        answer = broker.say(
            Api.CREATE_TOPICS, version, topics=[topic, twice, twice, nothing, valueless], timeout=TIMEOUT
        )
        good, one, other, none, bad = answer.topics
        assert (good.name, good.error_code) == (f"made{version}", 0)
        assert one.error_code == other.error_code == ErrorCode.INVALID_REQUEST
        assert none.error_code == ErrorCode.INVALID_PARTITIONS
        assert bad.error_code == ErrorCode.INVALID_CONFIG
        if version >= 5:
            assert (good.num_partitions, good.replication_factor) == (2, 3)
            assert {config.name: config.value for config in good.configs}["retention.ms"] == "5000"
            assert none.configs is None
        if version >= 7:
            assert good.topic_id is not None


@versions(Api.DELETE_TOPICS)
def test_delete_topics_in_every_version(log: InnerLog, admin: AdminClient, version: int) -> None:
    outcome(admin.create_topics([NewTopic(f"gone{version}", 1, 1)]))
    with line(log.address_of(3)) as broker:
        names = [f"gone{version}", "never"]
        answer = broker.say(Api.DELETE_TOPICS, version, topic_names=names, timeout=TIMEOUT)
    codes = {result.name: result.error_code for result in answer.responses}
    assert codes == {f"gone{version}": 0, "never": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@versions(Api.CREATE_PARTITIONS)
def test_create_partitions_in_every_version(log: InnerLog, admin: AdminClient, version: int) -> None:
    name = f"grown{version}"
    outcome(admin.create_topics([NewTopic(name, 1, 1)]))
    with line(log.address_of(1)) as broker:
        grow = {"name": name, "count": 3, "assignments": None}
        placed = {"name": "placed", "count": 3, "assignments": [{"broker_ids": [1]}]}
        for dry, count in ((True, 1), (False, 3)):
            values = {"topics": [grow, placed], "timeout": TIMEOUT, "validate_only": dry}
            good, bad = broker.say(Api.CREATE_PARTITIONS, version, **values).results
            assert (good.error_code, bad.error_code) == (0, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
            assert len(log.call(lambda: log.brokers[1].state.directory.partitions(name))) == count


@versions(Api.DELETE_RECORDS)
def test_delete_records_in_every_version(log: InnerLog, version: int) -> None:
    with line(log.address_of(1)) as broker:
        topics = [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in ("no", OFFSETS_TOPIC)]
        unknown, own = broker.say(Api.DELETE_RECORDS, version, topics=topics, timeout=TIMEOUT).topics
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert own.partitions[0].error_code == ErrorCode.INVALID_TOPIC


@versions(Api.DESCRIBE_CONFIGS)
def test_describe_configs_in_every_version(log: InnerLog, admin: AdminClient, version: int) -> None:
    name = f"shown{version}"
    outcome(admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "77"})]))
    some = {"resource_type": 2, "resource_name": name, "configuration_keys": ["retention.ms", "segment.bytes"]}
    every = {**some, "configuration_keys": None}
    other = {"resource_type": 4, "resource_name": "2", "configuration_keys": None}
    strange = {"resource_type": 8, "resource_name": "1", "configuration_keys": None}
    wish = {"include_synonyms": True, "include_documentation": True}
    with line(log.address_of(1)) as broker:
        answer = broker.say(Api.DESCRIBE_CONFIGS, version, resources=[some, every, other, strange], **wish)
    few, full, elsewhere, unknown = answer.results
    values = {config.name: (config.value, config.config_source) for config in few.configs}
    assert values == {"retention.ms": ("77", 1), "segment.bytes": ("134217728", 5)}
    assert set(SETTINGS) < {config.name for config in full.configs}
    assert elsewhere.error_code == unknown.error_code == ErrorCode.INVALID_REQUEST
    assert [synonym.value for synonym in few.configs[0].synonyms] == [few.configs[0].value]
    if version >= 3:
        assert all(config.documentation for config in few.configs)


@versions(Api.INCREMENTAL_ALTER_CONFIGS)
def test_alter_configs_in_every_version(log: InnerLog, admin: AdminClient, version: int) -> None:
    name = f"altered{version}"
    outcome(admin.create_topics([NewTopic(name, 1, 1)]))

    def resource(kind: int, topic: str, *configs: tuple[str, int, str | None]) -> dict[str, Any]:
        listed = [{"name": key, "config_operation": how, "value": value} for key, how, value in configs]
        return {"resource_type": kind, "resource_name": topic, "configs": listed}

    wishes = [
        resource(2, name, ("retention.ms", 0, "99")),
        resource(2, name, ("cleanup.policy", 2, "delete")),
        resource(2, name, ("retention.ms", 0, None)),
        resource(2, name, ("retention.ms", 0, "1"), ("retention.ms", 1, None)),
        resource(2, "none", ("retention.ms", 0, "1")),
        resource(2, OFFSETS_TOPIC, ("retention.ms", 0, "1")),
        resource(4, "1", ("retention.ms", 0, "1")),
    ]
    with line(log.address_of(1)) as broker:
        dry = broker.say(Api.INCREMENTAL_ALTER_CONFIGS, version, resources=wishes, validate_only=True)
        assert "retention.ms" not in log.call(lambda: log.brokers[1].state.directory.topics[name].config)
        wet = broker.say(Api.INCREMENTAL_ALTER_CONFIGS, version, resources=wishes, validate_only=False)
    for answer in (dry, wet):
        assert [each.error_code for each in answer.responses] == [
            0,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_TOPIC,
            ErrorCode.INVALID_REQUEST,
        ]
    assert log.call(lambda: log.brokers[1].state.directory.topics[name].config)["retention.ms"] == "99"


@versions(Api.ALTER_CONFIGS)
def test_older_clients_replace_all_settings(log: InnerLog, admin: AdminClient, version: int) -> None:
    name = f"replaced{version}"
    outcome(admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "5", "segment.bytes": "65536"})]))

    def resource(topic: str, **settings: str | None) -> dict[str, Any]:
        configs = [{"name": key.replace("_", "."), "value": value} for key, value in settings.items()]
        return {"resource_type": 2, "resource_name": topic, "configs": configs}

    wishes = [
        resource(name, retention_ms="7", max_message_bytes="5000"),
        resource(name, retention_ms=None),
        resource(name, no_such="1"),
        resource("none", retention_ms="7"),
    ]
    codes = [0, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_CONFIG, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    for dry, after in ((True, {"retention.ms": "5", "segment.bytes": "65536"}), (False, None)):
        with line(log.address_of(1)) as broker:
            answer = broker.say(Api.ALTER_CONFIGS, version, resources=wishes, validate_only=dry)
        assert [each.error_code for each in answer.responses] == codes
        expected = {"min.insync.replicas": "1", **(after or {"retention.ms": "7", "max.message.bytes": "5000"})}
        assert log.call(lambda: log.brokers[1].state.directory.topics[name].config) == expected


@versions(Api.DESCRIBE_CLUSTER)
def test_describe_cluster_in_every_version(log: InnerLog, version: int) -> None:
    with line(log.address_of(2)) as broker:
        answer = broker.say(Api.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=False)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "octoloom", 1)
    assert sorted(each.broker_id for each in answer.brokers) == [1, 2, 3]


def test_without_a_register_topics_cannot_be_made_and_that_is_said(tmp_path: Path) -> None:
    with inner_log(tmp_path) as log:
        log.run(log.register.stop())
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        with line(log.address_of(1)) as broker:
            [result] = broker.say(Api.CREATE_TOPICS, 7, topics=[topic], timeout=timedelta(seconds=1)).topics
        assert result.error_code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
        assert "register" in result.error_message
