"""What the tests of the sink share: rows, and a Kafka consumer that tells what is in a topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.waiting import PATIENCE_S


class Found(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = -1


def read_topic(bootstrap: str, topic: str) -> dict[int, list[Found]]:
    """All records of every partition that has some, as librdkafka reads them."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "look", "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer({**settings, "enable.auto.commit": False, "check.crcs": True})
    try:
        partitions = list(consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        found: dict[int, list[Found]] = {}
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"nothing more came, and {len(ended)} of {len(partitions)} partitions ended"
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(partition)
                continue
            headers = tuple(message.headers() or ())
            one = Found(message.key(), message.value(), headers, message.timestamp()[1])  # type: ignore[arg-type]
            found.setdefault(partition, []).append(one)
        return found
    finally:
        consumer.close()


def values_in(bootstrap: str, topic: str) -> dict[int, list[bytes | None]]:
    return {number: [each.value for each in records] for number, records in read_topic(bootstrap, topic).items()}


def numbered(numbers: Iterable[int], size: int = 0) -> list[bytes]:
    """Values that tell their number, of at least this size."""
    return [b"%d" % number + b"." * (size - len(b"%d" % number)) for number in numbers]


def frame(values: list[bytes | None] | list[bytes], keys: list[bytes] | None = None) -> pa.RecordBatch:
    columns = {"value": pa.array(values, pa.binary())}
    if keys is not None:
        columns["key"] = pa.array(keys, pa.binary())
    return pa.RecordBatch.from_pydict(columns)
