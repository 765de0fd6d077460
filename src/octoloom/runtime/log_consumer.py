"""Reads partitions from given places on, for as long as one likes, wherever their leaders go.

    async with Consumer(client, {("journal", 0): "beginning"}) as consumer:
        async for topic, partition, records in consumer:
            ...

Each leader is asked for all of its partitions at once, in a long poll on a connection of its own, and asked again
before what it answered is read: while that is read and the caller works, the next answer is on its way, and not more
than that. A partition whose leader is in trouble is left out until the brokers have said who leads it now; the others
go on.

Records come in the order of their offsets within a partition, each once, without a hole.

`ValueConsumer` is for who wants nothing but values: they cost a tenth of what whole records cost.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar

from octoloom.runtime.backoff import Backoff
from octoloom.runtime.log_client import FETCH, UNKNOWN_S, FetchAnswer, LogClient
from octoloom.runtime.log_errors import Damaged, LogError, UnknownTopic, error_of
from octoloom.wire.kafka.batches import CorruptBatch
from octoloom.wire.kafka.client_messages import EARLIEST, LATEST, FetchedPartition, FetchFrom, TopicPartition
from octoloom.wire.kafka.records import Record, next_offset_of, read_fetched
from octoloom.wire.kafka.value_runs import read_fetched_values

T = TypeVar("T")

PARTITION_BYTES_MAX = 1024 * 1024
FETCH_BYTES_MAX = 8 * 1024 * 1024
"""Bytes of one answer, unless a single batch is larger."""
WAIT_MS = 500


class Timestamp(NamedTuple):
    """A place in time: the first record at or after it."""

    ms: int


class Last(NamedTuple):
    """So many records before the end."""

    count: int  # type: ignore[assignment]  # tuple.count is of no use here


Start = int | Timestamp | Last | Literal["beginning", "end"]


class Delivery(NamedTuple):
    topic: str
    partition: int
    records: list[Record]


class ValueDelivery(NamedTuple):
    topic: str
    partition: int
    offset: int
    """Of the first value. Each of the others has the next one."""
    values: list[bytes | None]


async def resolve(client: LogClient, starts: Mapping[TopicPartition, Start]) -> dict[TopicPartition, int]:
    """The offsets that these starts mean right now."""
    offsets = {place: start for place, start in starts.items() if isinstance(start, int)}
    asked: dict[TopicPartition, int] = {}
    for place, start in starts.items():
        if start in ("beginning", "end"):
            asked[place] = EARLIEST if start == "beginning" else LATEST
    if asked:
        offsets |= await client.list_offsets(asked)
    for ms in {start.ms for start in starts.values() if isinstance(start, Timestamp)}:
        offsets |= await client.offsets_at([place for place, start in starts.items() if start == Timestamp(ms)], ms)
    lasts = {place: start.count for place, start in starts.items() if isinstance(start, Last)}
    for place, (start, high) in (await client.bounds(lasts) if lasts else {}).items():
        offsets[place] = max(start, high - lasts[place])
    return offsets


class Deliveries(ABC, Generic[T]):
    """What hands out deliveries to who iterates over it, until it is closed."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> T: ...

    @abstractmethod
    async def close(self) -> None: ...


