"""Where the records of a read come from, and the first of these origins: the leaders of the partitions.

An origin tells what there is (topics, the first and last offsets, offsets by time) and gives the records of a range of
offsets as Arrow batches. There are three: the brokers (`Reader`, here), segment files on this machine, and archives.
Nobody else has to know which one it is.

1. `rows` gives every record of the range once, in the order of offsets, in batches of at most `ROWS_MAX` rows.
2. It gives all of them, or raises: `OffsetsGone` if some are not there (any more), which tells what there is instead.
   All that lies before was given then, so the caller may go on from behind the hole if he chooses to.
3. An origin can be used from one thread at a time, and nothing is fetched that was not asked for.

`Reader` asks from an event loop of its own, in a thread. While the caller works on one answer the next are on their
way, `AHEAD_MAX` of them and not more. A leader that moves, or a broker that dies, is found again by the client.
"""

from __future__ import annotations

import asyncio
import queue
import re
import threading
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import uvloop

from octoloom.core.errors import OctoloomError
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import Damaged, OutOfRange
from octoloom.spark.ranges import Offsets, Place, Range
from octoloom.wire.kafka.batches import HEADER_SIZE, Buffer, CorruptBatch, read_header
from octoloom.wire.kafka.client_messages import EARLIEST, LATEST, Topic

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

TIMEOUT_MS = 60_000
"""How long the brokers may be away before a read fails: longer than they take to choose a new leader."""
FIRST_MS = 10_000
"""How long brokers may be silent that have never answered: most likely the address is wrong."""
FETCH_BYTES = 4 * 1024 * 1024
AHEAD_MAX = 2
"""Answers that wait for the caller to come back."""
ROWS_MAX = 64_000
FETCH_WAIT_MS = 500
OWN_TOPICS = "__"
"""What the names of topics begin with that brokers keep for themselves. No pattern finds them."""


class OffsetsGone(OctoloomError):  # noqa: N818
    """Records from `wanted` on are not there, or not any more: `first` and `high` say what is."""

    def __init__(self, wanted: Range, first: int, high: int) -> None:
        asked = f"offsets {wanted.start} to {wanted.end - 1}" if wanted.size > 1 else f"offset {wanted.start}"
        held = f"it holds {first} to {high - 1}" if high > first else f"it is empty, and {high} comes next"
        why = "retention removed what is missing" if wanted.start < first else "it never had more, or was made anew"
        super().__init__(
            f"{asked} of topic {wanted.topic}, partition {wanted.partition}, cannot be read: {held} ({why}). "
            "To go on with what is there set failOnDataLoss to false; to begin anew choose other startingOffsets, "
            "and for a stream another checkpointLocation"
        )
        self.wanted, self.first, self.high = wanted, first, high


