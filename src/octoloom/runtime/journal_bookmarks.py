"""Bookmarks of the journal: what its beginning comes to, so that a chain that begins anew need not read all of it.

A bookmark says what a reader of one partition has of a chain's spaces when it comes to a certain mark. It follows from
the log before that mark and from nothing else, and that part of the log never changes. So whoever makes one makes the
right one, whether it is still a head or not; an old one is as true as a new one, only further back; and where one is
missing, damaged or of another journal, reading from the beginning comes to the same.

1. A run counts once a list behind it names it, and is whole if it has as many spaces as the list says.
2. The mark has the name of the run. A reader that does not find that mark where the bookmark says reads another journal
   under the old name, and takes nothing from the bookmark.
3. Records may be there twice, runs may lie between each other, and some never came to their end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from octoloom.core.errors import ProtocolError
from octoloom.core.event import JournalEntry
from octoloom.core.journal import JournalReader
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_consumer import Consumer
from octoloom.runtime.log_errors import TopicExists
from octoloom.wire.journal import JournalRecord, decode
from octoloom.wire.journal_bookmarks import Bookmark, decode_list, encode_list, encode_start, is_list, run_of
from octoloom.wire.kafka.client_messages import EARLIEST, LATEST
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.records import Record, build_batch

SUFFIX = "-bookmarks"
BATCH_BYTES_MAX = 512 * 1024
WINDOW = 16
"""How many records are looked at for the last list; then twice as many, and so on."""


class Bookmarks:
    """Those of one journal. Its topic has the journal's partitions."""

    def __init__(self, client: LogClient, journal: str, config: Mapping[str, str]) -> None:
        self._client, self._topic, self._config = client, journal + SUFFIX, config
        self._is_there = False

    # Reading.

    async def find(self, partition: int) -> dict[str, Bookmark]:
        """The newest bookmark of each chain, as the last list has them. One that cannot be read is none."""
        if not await self._exists():
            return {}
        where = self._topic, partition
        starts, ends = [await self._client.list_offsets({where: what}) for what in (EARLIEST, LATEST)]
        start, end, window = starts[where], ends[where], WINDOW
        while start < end:
            first = max(start, end - window)
            lists = [
                record for record in await self._read(partition, first, end) if is_list(record.key, record.headers)
            ]
            if lists:
                try:
                    return decode_list(lists[-1].value)
                except ProtocolError:
                    return {}
            if first == start:
                break
            window *= 2
        return {}

    async def open(self, partition: int, chain: str, bookmark: Bookmark) -> list[JournalRecord] | None:
        """The spaces of a bookmark; None if it is not whole."""
        found: dict[str, JournalRecord] = {}
        where = self._topic, partition
        end = (await self._client.list_offsets({where: LATEST}))[where]
        begin = (await self._client.list_offsets({where: EARLIEST}))[where]
        if bookmark.spaces and not begin <= bookmark.first < end:
            return None
        async with self._consumer(partition, bookmark.first, end) as consumer:
            while len(found) < bookmark.spaces and (delivery := await anext(consumer, None)) is not None:
                for record in delivery.records:
                    if run_of(record.headers) == bookmark.run and record.offset >= bookmark.first:
                        try:
                            start = decode(record.key, record.value, record.headers)
                        except ProtocolError:
                            return None
                        found[start.space] = start
        whole = len(found) == bookmark.spaces
        mine = all(start.chain == chain and start.entry.start is not None for start in found.values())
        return list(found.values()) if whole and mine else None

    async def _read(self, partition: int, first: int, end: int) -> list[Record]:
        async with self._consumer(partition, first, end) as consumer:
            return [record async for delivery in consumer for record in delivery.records]

    def _consumer(self, partition: int, first: int, end: int) -> Consumer:
        where = self._topic, partition
        return Consumer(self._client, {where: first}, until={where: end})

    # Writing.

    async def write(
        self, partition: int, chain: str, run: str, offset: int, readers: Sequence[JournalReader], partitions: int
    ) -> Bookmark:
        """Writes what these readers have at the mark with this name and offset, and lists it."""
        await self._make(partitions)
        others = await self.find(partition)
        first, size = -1, 0
        for batch in _batches(run, chain, readers):
            at = await self._client.produce(self._topic, partition, build_batch(batch))
            first = at if first < 0 else first
            size += sum(len(record.value or b"") for record in batch)
        bookmark = Bookmark(run, offset, max(first, 0), len(readers), size)
        now_ms = _now_ms()
        value, headers = encode_list({**others, chain: bookmark}, now_ms)
        await self._client.produce(self._topic, partition, build_batch([Record(0, now_ms, None, value, headers)]))
        return bookmark

    async def _exists(self) -> bool:
        if not self._is_there:
            known = (await self._client.metadata([self._topic])).topics.get(self._topic)
            self._is_there = known is not None and known.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self._is_there

    async def _make(self, partitions: int) -> None:
        if not await self._exists():
            try:
                await self._client.create_topic(self._topic, partitions, config=self._config)
            except TopicExists:
                # Another link was faster.
                return


def _batches(run: str, chain: str, readers: Sequence[JournalReader]) -> Iterable[list[Record]]:
    """Each is made when it is asked for: the states of all spaces as text may be a lot."""
    batch: list[Record] = []
    size = 0
    for reader in readers:
        snapshot, now_ms = reader.space.snapshot(), _now_ms()
        entry = JournalEntry(snapshot.version, None, [], start=snapshot)
        record = JournalRecord(snapshot.space, chain, reader.generation, 0, now_ms, entry)
        key, value, headers = encode_start(run, record)
        batch.append(Record(0, now_ms, key, value, headers))
        size += len(value)
        if size >= BATCH_BYTES_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
