"""Records as librdkafka writes and reads them, as rows that can be compared with what Spark reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_LOG_APPEND_TIME, Consumer, Producer, TopicPartition

from octoloom.wire.kafka.compression import CODECS
from tests.clients.cluster import Cluster
from tests.waiting import PATIENCE_S

QUIET: dict[str, Any] = {"log_level": 0, "error_cb": lambda _: None}
HEADERS: list[tuple[str, bytes | None]] = [("trace", b"7f"), ("trace", b""), ("none", None)]


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...]


def write(
    bootstrap: str, topic: str, partitions: int, count: int, codecs: Iterable[str] = CODECS, first_ms: int = 0
) -> None:
    """So many records per partition, of all kinds: keys and none, tombstones, headers and none, in every codec."""
    for number, codec in enumerate(codecs):
        settings = {"compression.type": codec, "linger.ms": 5, "batch.num.messages": 30}
        producer = Producer({"bootstrap.servers": bootstrap, **settings, **QUIET})
        for partition, each in itertools.product(range(partitions), range(count)):
            name = f"{codec}-{each}"
            producer.produce(
                topic,
                None if each % 5 == 3 else f"{name} ".encode() * (each % 7),
                None if each % 4 == 1 else name.encode(),
                partition,
                timestamp=first_ms + (number * count + each) * 1000 if first_ms else 0,
                headers=HEADERS if each % 3 == 2 else None,  # type: ignore[arg-type]  # a header may have no value
            )
        assert producer.flush(PATIENCE_S) == 0


def read(bootstrap: str, topic: str, partitions: int, count: int) -> list[Row]:
    """The first so many records of each partition, by partition and offset, as a consumer sees them."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "nobody", "auto.offset.reset": "earliest", **QUIET}
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    rows: list[Row] = []
    while len(rows) < partitions * count:
        found = consumer.consume(min(partitions * count - len(rows), 1000), PATIENCE_S)
        assert found, f"{len(rows)} of {partitions * count} records came"
        rows += [_row(message) for message in found]
    consumer.close()
    return sorted(rows)


def _row(message: Any) -> Row:
    assert message.error() is None
    kind, ms = message.timestamp()
    return Row(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        ms,
        int(kind == TIMESTAMP_LOG_APPEND_TIME),
        tuple(message.headers() or ()),
    )


def rows_of(tables: Iterable[Any]) -> list[Row]:
    """The same of Arrow tables or batches with all columns."""
    return sorted(
        Row(
            one["topic"],
            one["partition"],
            one["offset"],
            one["key"],
            one["value"],
            round(one["timestamp"].timestamp() * 1000),
            one["timestampType"],
            tuple((header["key"], header["value"]) for header in one["headers"] or ()),
        )
        for table in tables
        for one in table.to_pylist()
    )


def kill_leader(brokers: Cluster, topic: str, partition: int = 0) -> int:
    """Kills the broker that leads a partition, with -9, and tells our number of it."""
    number = brokers.log.at(brokers.address_of_leader(topic, partition))
    brokers.log.kill(number)
    return number


def revive(brokers: Cluster, number: int) -> None:
    """Starts a broker again where it was, and waits until the others know."""
    brokers.log.bring_back(number)
