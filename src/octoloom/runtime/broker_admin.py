"""Topic administration: what Kafka's admin clients ask of a broker, passed on to the register, which decides.

Any broker does it; the one that Metadata calls the controller is just the one that clients pick. All topics of a
request are asked for at once, and each has an answer of its own. The register answers when all brokers know of it; here
the news come before the answer, on the same connection.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

from kio.static.protocol import ResponsePayload

from octoloom.core.log_messages import Admin, AdminDone, DropTopic, GrowTopic, MakeTopic
from octoloom.core.topic_admin import OFFSETS_TOPIC
from octoloom.runtime.broker_apis import Handlers, Host, Request
from octoloom.runtime.broker_metadata import id_of
from octoloom.runtime.directory_answers import cluster_values
from octoloom.runtime.later import Later
from octoloom.runtime.topic_configs import TopicConfigs, topic_configs
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.compose import compose
from octoloom.wire.kafka.errors import ErrorCode

TIMEOUT_S_MIN, TIMEOUT_S_MAX = 0.5, 60.0

Done = Sequence[tuple[str, AdminDone]]
Refusal = tuple[int, str] | None
"""A Kafka error code and what to do about it, or None."""


class BrokerAdmin:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._later = Later()
        self._configs = TopicConfigs(host, self._later)

    def handlers(self) -> Handlers:
        return {
            Api.CREATE_TOPICS: self._on_create_topics,
            Api.DELETE_TOPICS: self._on_delete_topics,
            Api.CREATE_PARTITIONS: self._on_create_partitions,
            Api.DELETE_RECORDS: self._on_delete_records,
            Api.DESCRIBE_CLUSTER: self._on_describe_cluster,
            **self._configs.handlers(),
        }

    def close(self) -> None:
        self._later.close()

    # Topics.

    def _on_create_topics(self, request: Request) -> None:
        asked: Any = request.decode()
        twice = _repeated(topic.name for topic in asked.topics)
        wishes = [(topic.name, _refusal_of_new(topic, twice), topic) for topic in asked.topics]

        def make(topic: Any) -> Admin:
            config = {each.name: each.value for each in topic.configs}
            partitions, replicas = max(topic.num_partitions, 0), max(topic.replication_factor, 0)
            return MakeTopic(0, topic.name, partitions, replicas, config, asked.validate_only)

        def answer(done: Done) -> ResponsePayload:
            topics = [{**_result(name, each), **self._made(name, each)} for name, each in done]
            return compose(request.header, topics=topics)

        self._later.answer(request, self._ask_all(wishes, make, _timeout_s(asked), answer))

    def _made(self, name: str, done: AdminDone) -> dict[str, Any]:
        """What newer clients are told of a topic that was made."""
        info = self._host.directory.topics.get(name)
        if done.error or info is None:
            return {"topic_id": None, "configs": None}
        states = self._host.directory.partitions(name)
        return {
            "topic_id": UUID(bytes=id_of(info.number)),
            "num_partitions": len(states),
            "replication_factor": len(states[0].replicas) if states else -1,
            "configs": topic_configs(info),
        }

    def _on_delete_topics(self, request: Request) -> None:
        asked: Any = request.decode()
        wishes = [(name, _refusal_of_own(name), name) for name in dict.fromkeys(asked.topic_names)]

        def answer(done: Done) -> ResponsePayload:
            return compose(request.header, responses=[_result(name, each) for name, each in done])

        self._later.answer(request, self._ask_all(wishes, lambda name: DropTopic(0, name), _timeout_s(asked), answer))

    def _on_create_partitions(self, request: Request) -> None:
        asked: Any = request.decode()
        twice = _repeated(topic.name for topic in asked.topics)
        wishes = [(topic.name, _refusal_of_growth(topic, twice), topic) for topic in asked.topics]

        def grow(topic: Any) -> Admin:
            return GrowTopic(0, topic.name, topic.count, asked.validate_only)

        def answer(done: Done) -> ResponsePayload:
            return compose(request.header, results=[_result(name, each) for name, each in done])

        self._later.answer(request, self._ask_all(wishes, grow, _timeout_s(asked), answer))

    async def _ask_all(
        self,
        wishes: Sequence[tuple[str, Refusal, Any]],
        message_of: Callable[[Any], Admin],
        timeout_s: float,
        answer: Callable[[Done], ResponsePayload],
    ) -> ResponsePayload:
        """Asks the register for each wish that was not refused already, and answers all in their order."""

        async def ask(refusal: Refusal, wish: Any) -> AdminDone:
            if refusal is not None:
                return AdminDone(0, *refusal)
            return await self._host.register.request(message_of(wish), timeout_s)

        done = await asyncio.gather(*(ask(refusal, wish) for _, refusal, wish in wishes))
        return answer([(name, each) for (name, _, _), each in zip(wishes, done, strict=True)])

    # What needs no register.

    def _on_delete_records(self, request: Request) -> None:
        asked: Any = request.decode()
        topics = [
            {"name": topic.name, "partitions": [self._deleted(topic.name, part) for part in topic.partitions]}
            for topic in asked.topics
        ]
        request.answer(compose(request.header, topics=topics))

    def _deleted(self, topic: str, part: Any) -> dict[str, int]:
        refusal = _refusal_of_own(topic)
        if refusal is not None:
            error, start = refusal[0], -1
        else:
            error, start = self._host.delete_records((topic, part.partition_index), part.offset)
        return {"partition_index": part.partition_index, "low_watermark": start, "error_code": error}

    def _on_describe_cluster(self, request: Request) -> None:
        values = cluster_values(self._host.directory, self._host.settings.cluster_id)
        request.answer(compose(request.header, **values))


def _refusal_of_new(topic: Any, twice: Sequence[str]) -> Refusal:
    if topic.name in twice:
        return ErrorCode.INVALID_REQUEST, f"{topic.name} is asked for twice in one request"
    if topic.name == OFFSETS_TOPIC:
        return ErrorCode.INVALID_TOPIC, f"{OFFSETS_TOPIC} is made when the first consumer group needs it"
    if topic.assignments:
        text = "which broker has which replica is chosen by the register: leave the assignments out"
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
    if topic.num_partitions != -1 and topic.num_partitions < 1:
        return ErrorCode.INVALID_PARTITIONS, "a topic has one partition or more; -1 asks for the default"
    if topic.replication_factor != -1 and topic.replication_factor < 1:
        return ErrorCode.INVALID_REPLICATION_FACTOR, "a partition has one replica or more; -1 asks for the default"
    names = [each.name for each in topic.configs]
    if any(each.value is None for each in topic.configs) or _repeated(names):
        return ErrorCode.INVALID_CONFIG, "each setting has one value; leave a setting out to have its default"
    return None


def _refusal_of_growth(topic: Any, twice: Sequence[str]) -> Refusal:
    if topic.name in twice:
        return ErrorCode.INVALID_REQUEST, f"{topic.name} is asked for twice in one request"
    if topic.assignments:
        text = "which broker has which replica is chosen by the register: leave the assignments out"
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
    return _refusal_of_own(topic.name)


def _refusal_of_own(topic: str) -> Refusal:
    if topic == OFFSETS_TOPIC:
        return ErrorCode.INVALID_TOPIC, f"{OFFSETS_TOPIC} belongs to the consumer groups: delete groups instead"
    return None


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _result(name: str, done: AdminDone) -> dict[str, Any]:
    return {"name": name, "error_code": done.error, "error_message": done.detail or None}


def _timeout_s(asked: Any) -> float:
    timeout_s: float = asked.timeout.total_seconds()
    return min(max(timeout_s, TIMEOUT_S_MIN), TIMEOUT_S_MAX)
