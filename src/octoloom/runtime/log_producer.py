"""Writes records to topics: many at a time, each once, keys where other clients put them.

    async with Producer(client) as producer:
        written = producer.send("journal", b"value", key=b"space")
        partition, offset = await written
        await producer.send_many("journal", [b"one", b"two", b"three"])

What is sent within one tick of the loop leaves together, at its end. While batches are on their way records gather, so
a busy producer makes large batches without being told to wait. A record without a key goes where the others without
a key of this moment go; the place changes now and then.

`send_many` is for values that come by the thousand: they are one entry, one future and one batch, and cost a tenth of
what as many calls of `send` cost.

Memory is bounded: `send` raises `Full` when `buffer_bytes_max` are waiting, and `room` waits until there is some.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Iterable, Sequence

from octoloom.core.errors import UsageError
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import LogError
from octoloom.runtime.log_writer import Entry, PartitionWriter, WriterSettings, Written
from octoloom.wire.kafka.compression import number_of
from octoloom.wire.kafka.partitioner import partition_of
from octoloom.wire.kafka.records import RECORD_OVERHEAD_MAX, RECORDS_MAX, Headers, Record, encoded_name
from octoloom.wire.kafka.value_batches import SIZES_DIFFER, VALUE_OVERHEAD_MAX, Run

BATCH_BYTES_MAX = 768 * 1024
"""Large enough for a broker's work per batch not to matter, and a fetch of a megabyte brings one whole."""
BUFFER_BYTES_MAX = 64 * 1024 * 1024
IN_FLIGHT_MAX = 5
"""Brokers remember the last five batches of a producer; more in flight could not be told from duplicates."""
STICKY_S = 0.01
"""So long records without a key go to one partition before another is chosen."""


class Full(LogError):  # noqa: N818
    """Too many bytes wait to be written: await `room()` and send again."""

    retriable = True


class Closed(LogError):  # noqa: N818
    """The producer was closed before this was written."""