class Reader(Deliveries[T]):
    """Iterate over it. With `until` it ends when each partition has come to that offset, which is left out."""

    _lanes = count(1)

    def __init__(
        self,
        client: LogClient,
        starts: Mapping[TopicPartition, Start],
        *,
        until: Mapping[TopicPartition, int] | None = None,
        wait_ms: int = WAIT_MS,
        partition_bytes_max: int = PARTITION_BYTES_MAX,
    ) -> None:
        self._client = client
        self._starts = dict(starts)
        self._until = dict(until or {})
        self._wait_ms = wait_ms
        self._partition_bytes_max = partition_bytes_max
        self._lane = f"{FETCH}-{next(self._lanes)}"
        self._flights: dict[int, asyncio.Future[FetchAnswer]] = {}
        self._asked: dict[int, dict[TopicPartition, FetchFrom]] = {}
        self._landed: deque[FetchedPartition] = deque()
        """Answers that are not read yet."""
        self._next: dict[TopicPartition, int] = {}
        """From where to ask next: behind what has landed."""
        self._troubled: set[TopicPartition] = set()
        self._repair: asyncio.Task[None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._backoff = Backoff()
        self._begun = self._is_stopped = False
        self._unknown_since: dict[TopicPartition, float] = {}
        self.positions: dict[TopicPartition, int] = {}
        """The offset after what was handed out, by partition."""
        self.highs: dict[TopicPartition, int] = {}
        """The end of what can be read, as the leaders said last."""

    async def __anext__(self) -> T:
        if not self._begun:
            for topic, _ in self._starts:
                self._client.cluster.want(topic)
            self.positions = await resolve(self._client, self._starts)
            self._next = dict(self.positions)
            self._begun = True
        while not self._is_stopped:
            while self._landed:
                delivery = self._deliver(self._landed.popleft())
                if delivery is not None:
                    return delivery
            self._launch()
            if not self._flights and self._repair is None:
                await self.close()
                break
            if not await self._until_one_is_done():
                break
            self._land()
            # The next poll is on its way while what the last one brought is read, and the caller works on it.
            self._launch()
        raise StopAsyncIteration

    def stop(self) -> None:
        """Whoever waits for the next delivery, or asks for it later, hears that there is none."""
        self._is_stopped = True
        self._wake()

    async def _until_one_is_done(self) -> bool:
        """False: it is stopped."""
        if not any(waiting.done() for waiting in self._waiting()):
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return not self._is_stopped

    def _waiting(self) -> list[asyncio.Future[Any]]:
        return [*self._flights.values(), *([self._repair] if self._repair is not None else [])]

    def _on_done(self, _: asyncio.Future[Any]) -> None:
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def close(self) -> None:
        """Ends the polls. What they brought already can still be taken."""
        waiting = self._waiting()
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        self._flights.clear()
        self._client.cluster.hang_up(self._lane)

    def _open(self) -> list[TopicPartition]:
        """The partitions that are not at their end."""
        return [place for place, offset in self._next.items() if offset < self._until.get(place, offset + 1)]

    def _launch(self) -> None:
        """Asks every leader that is not thinking already."""
        busy = {place for places in self._asked.values() for place in places}
        wanted: dict[int, dict[TopicPartition, FetchFrom]] = {}
        for place in self._open():
            if place in busy or place in self._troubled:
                continue
            leader = self._client.cluster.leader(place)
            if leader is None:
                self._on_trouble([place], self._client.cluster.why_not(place))
            elif leader.leader not in self._flights:
                fetch = FetchFrom(self._next[place], leader.epoch, self._partition_bytes_max)
                wanted.setdefault(leader.leader, {})[place] = fetch
        for broker, fetches in wanted.items():
            how = (broker, fetches, self._wait_ms, FETCH_BYTES_MAX, self._lane)
            flight = self._client.try_fetch(*how)
            if flight is None:
                flight = asyncio.get_running_loop().create_task(self._client.fetch_from(*how))
            flight.add_done_callback(self._on_done)
            self._flights[broker], self._asked[broker] = flight, fetches

    def _land(self) -> None:
        """Takes the answers that are here, and sees how far they reach."""
        for broker in [broker for broker, flight in self._flights.items() if flight.done()]:
            flight, asked = self._flights.pop(broker), self._asked.pop(broker)
            error = flight.exception()
            if isinstance(error, LogError):
                self._on_trouble(asked, error)
            elif error is not None:
                raise error
            else:
                self._on_answer(broker, asked, *flight.result())
        if self._repair is not None and self._repair.done():
            self._repair = None
            self._troubled.clear()

    def _on_answer(
        self, broker: int, asked: dict[TopicPartition, FetchFrom], error: int, answer: list[FetchedPartition]
    ) -> None:
        if error:
            self._on_trouble(asked, error_of(error, f"a fetch from broker {broker}"))
            return
        for found in answer:
            fetch = asked.get((found.topic, found.partition))
            if fetch is not None:
                self._on_fetched(found, fetch.offset)

    def _on_fetched(self, found: FetchedPartition, offset: int) -> None:
        place = found.topic, found.partition
        if found.error:
            self._on_trouble([place], error_of(found.error, f"{found.topic}-{found.partition}"))
            return
        self._unknown_since.pop(place, None)
        self._backoff.reset()
        self.highs[place] = found.high
        if self._next[place] == offset:
            self._next[place] = next_offset_of(found.batches, offset)
            self._landed.append(found)

    def _deliver(self, found: FetchedPartition) -> T | None:
        """What is handed out of an answer, if there is anything."""
        place = found.topic, found.partition
        offset = self.positions[place]
        try:
            delivery, self.positions[place] = self._read(found, offset, self._until.get(place))
        except CorruptBatch as error:
            text = f"a batch of {found.topic}-{found.partition} at or after offset {offset} is damaged ({error.detail})"
            raise Damaged(f"{text}: fetch it again, or start after it") from error
        finally:
            # Where reading ended earlier than was thought, what is on its way is not what comes next.
            self._next[place] = self.positions[place]
        return delivery

    @abstractmethod
    def _read(self, found: FetchedPartition, offset: int, until: int | None) -> tuple[T | None, int]:
        """What is handed out of an answer, if there is anything from `offset` to `until`, and the offset after it."""

    def _on_trouble(self, places: Iterable[TopicPartition], error: LogError) -> None:
        """Leaves these partitions out until the brokers were asked again; raises what does not pass."""
        if not error.retriable:
            raise error
        loop = asyncio.get_running_loop()
        for place in places:
            self._troubled.add(place)
            since = self._unknown_since.setdefault(place, loop.time())
            if not isinstance(error, UnknownTopic):
                self._unknown_since.pop(place)
            elif loop.time() - since > UNKNOWN_S:
                raise error
        if self._repair is None:
            self._repair = loop.create_task(self._ask_again(self._client.cluster.revision))
            self._repair.add_done_callback(self._on_done)

    async def _ask_again(self, seen: int) -> None:
        await asyncio.sleep(self._backoff.next_s())
        try:
            await self._client.cluster.refresh(seen)
        except LogError:
            # Nobody answers right now. The partitions are tried again, find no leader, and come back here.
            return


class Consumer(Reader[Delivery]):
    """Hands out records."""

    def _read(self, found: FetchedPartition, offset: int, until: int | None) -> tuple[Delivery | None, int]:
        records, next_offset = read_fetched(found.batches, offset)
        if until is not None and next_offset > until:
            records = [record for record in records if record.offset < until]
        return (Delivery(found.topic, found.partition, records) if records else None), next_offset


class ValueConsumer(Reader[ValueDelivery]):
    """Hands out values, and the offset of the first."""

    def _read(self, found: FetchedPartition, offset: int, until: int | None) -> tuple[ValueDelivery | None, int]:
        values, next_offset = read_fetched_values(found.batches, offset)
        first = next_offset - len(values)
        if until is not None and next_offset > until:
            del values[max(until - first, 0) :]
        return (ValueDelivery(found.topic, found.partition, first, values) if values else None), next_offset
