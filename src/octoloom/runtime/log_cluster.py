"""What a client knows of the brokers, and its connections to them.

Who leads which partition is remembered until someone finds it to be wrong. Then the brokers are asked again, once for
all who want to know: one refresh at a time, `REFRESH_MIN_S` apart, whatever happens. `revision` grows with every
answer; a caller in trouble says which one was the newest at that moment, and is served at once if there is a newer one
by now.

Each broker gets one connection per lane. A lane keeps apart what would hold up something else: a write that waits for
slow replicas, a long poll, a question about who leads.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from octoloom.core.errors import UsageError
from octoloom.runtime.frames import split_address
from octoloom.runtime.log_connection import LogConnection
from octoloom.runtime.log_errors import LogError, NotLeader, Unreachable, error_of
from octoloom.wire.kafka import client_messages as messages
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.client_messages import Broker, Cluster, Partition, Topic, TopicPartition
from octoloom.wire.kafka.errors import ErrorCode

T = TypeVar("T")

REFRESH_MIN_S = 0.02
CONNECT_S = 2.0
METADATA_S = 2.0
"""How long one broker may think about who leads before another is asked."""
TOPICS_MAX = 10_000
"""Topics that are asked about together."""

QUESTIONS = "questions"
"""The lane of everything that is answered at once."""


class LogCluster:
    def __init__(self, bootstrap: str | Sequence[str], client_id: str) -> None:
        self.bootstrap = addresses_of(bootstrap)
        self._client_id = client_id
        self._known = Cluster({}, {}, -1, None)
        self._wanted: dict[str, None] = {}
        self._connections: dict[tuple[str, str], LogConnection] = {}
        self._opening: dict[tuple[str, str], asyncio.Task[LogConnection]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed_at = 0.0
        self._answered_last = ""
        self.revision = 0
        """Grows with every answer about who leads."""

    async def close(self) -> None:
        tasks = [*self._opening.values(), *([self._refreshing] if self._refreshing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self._connections.values():
            connection.abort()
        self._connections.clear()

    # Who leads.

    def topic(self, name: str) -> Topic | None:
        """The topic, if it is known to be there."""
        topic = self._known.topics.get(name)
        return topic if topic is not None and not topic.error else None

    def leader(self, place: TopicPartition) -> Partition | None:
        """The partition, if someone is known to lead it."""
        topic = self._known.topics.get(place[0])
        partition = topic.partitions.get(place[1]) if topic is not None and not topic.error else None
        return partition if partition is not None and partition.leader in self._known.brokers else None

    def why_not(self, place: TopicPartition) -> LogError:
        """What is wrong with a partition that nobody is known to lead."""
        topic = self._known.topics.get(place[0])
        if topic is None:
            return error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {place[0]}")
        if topic.error:
            return error_of(topic.error, f"the topic {place[0]}")
        if place[1] not in topic.partitions:
            return error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the partition {place[0]}-{place[1]}")
        return error_of(ErrorCode.LEADER_NOT_AVAILABLE, f"{place[0]}-{place[1]}")

    def want(self, topic: str) -> None:
        """From now on refreshes ask about this topic, too."""
        if topic not in self._wanted:
            if len(self._wanted) >= TOPICS_MAX:
                self._wanted.pop(next(iter(self._wanted)))
            self._wanted[topic] = None

    async def refresh(self, seen: int) -> None:
        """Returns when there is an answer newer than revision `seen`."""
        if self.revision <= seen:
            # A waiter that is cancelled does not take the answer away from the others.
            await asyncio.shield(self._start_refresh())

    def _start_refresh(self) -> asyncio.Task[None]:
        if self._refreshing is None:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
            self._refreshing.add_done_callback(self._on_refreshed)
        return self._refreshing

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._refreshed_at + REFRESH_MIN_S - loop.time(), 0))
        self._refreshed_at = loop.time()
        await self.ask_metadata(list(self._wanted))

    def _on_refreshed(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        if not task.cancelled():
            task.exception()

    async def ask_metadata(self, topics: Sequence[str] | None) -> Cluster:
        """What the brokers say of these topics, or of all; it is remembered."""
        body = messages.encode_metadata(topics)
        said = await self.ask_any(lambda broker: broker.ask(Api.METADATA, body, messages.parse_metadata), METADATA_S)
        self._learn(said, topics)
        return said

    def _learn(self, said: Cluster, topics: Sequence[str] | None) -> None:
        before = self._known
        kept = {} if topics is None else before.topics
        self._known = said._replace(topics={**kept, **said.topics})
        self.revision += 1
        self._desert(before)

    def _desert(self, before: Cluster) -> None:
        """Marks the connections to brokers that lead something no longer: a late answer of theirs will not come."""
        deserted = {
            address_of(before.brokers[old.leader])
            for topic in before.topics.values()
            for old in topic.partitions.values()
            if old.leader in before.brokers and self._led_by((topic.name, old.number)) != old.leader
        }
        for (address, _), connection in self._connections.items():
            if address in deserted:
                connection.deserted = True
                if connection.is_overdue:
                    self._on_overdue(connection)

    def _led_by(self, place: TopicPartition) -> int:
        partition = self.leader(place)
        return partition.leader if partition is not None else -1

    def _on_overdue(self, connection: LogConnection) -> None:
        if connection.deserted:
            text = f"the broker at {connection.address} does not answer, and another leads in its place"
            connection.abort(Unreachable(text, ambiguous=True))
        else:
            self._start_refresh()

    # Questions that every broker can answer.

    async def find_brokers(self) -> None:
        """Returns when some broker is known, beyond the addresses that were given."""
        if not self._known.brokers:
            await self.ask_metadata([])

    async def ask_any(
        self, ask: Callable[[LogConnection], Awaitable[T]], timeout_s: float, first: str | None = None
    ) -> T:
        """Asks one broker after the other until one answers, `first` before all others."""
        failures: list[LogError] = []
        for address in self._candidates(first):
            try:
                connection = await self.connect(address, QUESTIONS)
            except LogError as error:
                failures.append(error)
                continue
            try:
                async with asyncio.timeout(timeout_s):
                    answer = await ask(connection)
            except LogError as error:
                failures.append(error)
            except TimeoutError:
                failures.append(Unreachable(f"the broker at {address} does not answer"))
                connection.abort(failures[-1])
            else:
                self._answered_last = address
                return answer
        raise self._nobody(failures)

    def _nobody(self, failures: list[LogError]) -> LogError:
        final = [error for error in failures if not error.retriable]
        if final and len(final) == len(failures):
            return final[0]
        where = ", ".join(self.bootstrap)
        text = f"no broker answers at {where}: start one with `octoloom up` or `octoloom broker`"
        error = Unreachable(text)
        error.__cause__ = failures[-1] if failures else None
        return error

    def _candidates(self, first: str | None) -> list[str]:
        """Whom to ask: whoever answered last, then the other brokers, in any order, then where we began.

        Where we began may be no broker: the register tells who they are, and little else.
        """
        brokers = [address_of(broker) for broker in self._known.brokers.values()]
        random.shuffle(brokers)
        last = [self._answered_last] if self._answered_last in brokers else []
        return list(dict.fromkeys(filter(None, [first, *last, *brokers, *self.bootstrap])))

    @property
    def controller(self) -> str | None:
        """The address of the broker that changes topics, where not every one does."""
        broker = self._known.brokers.get(self._known.controller)
        return address_of(broker) if broker is not None else None

    # Connections.

    def connected(self, broker: int, lane: str) -> LogConnection | None:
        """The connection to a broker, if there is one: whoever finds it sends in the order of his calls."""
        found = self._known.brokers.get(broker)
        connection = self._connections.get((address_of(found), lane)) if found is not None else None
        return connection if connection is not None and not connection.closed else None

    async def connect_to(self, broker: int, lane: str) -> LogConnection:
        found = self._known.brokers.get(broker)
        if found is None:
            raise NotLeader(f"the broker {broker} is gone: who leads in its place is found out by itself")
        return await self.connect(address_of(found), lane)

    async def connect(self, address: str, lane: str) -> LogConnection:
        """The connection to an address, opened once for all who wait for it."""
        key = address, lane
        connection = self._connections.get(key)
        if connection is not None and not connection.closed:
            return connection
        task = self._opening.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._open(address, lane))
            self._opening[key] = task
            task.add_done_callback(lambda done: self._on_opened(key, done))
        return await asyncio.shield(task)

    async def _open(self, address: str, lane: str) -> LogConnection:
        connection = LogConnection(address, self._client_id, self._on_overdue)
        await connection.open(CONNECT_S)
        self._connections[address, lane] = connection
        return connection

    def _on_opened(self, key: tuple[str, str], task: asyncio.Task[LogConnection]) -> None:
        self._opening.pop(key, None)
        if not task.cancelled():
            task.exception()

    def hang_up(self, lane: str) -> None:
        """Ends the connections of a lane."""
        for key in [key for key in self._connections if key[1] == lane]:
            self._connections.pop(key).abort()


def address_of(broker: Broker) -> str:
    return f"{broker.host}:{broker.port}"


def addresses_of(bootstrap: str | Sequence[str]) -> list[str]:
    """One address or several, as a list or with commas between them."""
    addresses = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
    stripped = [address.strip() for address in addresses if address.strip()]
    if not stripped:
        raise UsageError("no broker is named: write host:port, as in 127.0.0.1:9092")
    for address in stripped:
        split_address(address)
    return stripped


def by_leader(places: Iterable[tuple[TopicPartition, Partition]]) -> dict[int, list[TopicPartition]]:
    leaders: dict[int, list[TopicPartition]] = {}
    for place, partition in places:
        leaders.setdefault(partition.leader, []).append(place)
    return leaders
