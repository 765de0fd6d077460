"""A client of the log: writes batches, fetches them, and asks about topics, wherever their leaders are.

A call finds the leader by itself and tries again, with growing pauses, while the error is one that passes: a leader
that moved, a broker that died, replicas that are catching up. It gives up at its deadline with the last error.

A batch that is tagged (it has a producer id and a sequence number) may be sent any number of times and is written once.
One that is not tagged is not sent again once it may have been written: the caller hears that, and has to decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from octoloom.core.errors import UsageError
from octoloom.runtime.backoff import Backoff
from octoloom.runtime.log_cluster import QUESTIONS, LogCluster, by_leader
from octoloom.runtime.log_connection import LogConnection
from octoloom.runtime.log_errors import LogError, TimedOut, UnknownTopic, Unwanted, error_of
from octoloom.wire.framing import Piece
from octoloom.wire.kafka import client_messages as messages
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.batches import HEADER_SIZE, read_header
from octoloom.wire.kafka.client_messages import (
    EARLIEST,
    LATEST,
    Cluster,
    FetchedPartition,
    FetchFrom,
    ListedOffset,
    Partition,
    Produced,
    Topic,
    TopicPartition,
)

T = TypeVar("T")

TIMEOUT_MS = 30_000
UNKNOWN_S = 1.0
"""How long a topic may be unknown before it counts as not there: one that was just made takes a moment to get about."""
ASK_S = 10.0
"""How long one broker may take over a question before another is asked."""
FETCH_BYTES_MAX = 1024 * 1024
FETCH_WAIT_MS = 500

PRODUCE = "produce"
FETCH = "fetch"


FetchAnswer = tuple[int, list[FetchedPartition]]
"""(error of the whole, results)"""


class Fetched(NamedTuple):
    """Record batches as the broker sent them, the last of them perhaps cut off; `read_fetched` reads them."""

    batches: memoryview
    high: int
    start: int


class LogClient:
    """Use it as an async context manager, or `close` it."""

    def __init__(
        self, bootstrap: str | Sequence[str], client_id: str = "octoloom", timeout_ms: int = TIMEOUT_MS
    ) -> None:
        self.cluster = LogCluster(bootstrap, client_id)
        self.timeout_ms = timeout_ms

    async def __aenter__(self) -> LogClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.cluster.close()

    # Topics.

    async def metadata(self, topics: Sequence[str] | None = None) -> Cluster:
        """What the brokers say right now of these topics, or of all. Asked once: it fails if no broker answers."""
        return await self.cluster.ask_metadata(topics)

    async def topic(self, name: str, timeout_ms: int | None = None) -> Topic:
        """A topic and its partitions, as they were last heard of."""

        async def attempt(stale: int | None) -> Topic:
            await self._learn(name, stale)
            topic = self.cluster.topic(name)
            if topic is None or not topic.partitions:
                raise self.cluster.why_not((name, 0))
            return topic

        known = self.cluster.topic(name)
        return known if known is not None else await self.patiently(attempt, timeout_ms)

    async def create_topic(
        self, name: str, partitions: int = -1, replicas: int = -1, config: Mapping[str, str] | None = None
    ) -> None:
        """Makes a topic, and returns when every partition has a leader. -1 leaves a number to the brokers."""
        from octoloom.runtime import log_admin

        await log_admin.create_topic(self, name, partitions, replicas, config or {})

    async def delete_topic(self, name: str) -> None:
        from octoloom.runtime import log_admin

        await log_admin.delete_topic(self, name)

    # Writing.

    async def init_producer(self) -> tuple[int, int]:
        """A new (producer id, producer epoch), to tag batches with."""

        async def attempt(_stale: int | None) -> tuple[int, int]:
            body = messages.encode_init_producer()
            error, producer_id, epoch = await self.cluster.ask_any(
                lambda broker: broker.ask(Api.INIT_PRODUCER_ID, body, messages.parse_init_producer), ASK_S
            )
            if error:
                raise error_of(error, "a producer id")
            return producer_id, epoch

        return await self.patiently(attempt, None)

    async def produce(
        self, topic: str, partition: int, batch: Piece, acks: int = -1, timeout_ms: int | None = None
    ) -> int:
        """Writes a batch and answers the offset of its first record; -1 if `acks` is 0, and nobody knows."""
        if len(batch) < HEADER_SIZE:
            raise UsageError(f"{len(batch)} bytes are no record batch: make one with build_batch")
        place = topic, partition

        async def attempt(stale: int | None) -> int:
            await self.reach(place, PRODUCE, stale)
            answer = self.try_produce(place, batch, acks, timeout_ms)
            return offset_of(place, await answer) if answer is not None else -1

        return await self.patiently(attempt, timeout_ms, repeatable=read_header(batch).producer_id >= 0)

    def try_produce(
        self, place: TopicPartition, batch: Piece, acks: int = -1, timeout_ms: int | None = None
    ) -> asyncio.Future[Produced] | None:
        """Sends a batch once, at the end of this tick, to the leader that `reach` has found.

        Batches leave in the order of the calls. With `acks` 0 there is no answer to come.
        """
        partition = self.cluster.leader(place)
        connection = self.cluster.connected(partition.leader, PRODUCE) if partition is not None else None
        if connection is None:
            raise self.cluster.why_not(place)
        body = messages.encode_produce(*place, batch, acks, timeout_ms or self.timeout_ms)
        if acks == 0:
            connection.tell(Api.PRODUCE, body)
            return None
        return connection.ask(Api.PRODUCE, body, messages.parse_produce)

    # Reading.

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        bytes_max: int = FETCH_BYTES_MAX,
        wait_ms: int = FETCH_WAIT_MS,
        timeout_ms: int | None = None,
        lane: str = FETCH,
    ) -> Fetched:
        """Batches from the one that holds `offset` on, at least one; empty if there is none within `wait_ms`.

        Calls in one lane wait for each other: give long polls that run side by side lanes of their own.
        """
        place = topic, partition

        async def attempt(stale: int | None) -> Fetched:
            leader = await self.reach(place, lane, stale)
            wanted = {place: FetchFrom(offset, leader.epoch, bytes_max)}
            error, answer = await self.fetch_from(leader.leader, wanted, wait_ms, bytes_max, lane)
            if error:
                raise error_of(error, f"a fetch from broker {leader.leader}")
            found = next((one for one in answer if (one.topic, one.partition) == place), None)
            if found is None:
                raise left_out(place)
            if found.error:
                raise error_of(found.error, f"{topic}-{partition}")
            return Fetched(found.batches, found.high, found.start)

        return await self.patiently(attempt, timeout_ms)

    async def fetch_from(
        self, broker: int, wanted: Mapping[TopicPartition, FetchFrom], wait_ms: int, bytes_max: int, lane: str
    ) -> FetchAnswer:
        """One fetch from one broker, tried once. The whole has an error code, and each partition one of its own."""
        return await ask_to_fetch(await self.cluster.connect_to(broker, lane), wanted, wait_ms, bytes_max)

    def try_fetch(
        self, broker: int, wanted: Mapping[TopicPartition, FetchFrom], wait_ms: int, bytes_max: int, lane: str
    ) -> asyncio.Future[FetchAnswer] | None:
        """The same, sent at once to a broker that this lane is connected to; None if it is not."""
        connection = self.cluster.connected(broker, lane)
        if connection is None:
            return None
        answer = ask_to_fetch(connection, wanted, wait_ms, bytes_max)
        connection.flush()
        return answer

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """For each partition the first offset at or after a timestamp in ms (or `EARLIEST`, `LATEST`), -1 if none."""

        async def attempt(stale: int | None) -> dict[TopicPartition, int]:
            leaders = {place: await self.reach(place, QUESTIONS, stale) for place in wanted}
            asked = []
            for broker, places in by_leader(leaders.items()).items():
                body = messages.encode_list_offsets({place: (leaders[place].epoch, wanted[place]) for place in places})
                connection = await self.cluster.connect_to(broker, QUESTIONS)
                asked.append(connection.ask(Api.LIST_OFFSETS, body, messages.parse_list_offsets))
            listed = {place: found for answer in await asyncio.gather(*asked) for place, found in answer.items()}
            return {place: listed_offset(place, listed) for place in wanted}

        return await self.patiently(attempt, timeout_ms)

    async def offsets_at(self, places: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """For each partition the first offset at or after a timestamp in ms, or its end if all is older."""
        found = await self.list_offsets(dict.fromkeys(places, timestamp))
        late = [place for place, offset in found.items() if offset < 0]
        return {**found, **await self.list_offsets(dict.fromkeys(late, LATEST))} if late else found

    async def bounds(
        self, places: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, tuple[int, int]]:
        """For each partition (start, high): the first offset in it, and the one after the last that can be read."""
        places = list(places)
        starts = await self.list_offsets(dict.fromkeys(places, EARLIEST), timeout_ms)
        highs = await self.list_offsets(dict.fromkeys(places, LATEST), timeout_ms)
        return {place: (starts[place], highs[place]) for place in places}

    # Trying again.

    async def reach(self, place: TopicPartition, lane: str, stale: int | None = None) -> Partition:
        """Makes sure that the leader of a partition is known, newer than revision `stale`, and connected to."""
        await self._learn(place[0], stale)
        leader = self.cluster.leader(place)
        if leader is None and stale is None:
            await self.cluster.refresh(self.cluster.revision)
            leader = self.cluster.leader(place)
        if leader is None:
            raise self.cluster.why_not(place)
        if self.cluster.connected(leader.leader, lane) is None:
            await self.cluster.connect_to(leader.leader, lane)
        return leader

    async def _learn(self, topic: str, stale: int | None) -> None:
        self.cluster.want(topic)
        if stale is not None:
            await self.cluster.refresh(stale)
        elif self.cluster.topic(topic) is None:
            await self.cluster.refresh(self.cluster.revision)

    async def patiently(
        self, attempt: Callable[[int | None], Awaitable[T]], timeout_ms: int | None, repeatable: bool = True
    ) -> T:
        """Tries until it goes well, the error is one that stays, or time is up.

        An attempt is told which revision of the metadata was no good the last time. What is not `repeatable` is not
        tried again after an error that leaves open whether it was done.
        """
        timeout_s = (self.timeout_ms if timeout_ms is None else timeout_ms) / 1000
        backoff = Backoff()
        last: LogError | None = None
        stale: int | None = None
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    try:
                        return await attempt(stale)
                    except LogError as error:
                        last, stale = error, self.cluster.revision
                        if not error.retriable or (error.ambiguous and not repeatable):
                            raise
                        if isinstance(error, UnknownTopic) and loop.time() - begun > UNKNOWN_S:
                            raise
                    await asyncio.sleep(backoff.next_s())
        except TimeoutError:
            # The attempt that was cut off may have done its work.
            final = last or TimedOut(f"no answer came within {timeout_s:g} s: see `octoloom topic describe`")
            final.ambiguous = True
            raise final from None


def ask_to_fetch(
    connection: LogConnection, wanted: Mapping[TopicPartition, FetchFrom], wait_ms: int, bytes_max: int
) -> asyncio.Future[FetchAnswer]:
    body = messages.encode_fetch(wanted, wait_ms, 1, bytes_max)
    return connection.ask(Api.FETCH, body, messages.parse_fetch, patience_s=wait_ms / 1000)


def offset_of(place: TopicPartition, produced: Produced) -> int:
    """The offset that a batch was given, or the error that it met."""
    if produced.error:
        raise error_of(produced.error, f"{place[0]}-{place[1]}")
    return produced.base_offset


def listed_offset(place: TopicPartition, listed: Mapping[TopicPartition, ListedOffset]) -> int:
    found = listed.get(place)
    if found is None:
        raise left_out(place)
    if found.error:
        raise error_of(found.error, f"{place[0]}-{place[1]}")
    return found.offset


def left_out(place: TopicPartition) -> LogError:
    return Unwanted(f"the broker did not say a word about {place[0]}-{place[1]}: see what listens there")