class Producer:
    """Use it as an async context manager, or `close` it."""

    def __init__(
        self,
        client: LogClient,
        *,
        codec: str = "none",
        batch_bytes_max: int = BATCH_BYTES_MAX,
        buffer_bytes_max: int = BUFFER_BYTES_MAX,
        in_flight_max: int = IN_FLIGHT_MAX,
        timeout_ms: int | None = None,
    ) -> None:
        number_of(codec)
        if not 1 <= in_flight_max <= IN_FLIGHT_MAX:
            raise UsageError(
                f"{in_flight_max} batches in flight: choose 1 to {IN_FLIGHT_MAX}, brokers remember no more"
            )
        self._client = client
        self._settings = WriterSettings(codec, batch_bytes_max, in_flight_max, self._on_settled)
        self._buffer_bytes_max = buffer_bytes_max
        self._timeout_s = (client.timeout_ms if timeout_ms is None else timeout_ms) / 1000
        self._loop = asyncio.get_running_loop()
        self._writers: dict[tuple[str, int], PartitionWriter] = {}
        self._unplaced: dict[str, deque[Entry]] = {}
        self._lookups: set[asyncio.Task[None]] = set()
        self._sticky: dict[str, tuple[int, float]] = {}
        self._tag: asyncio.Task[tuple[int, int]] | None = None
        self._held_bytes = 0
        self._pending = 0
        self._changed: list[asyncio.Future[None]] = []
        self._closed = False

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, error: object, *_: object) -> None:
        await self.close(flush=error is None)

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> asyncio.Future[Written]:
        """Writes a record by and by; the future gets (partition, offset), or the error."""
        record = Record(0, int(time.time() * 1000) if timestamp is None else timestamp, key, value, headers)
        return self._send(topic, record, 1, checked_size(record), key, partition)

    def send_many(
        self, topic: str, values: Sequence[bytes | None], *, partition: int | None = None, timestamp: int | None = None
    ) -> asyncio.Future[Written]:
        """Writes values without keys, all of them or none, one after the other in one partition.

        The future gets (partition, offset) of the first. They fit into one batch: cut up what is larger.
        """
        run, size = checked_run(int(time.time() * 1000) if timestamp is None else timestamp, values)
        if size > self._settings.batch_bytes_max:
            raise UsageError(
                f"{len(values)} values take {size} bytes, and a batch has {self._settings.batch_bytes_max}: "
                "send fewer at a time, or make the producer with a larger batch_bytes_max"
            )
        return self._send(topic, run, len(values), size, None, partition)

    def _send(
        self, topic: str, content: Record | Run, records: int, size: int, key: bytes | None, partition: int | None
    ) -> asyncio.Future[Written]:
        self._admit(topic, size)
        entry = Entry(content, records, size, self._loop.create_future(), self._loop.time() + self._timeout_s)
        self._held_bytes += size
        self._pending += 1
        if partition is None and topic not in self._unplaced:
            partition = self._choose(topic, key)
        if partition is None:
            self._place_later(topic, entry)
        else:
            self._writer(topic, partition).add(entry)
        return entry.written

    def _admit(self, topic: str, size: int) -> None:
        if self._closed:
            raise Closed("the producer is closed: make a new one")
        if not topic:
            raise UsageError("a record needs a topic: name one")
        if size > self._buffer_bytes_max:
            raise UsageError(
                f"a record of {size} bytes does not fit into a buffer of {self._buffer_bytes_max}: cut it up"
            )
        if self._held_bytes + size > self._buffer_bytes_max:
            raise Full(f"{self._held_bytes} bytes wait to be written: await room() and send again")

    async def room(self) -> None:
        """Returns when half of the buffer is free."""
        while self._held_bytes > self._buffer_bytes_max // 2:
            await self._change()

    async def flush(self) -> None:
        """Returns when everything that was sent is written, or has failed."""
        while self._pending:
            await self._change()

    async def close(self, flush: bool = True) -> None:
        """Waits for what was sent, and ends. Without `flush` what is not written fails."""
        self._closed = True
        if flush:
            await self.flush()
        error = Closed("the producer was closed before this was written: send it again")
        tasks = [*self._lookups, *([self._tag] if self._tag is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._writers.values():
            await writer.stop(error)
        for entries in self._unplaced.values():
            self._refuse(entries, error)
        self._unplaced.clear()

    # Where a record goes.

    def _choose(self, topic: str, key: bytes | None) -> int | None:
        """The partition, or None while nobody knows how many there are."""
        known = self._client.cluster.topic(topic)
        if known is None or not known.partitions:
            return None
        count = len(known.partitions)
        if key is not None:
            return partition_of(key, count)
        partition, until = self._sticky.get(topic, (0, 0.0))
        if self._loop.time() >= until:
            led = [one.number for one in known.partitions.values() if one.leader >= 0]
            partition = random.choice(led or list(known.partitions))
            self._sticky[topic] = partition, self._loop.time() + STICKY_S
        return partition

    def _writer(self, topic: str, partition: int) -> PartitionWriter:
        writer = self._writers.get((topic, partition))
        if writer is None:
            writer = PartitionWriter(self._client, (topic, partition), self._settings, self._first_tag)
            self._writers[topic, partition] = writer
        return writer

    async def _first_tag(self) -> tuple[int, int]:
        """The id that all partitions begin with, asked for once."""
        if self._tag is None or (self._tag.done() and (self._tag.cancelled() or self._tag.exception() is not None)):
            self._tag = self._loop.create_task(self._client.init_producer())
        return await asyncio.shield(self._tag)

    def _place_later(self, topic: str, entry: Entry) -> None:
        """Keeps a record until the topic's partitions are known; those after it wait behind it."""
        if topic not in self._unplaced:
            self._unplaced[topic] = deque()
            task = self._loop.create_task(self._look_up(topic))
            self._lookups.add(task)
            task.add_done_callback(self._lookups.discard)
        self._unplaced[topic].append(entry)

    async def _look_up(self, topic: str) -> None:
        try:
            await self._client.topic(topic, int(self._timeout_s * 1000))
        except LogError as error:
            self._refuse(self._unplaced.pop(topic), error)
            return
        for entry in self._unplaced.pop(topic):
            content = entry.content
            partition = self._choose(topic, content.key if isinstance(content, Record) else None)
            assert partition is not None
            self._writer(topic, partition).add(entry)

    def _refuse(self, entries: Iterable[Entry], error: LogError) -> None:
        for entry in entries:
            if not entry.written.done():
                entry.written.set_exception(type(error)(str(error)))
            self._on_settled(entry)

    # How much there is.

    def _on_settled(self, entry: Entry) -> None:
        self._held_bytes -= entry.size
        self._pending -= 1
        if self._changed and (not self._pending or self._held_bytes <= self._buffer_bytes_max // 2):
            changed, self._changed = self._changed, []
            for future in changed:
                if not future.done():
                    future.set_result(None)

    async def _change(self) -> None:
        future = self._loop.create_future()
        self._changed.append(future)
        await future


def checked_size(record: Record) -> int:
    """About as many bytes as the record takes; what no batch can hold is refused here."""
    _, timestamp, key, value, headers = record
    size = RECORD_OVERHEAD_MAX
    for content in (key, value):
        if isinstance(content, bytes):
            size += len(content)
        elif content is not None:
            raise UsageError(f"keys and values are bytes or None, not {type(content).__name__}: encode it first")
    for name, content in headers:
        if not isinstance(name, str) or not (content is None or isinstance(content, bytes)):
            raise UsageError("a header is a name and bytes or None, as in ('trace', b'1')")
        size += 10 + len(encoded_name(name)) + len(content or b"")
    check_timestamp(timestamp)
    return size


def checked_run(timestamp: int, given: Sequence[bytes | None]) -> tuple[Run, int]:
    """A run of values, and about as many bytes as it takes."""
    # It is written later, and its caller may do with the list as he likes.
    values = tuple(given)
    count, kinds = len(values), list(map(type, values))
    if not 0 < count <= RECORDS_MAX:
        raise UsageError(f"{count} values are no batch: send 1 to {RECORDS_MAX}")
    check_timestamp(timestamp)
    if kinds.count(bytes) == count:
        sizes = list(map(len, values))  # type: ignore[arg-type]  # none of them is None
        is_one_size = sizes.count(sizes[0]) == count
        total = sizes[0] * count if is_one_size else sum(sizes)
        return Run(timestamp, values, sizes[0] if is_one_size else SIZES_DIFFER), total + VALUE_OVERHEAD_MAX * count
    for kind in kinds:
        if not issubclass(kind, bytes | None):
            raise UsageError(f"values are bytes or None, not {kind.__name__}: encode them first")
    return Run(timestamp, values), sum(map(len, filter(None, values))) + VALUE_OVERHEAD_MAX * count


def check_timestamp(timestamp: int) -> None:
    if not -1 <= timestamp < 1 << 62:
        raise UsageError(f"{timestamp} is no timestamp: give milliseconds since 1970")
