"""The records of one producer for one partition, in batches, in order, each written once.

Records that wait are cut into batches when there is room in flight: at the end of the tick if nothing is in flight,
and whenever an answer comes. A batch carries the producer's id and a sequence number, so that it may be sent again
without being written twice, and the broker refuses one whose predecessor it lacks.

1. At most `in_flight_max` batches are on their way, and they were sent in order.
2. After any error nothing new is sent until every answer is in. Then the leader is looked up, and all that is not
   acknowledged is sent again, in order, with the same numbers.
3. A batch that is given up leaves a gap in the numbers, so the rest goes on under a new id. A batch that may have been
   written already is never sent under another id: it fails, and says so.
4. What fails, fails by its deadline.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Unpack, cast

from octoloom.runtime.backoff import Backoff
from octoloom.runtime.log_client import PRODUCE, UNKNOWN_S, LogClient
from octoloom.runtime.log_errors import BrokenSequence, LogError, TimedOut, UnknownTopic, error_of
from octoloom.wire.kafka.client_messages import Produced, TopicPartition
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.records import RECORDS_MAX, BatchFields, Record, build_batch
from octoloom.wire.kafka.value_batches import Run, build_value_batch

SEQUENCES = 1 << 31
"""Numbers start again at 0 after so many."""

Written = tuple[int, int]
"""(partition, offset)"""


class Entry(NamedTuple):
    """What waits to be written together, a record or a run of values, and who waits for it."""

    content: Record | Run
    records: int
    """How many there are in it."""
    size: int
    written: asyncio.Future[Written]
    """Gets the place of the first one."""
    deadline: float


@dataclass(slots=True, eq=False)
class _Batch:
    entries: list[Entry]
    wire: bytes | bytearray = b""
    answer: asyncio.Future[Produced] | None = None
    error: LogError | None = None
    ambiguous: bool = False
    """It was sent, and nobody knows what became of it."""

    @property
    def records(self) -> int:
        return sum(entry.records for entry in self.entries)

    @property
    def deadline(self) -> float:
        return self.entries[0].deadline

    @property
    def is_pending(self) -> bool:
        return self.answer is not None and not self.answer.done()


@dataclass(frozen=True, slots=True)
class WriterSettings:
    codec: str
    batch_bytes_max: int
    in_flight_max: int
    on_settled: Callable[[Entry], None] = field(repr=False)
    """Called for every record that was written or has failed."""


class PartitionWriter:
    def __init__(
        self,
        client: LogClient,
        place: TopicPartition,
        settings: WriterSettings,
        first_tag: Callable[[], Awaitable[tuple[int, int]]],
    ) -> None:
        self._client, self._place, self._settings = client, place, settings
        self._get_tag = first_tag
        self._tag: tuple[int, int] | None = None
        self._sequence = 0
        self._waiting: deque[Entry] = deque()
        self._flight: deque[_Batch] = deque()
        self._mending: asyncio.Task[None] | None = None
        self._scheduled = False
        self._alarm: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._backoff = Backoff()
        self._trouble: LogError | None = None
        self._unknown_since: float | None = None
        self._stale: int | None = None
        """The newest that was known of leaders when something went wrong."""

    def add(self, entry: Entry) -> None:
        self._waiting.append(entry)
        if not self._scheduled and self._mending is None and len(self._flight) < self._settings.in_flight_max:
            self._scheduled = True
            self._loop.call_soon(self._drain)

    async def stop(self, error: LogError) -> None:
        """Fails everything that is not written."""
        if self._mending is not None:
            self._mending.cancel()
            await asyncio.gather(self._mending, return_exceptions=True)
        if self._alarm is not None:
            self._alarm.cancel()
        self._fail_all(error)

    # Sending.

    def _drain(self) -> None:
        self._scheduled = False
        if self._mending is not None:
            return
        while self._waiting and len(self._flight) < self._settings.in_flight_max:
            if self._tag is None:
                self._mend()
                return
            batch = _Batch(self._cut())
            self._flight.append(batch)
            try:
                self._seal(batch)
                self._post(batch)
            except LogError as error:
                self._on_trouble(batch, error)
                return

    def _cut(self) -> list[Entry]:
        """The next batch: as much of one kind as may go together, one entry at least."""
        entries = [self._waiting.popleft()]
        kind, size, records = type(entries[0].content), entries[0].size, entries[0].records
        while self._waiting and type(self._waiting[0].content) is kind:
            size += self._waiting[0].size
            records += self._waiting[0].records
            if size > self._settings.batch_bytes_max or records > RECORDS_MAX:
                break
            entries.append(self._waiting.popleft())
        return entries

    def _seal(self, batch: _Batch) -> None:
        """Gives the batch its place in this producer's sequence."""
        assert self._tag is not None
        batch.wire = _build(
            [entry.content for entry in batch.entries],
            codec=self._settings.codec,
            producer_id=self._tag[0],
            producer_epoch=self._tag[1],
            base_sequence=self._sequence,
        )
        self._sequence = (self._sequence + batch.records) % SEQUENCES

    def _post(self, batch: _Batch) -> None:
        answer = self._client.try_produce(self._place, batch.wire)
        assert answer is not None
        batch.answer, batch.error = answer, None
        answer.add_done_callback(partial(self._on_answer, batch))
        if self._alarm is None:
            self._alarm = self._loop.call_at(batch.deadline, self._on_alarm)

    def _on_alarm(self) -> None:
        """A broker that does not answer at all is no error yet; a deadline that has passed is."""
        self._alarm = None
        if self._flight and self._flight[0].deadline > self._loop.time():
            self._alarm = self._loop.call_at(self._flight[0].deadline, self._on_alarm)
        elif self._flight:
            self._mend()

    def _on_answer(self, batch: _Batch, answer: asyncio.Future[Produced]) -> None:
        if answer is not batch.answer or answer.cancelled():
            return
        error, base_offset = self._outcome(answer)
        if error is None:
            self._flight.remove(batch)
            self._succeed(batch, base_offset)
            self._drain()
        else:
            self._on_trouble(batch, error)

    def _outcome(self, answer: asyncio.Future[Produced]) -> tuple[LogError | None, int]:
        failure = answer.exception()
        if failure is not None:
            assert isinstance(failure, LogError), failure
            return failure, -1
        produced = answer.result()
        if produced.error == ErrorCode.DUPLICATE_SEQUENCE:
            # It was written so long ago that the broker has forgotten where.
            return None, -1
        if produced.error:
            return error_of(produced.error, f"{self._place[0]}-{self._place[1]}"), -1
        return None, produced.base_offset

    # Mending.

    def _on_trouble(self, batch: _Batch, error: LogError) -> None:
        self._trouble = batch.error = error
        batch.ambiguous = batch.ambiguous or error.ambiguous
        self._stale = self._client.cluster.revision
        self._mend()

    def _mend(self) -> None:
        if self._mending is None:
            self._mending = self._loop.create_task(self._mend_until_sent())
            self._mending.add_done_callback(self._on_mended)

    def _on_mended(self, task: asyncio.Task[None]) -> None:
        self._mending = None
        if not task.cancelled():
            task.result()
            self._drain()

    async def _mend_until_sent(self) -> None:
        while self._flight or self._waiting:
            pending = [batch.answer for batch in self._flight if batch.answer is not None and batch.is_pending]
            if pending:
                await asyncio.wait(pending, timeout=max(self._flight[0].deadline - self._loop.time(), 0))
            self._give_up()
            if self._trouble is not None:
                await asyncio.sleep(self._backoff.next_s())
            try:
                await self._resend()
                return
            except LogError as error:
                self._trouble = error
                self._stale = self._client.cluster.revision
                if not error.retriable:
                    self._fail_all(error)

    async def _resend(self) -> None:
        if self._tag is None:
            self._tag = await self._get_tag()
            # Only the first id is shared with the other partitions: theirs have no gap.
            self._get_tag = self._client.init_producer
            self._sequence = 0
            for batch in self._flight:
                self._seal(batch)
        await self._client.reach(self._place, PRODUCE, self._stale)
        for batch in self._flight:
            self._post(batch)

    def _give_up(self) -> None:
        """Fails what cannot be saved, and sees to it that the rest can go on."""
        now = self._loop.time()
        if self._flight and self._flight[0].error is not None and not self._flight[0].error.retriable:
            first = self._flight[0]
            # Behind a batch that failed, all are refused for the gap; so only the first one's error tells something.
            if isinstance(first.error, BrokenSequence) and not first.ambiguous:
                self._begin_anew()
            else:
                self._drop(first, first.error)
        if not isinstance(self._trouble, UnknownTopic):
            self._unknown_since = None
        elif self._unknown_since is None:
            self._unknown_since = now
        elif now - self._unknown_since > UNKNOWN_S:
            self._fail_all(self._trouble)
        late = self._trouble or TimedOut(f"{self._place[0]}-{self._place[1]} was not written in time: try again")
        while self._flight and self._flight[0].deadline <= now:
            self._drop(self._flight[0], late)
        while self._waiting and self._waiting[0].deadline <= now:
            self._fail([self._waiting.popleft()], late, False)

    def _fail_all(self, error: LogError) -> None:
        while self._flight:
            self._bury(self._flight[0], error)
        self._tag = None
        self._fail(self._waiting, error, False)
        self._waiting.clear()

    def _drop(self, batch: _Batch, error: LogError | None) -> None:
        assert error is not None
        self._bury(batch, error)
        self._begin_anew()

    def _begin_anew(self) -> None:
        """What is left goes on under a new id, and what may have been written already does not."""
        self._tag = None
        text = f"{self._place[0]}-{self._place[1]} may have been written, and cannot be sent again: look for it"
        for batch in [batch for batch in self._flight if batch.ambiguous or batch.is_pending]:
            self._bury(batch, TimedOut(text))

    def _bury(self, batch: _Batch, error: LogError) -> None:
        self._flight.remove(batch)
        self._fail(batch.entries, error, batch.ambiguous or batch.is_pending)
        # An answer that comes after all is not listened to.
        batch.answer = None

    # The end of a record.

    def _succeed(self, batch: _Batch, base_offset: int) -> None:
        self._backoff.reset()
        self._trouble = self._stale = None
        partition, offset = self._place[1], base_offset
        for entry in batch.entries:
            if not entry.written.done():
                entry.written.set_result((partition, offset if base_offset >= 0 else -1))
            offset += entry.records
            self._settings.on_settled(entry)

    def _fail(self, entries: list[Entry] | deque[Entry], error: LogError, ambiguous: bool) -> None:
        for entry in entries:
            if not entry.written.done():
                failure = type(error)(str(error))
                failure.ambiguous = ambiguous
                entry.written.set_exception(failure)
            self._settings.on_settled(entry)


def _build(contents: list[Record | Run], **fields: Unpack[BatchFields]) -> bytes | bytearray:
    """A batch of contents that are all of one kind."""
    if isinstance(contents[0], Run):
        return build_value_batch(cast(list[Run], contents), **fields)
    return build_batch(cast(list[Record], contents), **fields)