class Origin(Protocol):
    """Where records come from. All of it blocks."""

    def topics(self, pattern: str | None = None) -> dict[str, list[int]]:
        """The topics whose whole name matches a regular expression, or all, with the numbers of their partitions."""
        ...

    def partitions(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions. It raises if there is no such topic."""
        ...

    def bounds(self, places: Iterable[Place]) -> dict[Place, tuple[int, int]]:
        """For each partition (first, high): its first offset, and the one after the last that can be read."""
        ...

    def offsets_at(self, places: Iterable[Place], ms: int) -> Offsets:
        """For each partition the first offset at or after a time, or -1 if all of it is older."""
        ...

    def rows(self, wanted: Range, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The records of the range, with these columns, in this order. It raises `OffsetsGone` if some are missing."""
        ...

    def close(self) -> None: ...


class RawOrigin:
    """An origin that has record batches as Kafka writes them: give it `raw`, and it has `rows`."""

    def raw(self, topic: str, partition: int, start: int, end: int) -> Iterator[Buffer]:
        """Whole batches, some megabytes at a time, from the one that holds `start` to the one that reaches `end`.

        What lies before `start` in the first batch and behind `end` in the last is cut off later. It raises
        `OffsetsGone` when it comes to an offset in the range that is not there.
        """
        raise NotImplementedError

    def rows(self, wanted: Range, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        from octoloom.spark.record_batches import decode_in_pieces

        topic, partition, start, end = wanted
        gone: list[OffsetsGone] = []
        raw = _until_gone(self.raw(topic, partition, start, end), gone)
        try:
            for rows in decode_in_pieces(raw, topic, partition, start=start, end=end, columns=columns):
                yield from sliced(rows)
        except CorruptBatch as error:
            text = f"a batch of {topic}-{partition} between the offsets {start} and {end} is damaged ({error.detail})"
            raise Damaged(f"{text}: read it from another replica, or start after it") from error
        if gone:
            raise gone[0]


def _until_gone(chunks: Iterator[Buffer], gone: list[OffsetsGone]) -> Iterator[Buffer]:
    """Ends where something is missing, so that what came before is decoded first, and then told."""
    try:
        yield from chunks
    except OffsetsGone as error:
        gone.append(error)


def sliced(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch as it is, or cut into equal ones of at most `ROWS_MAX` rows. Nothing is copied."""
    parts = -(-rows.num_rows // ROWS_MAX)
    if parts <= 1:
        yield rows
        return
    size = -(-rows.num_rows // parts)
    for first in range(0, rows.num_rows, size):
        yield rows.slice(first, size)


class Reader(RawOrigin):
    """Reads from the brokers, wherever their leaders are. Use it as a context manager, or `close` it."""

    def __init__(
        self,
        bootstrap: str,
        *,
        timeout_ms: int = TIMEOUT_MS,
        first_ms: int = FIRST_MS,
        fetch_bytes: int = FETCH_BYTES,
    ) -> None:
        self._client = LogClient(bootstrap, "octoloom-spark", timeout_ms)
        self._patience_ms = min(first_ms, timeout_ms)
        self._fetch_bytes = fetch_bytes
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="octoloom-fetching", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._thread.is_alive():
            self._wait(self._client.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # What there is.

    def topics(self, pattern: str | None = None) -> dict[str, list[int]]:
        wanted = re.compile(pattern) if pattern is not None else None
        found = self._wait(self._metadata(None))
        return {
            name: sorted(topic.partitions)
            for name, topic in sorted(found.items())
            if (wanted.fullmatch(name) and not name.startswith(OWN_TOPICS) if wanted else True) and not topic.error
        }

    def partitions(self, topic: str) -> list[int]:
        return sorted(self._wait(self._partitions(topic)))

    async def _partitions(self, topic: str) -> Iterable[int]:
        # What was heard before is of no use: partitions are added to topics while a stream reads them.
        found = (await self._metadata([topic])).get(topic)
        if found is None or found.error or not found.partitions:
            found = await self._client.topic(topic)
        return found.partitions

    async def _metadata(self, topics: Sequence[str] | None) -> dict[str, Topic]:
        said = await self._client.patiently(lambda _stale: self._client.metadata(topics), self._patience_ms)
        self._patience_ms = self._client.timeout_ms
        return said.topics

    def number(self, topic: str) -> int:
        """What tells the topic from another of the same name that was deleted before it."""
        from octoloom.spark.topic_identity import topic_number

        return self._wait(topic_number(self._client, topic))

    def bounds(self, places: Iterable[Place]) -> dict[Place, tuple[int, int]]:
        return self._wait(self._client.bounds(places))

    def offsets_at(self, places: Iterable[Place], ms: int) -> Offsets:
        return self._wait(self._client.list_offsets(dict.fromkeys(places, ms)))

    # What is in it.

    def raw(self, topic: str, partition: int, start: int, end: int) -> Iterator[Buffer]:
        arrived: queue.SimpleQueue[Buffer | BaseException | None] = queue.SimpleQueue()
        room = asyncio.Semaphore(AHEAD_MAX)
        pump = self._pump(Range(topic, partition, start, end), arrived, room)
        pumping = asyncio.run_coroutine_threadsafe(pump, self._loop)
        try:
            while (chunk := arrived.get()) is not None:
                if isinstance(chunk, BaseException):
                    raise chunk
                self._loop.call_soon_threadsafe(room.release)
                yield chunk
        finally:
            pumping.cancel()

    async def _pump(
        self, wanted: Range, arrived: queue.SimpleQueue[Buffer | BaseException | None], room: asyncio.Semaphore
    ) -> None:
        """Fetches until the range is through, and says so with None, or with the error that it met."""
        try:
            position = wanted.start
            while position < wanted.end:
                await room.acquire()
                batches, position = await self._fetch(wanted, position)
                arrived.put(batches)
            arrived.put(None)
        except BaseException as error:
            arrived.put(error)
            if isinstance(error, asyncio.CancelledError):
                raise

    async def _fetch(self, wanted: Range, position: int) -> tuple[Buffer, int]:
        """The whole batches of one answer, and the offset after them."""
        topic, partition, _, end = wanted
        left = Range(topic, partition, position, end)
        while True:
            try:
                fetched = await self._client.fetch(
                    topic, partition, position, bytes_max=self._fetch_bytes, wait_ms=FETCH_WAIT_MS
                )
            except OutOfRange:
                await self._check(left)
                raise
            batches, after = whole(fetched.batches, end)
            if after > position:
                return batches, after
            # Nothing is there yet. A new leader may need a moment to show what an older one has shown.
            await self._check(left)

    async def _check(self, wanted: Range) -> None:
        """Raises if the range is not in the log, as its leader knows it for sure."""
        place = wanted.place
        first = (await self._client.list_offsets({place: EARLIEST}))[place]
        high = (await self._client.list_offsets({place: LATEST}))[place]
        if wanted.start < first or wanted.end > high:
            raise OffsetsGone(wanted, first, high)


def whole(batches: memoryview, end: int) -> tuple[memoryview, int]:
    """The batches at the front of an answer that are not cut off and begin before `end`, and the offset after them."""
    position = 0
    after = -1
    while len(batches) - position >= HEADER_SIZE:
        header = read_header(batches, position)
        if header.size > len(batches) - position or header.base_offset >= end:
            break
        if header.size < HEADER_SIZE:
            raise CorruptBatch(f"a batch of {header.size} bytes at {position}")
        position += header.size
        after = header.next_offset
    return batches[:position], after
