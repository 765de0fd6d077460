"""The journal's writer for one partition: one batch at a time, until it is there.

What waits is written as one batch; meanwhile the next one gathers, so a slow broker gets larger batches, not more.

1. A batch is sent when the one before it is acknowledged, and never given up. So no version is ever in the log before
   an earlier one of its space, whatever brokers, connections and producer ids do in between.
2. A batch keeps its number while it is sent again, so that the broker drops what it has. Where that is not possible,
   since the broker knows this writer no more, it is sent under a new id, and may be there twice: readers drop it.
3. A record that the topic does not take since it is too large holds up its own space only. It is tried again now and
   then: somebody may have raised the limit.

Memory: the queues hold the entries that the cores keep for the journal anyway, no copies; the cores bound them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from octoloom.core.event import JournalEntry
from octoloom.runtime.backoff import Backoff
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import LogError, TooLarge
from octoloom.wire.journal import JournalRecord, encode
from octoloom.wire.kafka.client_messages import TopicPartition
from octoloom.wire.kafka.records import RECORD_OVERHEAD_MAX, Record, build_batch

BATCH_BYTES_MAX = 512 * 1024
"""A batch ends with the record that reaches this."""
MESSAGE_BYTES_MAX = 32 * 1024 * 1024
"""The largest batch that the topic takes, as it is made here. What does not fit is not even sent."""
HEADERS_BYTES_MAX = 256
ASIDE_S = 10.0
"""How long a space whose next record is too large is left alone."""
BACKOFF_MAX_MS = 2_000.0
SEQUENCES = 1 << 31


class Item(NamedTuple):
    """An entry on its way into the journal."""

    chain: str
    space: str
    generation: int
    epoch: int
    entry: JournalEntry


class Letter(NamedTuple):
    item: Item
    record: Record


class LaneOwner(Protocol):
    def now_ms(self) -> int: ...
    def on_written(self, items: Sequence[Item]) -> None: ...
    def on_trouble(self, place: TopicPartition, error: LogError) -> None: ...
    def on_too_large(self, place: TopicPartition, item: Item, size: int) -> None: ...
    def on_broken(self, error: Exception) -> None: ...


class Lane:
    def __init__(
        self,
        client: LogClient,
        place: TopicPartition,
        first_tag: Callable[[], Awaitable[tuple[int, int]]],
        owner: LaneOwner,
    ) -> None:
        self._client, self._place, self._owner = client, place, owner
        self._get_tag = first_tag
        self._tag: tuple[int, int] | None = None
        self._sequence = 0
        self._queues: dict[str, deque[Item]] = {}
        self._aside: dict[str, deque[Item]] = {}
        """Spaces whose next record is too large."""
        self._last: dict[str, tuple[int, int]] = {}
        """(generation, version) of the newest entry of each space that is not acknowledged."""
        self._backoff = Backoff(max_ms=BACKOFF_MAX_MS)
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """When spaces that were put aside are tried again."""
        self._again: dict[str, None] = {}
        self.writing_since: float | None = None
        """When the batch under way was begun with, by the monotonic clock."""
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._on_ended)

    @property
    def idle(self) -> bool:
        """Whether everything is written, but for what is too large."""
        return self.writing_since is None and not self._queues

    @property
    def waiting(self) -> int:
        """How many spaces have something to write."""
        return len(self._last)

    def add(self, items: Iterable[Item]) -> None:
        """Entries of one space, in order. What waits here already, since another time as head, is not taken again."""
        for item in items:
            space, version = item.space, item.entry.version
            last = self._last.get(space)
            if last is not None and item.generation > last[0]:
                # The history that these belong to has ended.
                self._queues.pop(space, None)
                self._drop_aside(space)
            elif last is not None and (item.generation, version) <= last:
                continue
            self._last[space] = item.generation, version
            queue = self._queues.get(space)
            if queue is None:
                queue = self._queues[space] = deque()
            queue.append(item)
        self._wake.set()

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._owner.on_broken(error)

    # Writing.

    async def _run(self) -> None:
        while True:
            while not (letters := self._cut()):
                self._wake.clear()
                await self._wake.wait()
            self.writing_since = time.monotonic()
            await self._write(letters)
            self.writing_since = None

    def _cut(self) -> list[Letter]:
        """The next batch, spaces in turn."""
        self._take_back()
        letters: list[Letter] = []
        size = 0
        while self._queues and size < BATCH_BYTES_MAX:
            space = next(iter(self._queues))
            queue = self._queues.pop(space)
            while queue and size < BATCH_BYTES_MAX:
                letter = self._letter(queue.popleft())
                size += _size_of(letter)
                letters.append(letter)
            if queue:
                self._queues[space] = queue
        return letters

    def _letter(self, item: Item) -> Letter:
        now_ms = self._owner.now_ms()
        key, value, headers = encode(
            JournalRecord(item.space, item.chain, item.generation, item.epoch, now_ms, item.entry)
        )
        return Letter(item, Record(0, now_ms, key, value, headers))

    async def _write(self, letters: list[Letter]) -> None:
        """Writes these, in as many batches as it takes."""
        parts = deque([letters])
        while parts:
            part = self._writable(parts.popleft())
            if not part:
                continue
            try:
                await self._write_batch(part)
            except TooLarge:
                half = len(part) // 2
                if half:
                    parts.extendleft((part[half:], part[:half]))
                else:
                    self._put_aside(part[0])
            else:
                self._settle(part)

    async def _write_batch(self, letters: list[Letter]) -> None:
        """Returns when the batch is in the journal; raises only `TooLarge`, and then it is not."""
        if sum(map(_size_of, letters)) > MESSAGE_BYTES_MAX:
            raise TooLarge(f"a batch has at most {MESSAGE_BYTES_MAX} bytes")
        while True:
            try:
                await self._try(letters)
                self._backoff.reset()
                return
            except TooLarge:
                # An earlier attempt may have been written, and no answer came: under this id the number is taken, and
                # a broker would take whatever comes next with it for a duplicate.
                self._tag = None
                raise
            except LogError as error:
                if not error.retriable:
                    self._tag = None
                self._owner.on_trouble(self._place, error)
                await asyncio.sleep(self._backoff.next_s())

    async def _try(self, letters: list[Letter]) -> None:
        if self._tag is None:
            self._tag = await self._get_tag()
            # Only the first id is shared with the other partitions.
            self._get_tag = self._client.init_producer
            self._sequence = 0
        producer_id, producer_epoch = self._tag
        batch = build_batch(
            [letter.record for letter in letters],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=self._sequence,
        )
        await self._client.produce(*self._place, batch)
        self._sequence = (self._sequence + len(letters)) % SEQUENCES

    def _settle(self, letters: list[Letter]) -> None:
        for item, _ in letters:
            if self._last.get(item.space) == (item.generation, item.entry.version):
                del self._last[item.space]
        self._owner.on_written([letter.item for letter in letters])

    # What is too large.

    def _put_aside(self, letter: Letter) -> None:
        item = letter.item
        self._aside[item.space] = deque([item])
        self._timers[item.space] = self._loop.call_later(ASIDE_S, self._on_patience_over, item.space)
        self._owner.on_too_large(self._place, item, _size_of(letter))

    def _writable(self, letters: list[Letter]) -> list[Letter]:
        """What follows a record that was put aside waits behind it. In a batch a space's records lie side by side."""
        for item, _ in letters if self._aside else ():
            if item.space in self._aside:
                self._aside[item.space].append(item)
        return [letter for letter in letters if letter.item.space not in self._aside]

    def _on_patience_over(self, space: str) -> None:
        self._again[space] = None
        self._wake.set()

    def _take_back(self) -> None:
        """Between two batches all that was put aside of a space is in one place, in order."""
        again, self._again = self._again, {}
        for space in again:
            queue = self._aside.get(space)
            if queue is not None:
                queue.extend(self._queues.pop(space, ()))
                self._drop_aside(space)
                self._queues[space] = queue

    def _drop_aside(self, space: str) -> None:
        self._aside.pop(space, None)
        timer = self._timers.pop(space, None)
        if timer is not None:
            timer.cancel()


def _size_of(letter: Letter) -> int:
    _, _, key, value, _ = letter.record
    return len(key or b"") + len(value or b"") + RECORD_OVERHEAD_MAX + HEADERS_BYTES_MAX
