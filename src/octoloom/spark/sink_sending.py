"""Sends the record batches of one task, each partition's in order, until all of them are committed.

A lane is a partition of a topic. Up to `IN_FLIGHT_MAX` of its batches are on their way; after an error nothing new is
sent until every answer is in, then the leader is looked up and all that is not acknowledged is sent again in order.
Numbers make that safe, and they make it safe for a rerun of the whole task to do the same.

A rerun is told from a first run by what the brokers answer to the first batch of a lane, which travels alone: that it
has an offset from before this task began, or that it is older than they remember (DUPLICATE_SEQUENCE). Either means
that it is written, and is a success. But brokers compare numbers, not contents: if Spark brings other rows this time,
or in another order, rows would be lost behind numbers that are taken. So a rerun

1. sends one batch at a time, and fetches what is there under an offset that it is told, and compares: other records end
   the task before anything else is written to this partition;
2. ends with an answer that names an offset: a rerun that is shorter than what was written is noticed, too.

What is so old that the brokers tell no offset is not compared; they tell it for the last five batches of a producer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from octoloom.core.errors import OctoloomError
from octoloom.runtime.backoff import Backoff
from octoloom.runtime.log_client import PRODUCE, LogClient
from octoloom.runtime.log_errors import (
    BrokenSequence,
    Fenced,
    LogError,
    NotLeader,
    OutOfRange,
    TooLarge,
    UnknownTopic,
    error_of,
)
from octoloom.spark.sink_batches import Batch
from octoloom.wire.kafka.client_messages import LATEST, Produced, TopicPartition
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.records import read_fetched, read_records

IN_FLIGHT_MAX = 5
"""Brokers remember the last five batches of a producer; more in flight could not be told from duplicates."""
HELD_BYTES_MAX = 8 * 1024 * 1024
"""Bytes that may wait for an acknowledgement while more rows are made into batches."""
UNKNOWN_S = 10.0
"""How long a topic that was there may be unknown before it counts as deleted."""

OTHER_ROWS = (
    "{place}: this batch was written before, in part or in whole, and with other rows or in another order. A rerun has "
    "to bring the same rows in the same order to the same Spark partitions: go back to the settings, the number of "
    "partitions and the plan of the first run; behind a shuffle set sort to true from the start. To write what is here "
    "nevertheless set writeId to a new name: what was written of this batch before is then there twice"
)
ZOMBIE = (
    "{place}: a later batch of this query was written already. If this query runs twice, stop this one. If it was set "
    "back on purpose, set writeId to a new name: what it writes again is then there twice"
)
LARGE = (
    "{place}: {what} with {size} bytes, more than the topic takes. Raise max.message.bytes of the topic (any Kafka "
    "admin client can), or write smaller values, and run again: what was written of this batch is not written twice"
)


class OtherRows(OctoloomError):  # noqa: N818
    """A rerun brought other rows than the first run."""


class LaterBatch(OctoloomError):  # noqa: N818
    """A task of an older batch: its work was done, and a later batch is under way."""


class RecordTooLarge(OctoloomError):  # noqa: N818
    """A record that no batch of the topic can hold."""


class Sender:
    """Sends the batches of one task. An error of one lane is raised by the next call."""

    def __init__(self, client: LogClient, timeout_s: float) -> None:
        self.client = client
        self.timeout_s = timeout_s
        self.held_bytes = 0
        self.partitions: dict[str, int] = {}
        """How many a topic has, for the topics that were looked up."""
        self._ends: dict[TopicPartition, int] = {}
        self._lanes: dict[TopicPartition, Lane] = {}
        self._settled = asyncio.Event()

    async def learn(self, topics: Iterable[str]) -> None:
        """Looks up topics, and where their partitions end before anything is written."""
        for topic in topics:
            if topic not in self.partitions:
                timeout_ms = int(self.timeout_s * 1000)
                found = await self.client.topic(topic, timeout_ms)
                places: list[TopicPartition] = [(topic, number) for number in found.partitions]
                self._ends |= await self.client.list_offsets(dict.fromkeys(places, LATEST), timeout_ms)
                self.partitions[topic] = len(found.partitions)

    async def send(self, batches: Iterable[Batch]) -> None:
        """Takes batches, and returns when there is room for more."""
        for batch in batches:
            lane = self._lanes.get(batch.place)
            if lane is None:
                lane = self._lanes[batch.place] = Lane(self, batch.place, self._ends[batch.place])
            self.held_bytes += len(batch.wire)
            lane.add(batch)
        await self._until(HELD_BYTES_MAX)

    async def finish(self) -> None:
        """Returns when everything is committed."""
        await self._until(0)
        for lane in self._lanes.values():
            lane.check_end()

    async def stop(self) -> None:
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _until(self, held_bytes: int) -> None:
        while True:
            for lane in self._lanes.values():
                lane.check()
            if self.held_bytes <= held_bytes:
                return
            self._settled.clear()
            await self._settled.wait()

    def on_settled(self, batch: Batch) -> None:
        self.held_bytes -= len(batch.wire)
        self._settled.set()

    def on_failed(self) -> None:
        self._settled.set()


class Lane:
    """The batches for one partition, on their way."""

    def __init__(self, sender: Sender, place: TopicPartition, end: int) -> None:
        self.task: asyncio.Task[None] | None = None
        self._sender, self._client, self._place = sender, sender.client, place
        self._name = f"{place[0]}-{place[1]}"
        self._end = end
        """Where the partition ended before this task wrote to it."""
        self._waiting: deque[Batch] = deque()
        self._flight: deque[tuple[Batch, asyncio.Future[Produced]]] = deque()
        self._in_flight_max = 1
        self._unplaced = False
        """The last answer said that the batch is written, and not where."""
        self._error: BaseException | None = None
        self._backoff = Backoff()
        self._trouble_since: float | None = None
        self._unknown_since: float | None = None

    def add(self, batch: Batch) -> None:
        self._waiting.append(batch)
        if self.task is None and self._error is None:
            self.task = asyncio.get_running_loop().create_task(self._run())

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def check_end(self) -> None:
        self.check()
        if self._unplaced:
            raise OtherRows(OTHER_ROWS.format(place=self._name))

    async def _run(self) -> None:
        try:
            is_reached = False
            while self._waiting or self._flight:
                try:
                    if not is_reached:
                        await self._client.reach(self._place, PRODUCE)
                        is_reached = True
                    self._post()
                    await self._settle()
                except LogError as error:
                    await self._mend(error)
        except Exception as error:
            self._error = error
            self._sender.on_failed()
        finally:
            self.task = None

    def _post(self) -> None:
        """Sends as many as may be on their way."""
        while self._waiting and len(self._flight) < self._in_flight_max:
            batch = self._waiting[0]
            answer = self._client.try_produce(self._place, batch.wire)
            assert answer is not None
            self._flight.append((self._waiting.popleft(), answer))

    async def _settle(self) -> None:
        """Waits for the answer to the oldest, which is the first to come."""
        batch, answer = self._flight[0]
        offset = _offset(self._place, await answer)
        self._unplaced = offset is None
        if offset is not None and offset < self._end:
            await self._compare(batch, offset)
        elif offset is not None:
            self._in_flight_max = IN_FLIGHT_MAX
        self._flight.popleft()
        self._trouble_since = self._unknown_since = None
        self._backoff.reset()
        self._sender.on_settled(batch)

    async def _compare(self, batch: Batch, offset: int) -> None:
        """Raises if other records are there than in this batch. Their times may differ: they are those of the run."""
        try:
            fetched = await self._client.fetch(*self._place, offset, bytes_max=len(batch.wire))
        except OutOfRange:
            return  # retention was faster
        there, _ = read_fetched(fetched.batches, offset)
        if not there:
            raise NotLeader(f"{self._name} has a new leader that does not know yet what is committed: try again")
        ours = read_records(batch.wire)
        if [record[2:] for record in there[: len(ours)]] != [record[2:] for record in ours]:
            raise OtherRows(OTHER_ROWS.format(place=self._name))

    async def _mend(self, error: LogError) -> None:
        """Waits for what is on its way, and finds the leader again; or raises what cannot be mended."""
        loop = asyncio.get_running_loop()
        stale = self._client.cluster.revision
        if not error.retriable:
            raise self._explained(error)
        await asyncio.gather(*(answer for _, answer in self._flight), return_exceptions=True)
        self._waiting.extendleft(batch for batch, _ in reversed(self._flight))
        self._flight.clear()
        while True:
            now = loop.time()
            self._trouble_since = self._trouble_since or now
            self._unknown_since = (self._unknown_since or now) if isinstance(error, UnknownTopic) else now
            is_late = now - self._trouble_since > self._sender.timeout_s or now - self._unknown_since > UNKNOWN_S
            if is_late or not error.retriable:
                raise self._explained(error)
            await asyncio.sleep(self._backoff.next_s())
            try:
                await self._client.reach(self._place, PRODUCE, stale)
                return
            except LogError as again:
                error, stale = again, self._client.cluster.revision

    def _explained(self, error: LogError) -> OctoloomError:
        if isinstance(error, BrokenSequence):
            return OtherRows(OTHER_ROWS.format(place=self._name))
        if isinstance(error, Fenced):
            return LaterBatch(ZOMBIE.format(place=self._name))
        if isinstance(error, TooLarge) and self._flight:
            batch = self._flight[0][0]
            what = "a record" if batch.count == 1 else f"{batch.count} records"
            return RecordTooLarge(LARGE.format(place=self._name, what=what, size=len(batch.wire)))
        return error


def _offset(place: TopicPartition, produced: Produced) -> int | None:
    """Where the batch is, or None if it was written so long ago that nobody knows where."""
    if produced.error == ErrorCode.DUPLICATE_SEQUENCE:
        return None
    if produced.error:
        raise error_of(produced.error, f"{place[0]}-{place[1]}")
    return produced.base_offset
