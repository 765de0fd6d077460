"""Topics made, deleted and looked at. It is asked rarely, so it goes through kio's schemas, loaded when needed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
from kio.schema.create_topics.v4.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.create_topics.v4.response import CreateTopicsResponse
from kio.schema.delete_topics.v3.request import DeleteTopicsRequest
from kio.schema.delete_topics.v3.response import DeleteTopicsResponse
from kio.schema.describe_configs.v2.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v2.response import DescribeConfigsResponse
from kio.schema.types import TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta

from octoloom.core.errors import UsageError
from octoloom.runtime.backoff import Backoff
from octoloom.runtime.log_cluster import address_of
from octoloom.runtime.log_errors import LogError, TimedOut, error_of
from octoloom.runtime.log_questions import PATIENCE_S, ask_any
from octoloom.wire.kafka.client_messages import Topic
from octoloom.wire.kafka.errors import ErrorCode

if TYPE_CHECKING:
    from octoloom.runtime.log_client import LogClient

BOUNDS_MS = 2000
PARTITIONS_MAX = 10_000
REPLICAS_MAX = 100
_TOPIC = i8(2)


class PartitionStatus(msgspec.Struct, frozen=True):
    """`leader` and the replicas are the brokers' numbers, -1 for none. Without a leader nobody knows the offsets."""

    partition: int
    leader: int
    address: str
    epoch: int
    in_sync: list[int]
    replicas: list[int]
    start: int | None
    high: int | None


class TopicStatus(msgspec.Struct, frozen=True):
    name: str
    config: dict[str, str]
    """What was set for this topic; the rest is the brokers' default."""
    partitions: list[PartitionStatus]


async def create_topic(client: LogClient, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> None:
    for what, number, number_max in (("partitions", partitions, PARTITIONS_MAX), ("replicas", replicas, REPLICAS_MAX)):
        if number != -1 and not 1 <= number <= number_max:
            raise UsageError(f"a topic with {number} {what} cannot be: choose 1 to {number_max}")
    topic = CreatableTopic(
        name=TopicName(name),
        num_partitions=i32(partitions),
        replication_factor=i16(replicas),
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in config.items()),
    )
    answer = await ask_any(client, CreateTopicsRequest(topics=(topic,), timeout=_timeout()), CreateTopicsResponse)
    for result in answer.topics:
        if result.error_code:
            raise error_of(result.error_code, f"the topic {name}", result.error_message)
    await _until_led(client, name)


async def _until_led(client: LogClient, name: str) -> None:
    """A topic is of use when every partition has a leader, as far as the broker knows that is asked next."""
    backoff = Backoff()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not _is_led((await client.metadata([name])).topics.get(name)):
                await asyncio.sleep(backoff.next_s())
    except TimeoutError:
        text = f"the topic {name} was made, but not all of it has a leader after {PATIENCE_S:.0f} s"
        raise TimedOut(f"{text}: see `octoloom topic describe {name}`") from None


def _is_led(topic: Topic | None) -> bool:
    if topic is None or topic.error or not topic.partitions:
        return False
    return all(partition.leader >= 0 for partition in topic.partitions.values())


async def delete_topic(client: LogClient, name: str) -> None:
    request = DeleteTopicsRequest(topic_names=(TopicName(name),), timeout=_timeout())
    answer = await ask_any(client, request, DeleteTopicsResponse)
    for result in answer.responses:
        if result.error_code:
            raise error_of(result.error_code, f"the topic {name}")


async def describe_topics(client: LogClient, names: Sequence[str] | None = None) -> list[TopicStatus]:
    """What there is to know of these topics, or of all."""
    cluster = await client.metadata(names)
    for name in names or ():
        found = cluster.topics.get(name)
        if found is None or found.error:
            code = found.error if found is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise error_of(code, f"the topic {name}")
    topics = sorted(cluster.topics.values(), key=lambda topic: topic.name)
    configs = await _configs(client, [topic.name for topic in topics])
    addresses = {broker.id: address_of(broker) for broker in cluster.brokers.values()}
    return [
        TopicStatus(topic.name, configs.get(topic.name, {}), await _partitions(client, topic, addresses))
        for topic in topics
    ]


async def _partitions(client: LogClient, topic: Topic, addresses: dict[int, str]) -> list[PartitionStatus]:
    numbers = sorted(topic.partitions)
    bounds = await asyncio.gather(*(_bounds(client, topic, number) for number in numbers))
    return [
        PartitionStatus(
            number,
            topic.partitions[number].leader,
            addresses.get(topic.partitions[number].leader, ""),
            topic.partitions[number].epoch,
            sorted(topic.partitions[number].in_sync),
            list(topic.partitions[number].replicas),
            start,
            high,
        )
        for number, (start, high) in zip(numbers, bounds, strict=True)
    ]


async def _bounds(client: LogClient, topic: Topic, number: int) -> tuple[int | None, int | None]:
    if topic.partitions[number].leader < 0:
        return None, None
    place = topic.name, number
    try:
        return (await client.bounds([place], BOUNDS_MS))[place]
    except LogError:
        # A leader that does not answer right now is no reason to tell nothing of the others.
        return None, None


async def _configs(client: LogClient, names: list[str]) -> dict[str, dict[str, str]]:
    """What was set for each topic. A broker that does not tell is forgiven."""
    if not names:
        return {}
    resources = tuple(
        DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=None) for name in names
    )
    try:
        answer = await ask_any(client, DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    except LogError:
        return {}
    return {
        result.resource_name: {
            entry.name: entry.value or "" for entry in result.configs if entry.config_source == _SET_FOR_TOPIC
        }
        for result in answer.results
    }


_SET_FOR_TOPIC = 1


def _timeout() -> i32Timedelta:
    return i32Timedelta.parse(timedelta(seconds=PATIENCE_S))
