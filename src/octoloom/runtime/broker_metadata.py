"""Metadata: who is there and who leads what, as the register told it. Asked by everybody, again and again.

An answer depends on the directory and on the question only. So its bytes are kept until the directory changes, and
the next one who asks the same gets them with another number in front.

A topic that is not there is made, if the broker's settings and the client allow it: the answer waits for the register.

Who asks before any broker is known has to wait until one is. Clients that are told of none take it for an answer: some
fail, and others do not ask again for minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from octoloom.core.errors import ProtocolError
from octoloom.core.log_messages import PartitionState
from octoloom.core.topic_admin import OFFSETS_TOPIC, AdminRefused, check_name
from octoloom.runtime.broker_apis import Request
from octoloom.runtime.broker_state import BrokerState
from octoloom.wire.kafka.apis import RequestHeader, with_correlation
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.metadata import (
    NO_TOPIC_ID,
    BrokerEntry,
    MetadataRequest,
    PartitionEntry,
    TopicEntry,
    encode_metadata,
    parse_metadata,
)

KEPT_MAX = 256
"""Answers that are kept; at the limit all are forgotten."""
MAKING_MAX = 16
"""Topics that one request may have made."""
WAITING_MAX = 1000
"""Requests that wait at the same time; the next one's connection ends, and its client tries again."""
EARLY_S = 120.0
"""How long somebody waits who came before the brokers. Clients give up by themselves before that, and ask again."""
POLL_S = 0.05

MakeTopic = Callable[[str], Awaitable[int]]
"""Makes a topic with the defaults, and answers Kafka's error code."""


class Metadata:
    def __init__(self, state: BrokerState, make_topic: MakeTopic) -> None:
        self._state = state
        self._make_topic = make_topic
        self._kept: dict[tuple[int, MetadataRequest], bytes] = {}
        self._kept_at = -1
        self._making: dict[str, asyncio.Future[int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def on_metadata(self, request: Request) -> None:
        asked = parse_metadata(request.header, request.frame)
        if not self._state.directory.brokers or self._missing(asked):
            if len(self._tasks) >= WAITING_MAX:
                raise ProtocolError("busy", f"{WAITING_MAX} requests wait for their answers already")
            task = self._state.loop.create_task(self._answer_later(request, asked))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            request.respond(self._answer(request.header, asked))

    def _missing(self, asked: MetadataRequest) -> list[str]:
        """The topics that are to be made."""
        if not (self._state.settings.auto_create and asked.may_create and asked.names):
            return []
        return [name for name in asked.names if name not in self._state.directory.topics and is_good(name)][:MAKING_MAX]

    async def _answer_later(self, request: Request, asked: MetadataRequest) -> None:
        loop = self._state.loop
        until = loop.time() + EARLY_S
        while not self._state.directory.brokers and not request.is_abandoned and loop.time() < until:
            await asyncio.sleep(POLL_S)
        for topic in self._missing(asked):
            if topic not in self._making:
                # Clients that ask for the same topic at once wait for the same answer.
                making = self._making[topic] = asyncio.ensure_future(self._make_topic(topic))
                making.add_done_callback(lambda _, topic=topic: self._making.pop(topic, None))  # type: ignore[misc]
            await asyncio.wait([self._making[topic]])
        if not request.is_abandoned:
            request.respond(self._answer(request.header, asked))

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for making in list(self._making.values()):
            making.cancel()

    # Answers.

    def _answer(self, header: RequestHeader, asked: MetadataRequest) -> bytes:
        if self._kept_at != self._state.directory.changes or len(self._kept) >= KEPT_MAX:
            self._kept.clear()
            self._kept_at = self._state.directory.changes
        key = (header.version, asked)
        answer = self._kept.get(key)
        if answer is None:
            answer = self._kept[key] = self._encode(header, asked)
        return with_correlation(answer, header.correlation)

    def _encode(self, header: RequestHeader, asked: MetadataRequest) -> bytes:
        directory = self._state.directory
        brokers = [BrokerEntry(broker.id, broker.host, broker.port) for broker in directory.brokers.values()]
        names = sorted(directory.topics) if asked.names is None else dict.fromkeys(asked.names)
        topics = [self._topic(name) for name in names]
        topics += [self._topic_of_id(topic_id) for topic_id in asked.ids]
        controller = min((broker.broker for broker in brokers), default=-1)
        return encode_metadata(
            header, brokers, topics, cluster_id=self._state.settings.cluster_id, controller=controller
        )

    def _topic(self, name: str) -> TopicEntry:
        info = self._state.directory.topics.get(name)
        if info is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_good(name) else ErrorCode.INVALID_TOPIC
            return TopicEntry(name, (), error)
        partitions = [
            self._partition(number, state) for number, state in self._state.directory.partitions(name).items()
        ]
        return TopicEntry(name, partitions, 0, id_of(info.number), name == OFFSETS_TOPIC)

    def _topic_of_id(self, topic_id: bytes) -> TopicEntry:
        for name, info in self._state.directory.topics.items():
            if id_of(info.number) == topic_id:
                return self._topic(name)
        return TopicEntry(None, (), ErrorCode.UNKNOWN_TOPIC_ID, topic_id)

    def _partition(self, number: int, state: PartitionState) -> PartitionEntry:
        directory = self._state.directory
        leader = directory.brokers.get(state.leader)
        replicas = directory.ids_of(state.replicas, named=True)
        alive = [broker.id for broker in directory.brokers.values()]
        return PartitionEntry(
            number,
            leader.id if leader is not None else -1,
            state.epoch,
            replicas,
            directory.ids_of(state.in_sync),
            [replica for replica in replicas if replica not in alive],
            0 if leader is not None else ErrorCode.LEADER_NOT_AVAILABLE,
        )


def id_of(number: int) -> bytes:
    """The id of a topic for clients: sixteen bytes, never all zero."""
    return (number + 1).to_bytes(len(NO_TOPIC_ID), "big")


def is_good(name: str) -> bool:
    try:
        check_name(name)
    except AdminRefused:
        return False
    return True
