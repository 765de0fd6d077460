"""Reads the journal to where it ends, for the chains that begin anew, and for who makes bookmarks of it.

Where it ends is found out by writing a mark there. A broker that led a partition once, and slept through its end as a
leader, would tell of an end that is long past; but it cannot have anything acknowledged. So all that was acknowledged
before the mark was written lies before the mark.

Where it begins is its beginning, or a bookmark (`journal_bookmarks.py`), which says what all before it comes to. It is
believed only if the mark that it was made at is found in its place: otherwise everything is read.

Every space has a `JournalReader` (`core/journal.py`), which drops what comes twice and notices what is missing. Spaces
of other chains are passed over by their key, and what comes twice by its headers: neither is opened.

What cannot be read is an error that names the place and the next step. It is an error of one chain: the others go on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from octoloom.core.bookmarks import Key
from octoloom.core.errors import ProtocolError, StoreError
from octoloom.core.event import SpaceSnapshot
from octoloom.core.journal import JournalGap, JournalReader
from octoloom.core.placement import place
from octoloom.runtime.journal_bookmarks import Bookmarks
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_consumer import Consumer
from octoloom.runtime.log_errors import Damaged
from octoloom.wire.journal import JournalRecord, decode_value, encode_mark, is_mark, maker_of, read_space, read_tag
from octoloom.wire.journal_bookmarks import Bookmark
from octoloom.wire.kafka.client_messages import EARLIEST, TopicPartition
from octoloom.wire.kafka.records import Headers, Record, build_batch

PARTITION_BYTES_MAX = 1024 * 1024
"""So much is read at a time."""
RECORDS_AT_ONCE = 100
"""So many are taken, and then others have their turn."""
PROGRESS_S = 5.0
"""How often a long read tells how far it is."""

_log = logging.getLogger("octoloom.journal")


class _Found:
    """A space of a chain that begins anew."""

    __slots__ = ("chain", "reader")

    def __init__(self, chain: str, space: str) -> None:
        self.chain = chain
        self.reader = JournalReader(space)


class JournalPass:
    """One pass over the topic. `beginning` are the chains to read, with the generation that begins in each.

    It reads these `partitions`, or all, and takes this `share` of the process's time.
    """

    def __init__(
        self,
        client: LogClient,
        topic: str,
        beginning: Mapping[str, int],
        chains: Sequence[str],
        bookmarks: Bookmarks | None = None,
        partitions: Sequence[int] | None = None,
        share: float = 1.0,
    ) -> None:
        self._client, self._topic = client, topic
        self.beginning = dict(beginning)
        self._chains = list(chains)
        self._bookmarks, self._partitions, self._share = bookmarks, partitions, share
        self._spaces: dict[bytes | None, _Found | None] = {}
        """By key; None for a space of another chain, or of one that cannot be read."""
        self._expected: dict[TopicPartition, dict[int, str]] = {}
        """The marks that bookmarks were made at: offset → name."""
        self.name = os.urandom(8).hex()
        """What its marks are called."""
        self.marks: dict[TopicPartition, int] = {}
        """Where they lie: all that was acknowledged before is read."""
        self.opened: dict[Key, Bookmark] = {}
        self.grown: Counter[Key] = Counter()
        """Bytes that were read of a chain in a partition, behind its bookmark."""
        self.failures: dict[str, StoreError] = {}
        """The chains that cannot be read, and why."""
        self.strays = 0
        """Records whose key is no space: no head has written them."""
        self.records = 0
        self.heard_at = time.monotonic()
        """When the brokers last brought something."""

    async def run(self) -> None:
        """Raises `LogError` if the brokers cannot be reached for too long; then another pass may go better."""
        begun = time.monotonic()
        partitions = (await self._client.topic(self._topic)).partitions
        wanted = [number for number in sorted(partitions) if self._partitions is None or number in self._partitions]
        starts = await self._client.list_offsets({(self._topic, number): EARLIEST for number in wanted})
        if not await self._read_from(await self._open_bookmarks(starts)):
            _log.warning("the bookmarks of the topic %s are of another journal: all of it is read", self._topic)
            self._forget()
            await self._read_from(starts)
        found = sum(1 for found in self._spaces.values() if found is not None)
        text = "read %d records of the topic %s in %.1f s: %d spaces of %s"
        _log.info(text, self.records, self._topic, time.monotonic() - begun, found, ", ".join(self.beginning))
        if self.strays:
            _log.warning("%d records of the topic %s have no space as key, and were left out", self.strays, self._topic)

    async def _read_from(self, starts: Mapping[TopicPartition, int]) -> bool:
        """Reads from there to the marks; False if a bookmark was made at a mark that is not there."""
        until = self.marks = dict(zip(starts, await asyncio.gather(*map(self._mark, starts)), strict=True))
        if any(offset >= until[where] for where, marks in self._expected.items() for offset in marks):
            return False
        total = sum(until[where] - start for where, start in starts.items())
        told = time.monotonic()
        async with Consumer(self._client, starts, until=until, partition_bytes_max=PARTITION_BYTES_MAX) as consumer:
            async for topic, partition, records in consumer:
                self.heard_at = time.monotonic()
                if not self._is_expected((topic, partition), records):
                    return False
                await self._read((topic, partition), records)
                if time.monotonic() - told > PROGRESS_S:
                    told = time.monotonic()
                    _log.info("read %d of %d records of the topic %s", self.records, total, self._topic)
        if self.records != total:
            # Nothing is ever taken out of the middle of this log.
            raise Damaged(f"{total - self.records} of {total} records of the topic {self._topic} did not come")
        return True

    async def _mark(self, where: TopicPartition) -> int:
        """Writes a mark, and answers its offset."""
        now_ms = time.time_ns() // 1_000_000
        value, headers = encode_mark(self.beginning, now_ms, self.name)
        return await self._client.produce(*where, build_batch([Record(0, now_ms, None, value, headers)]))

    # Bookmarks.

    async def _open_bookmarks(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """From where each partition is read, with what lies before it taken from bookmarks."""
        if self._bookmarks is None:
            return dict(starts)
        offsets = await asyncio.gather(*(self._open(self._bookmarks, where, starts[where]) for where in starts))
        return dict(zip(starts, offsets, strict=True))

    async def _open(self, bookmarks: Bookmarks, where: TopicPartition, start: int) -> int:
        known = await bookmarks.find(where[1])
        wanted = {chain: known[chain] for chain in self.beginning if chain in known}
        if len(wanted) < len(self.beginning) or any(bookmark.offset < start for bookmark in wanted.values()):
            # One of the chains has to read all of it, and the others can do it with that one.
            return start
        taken: list[JournalRecord] = []
        for chain, bookmark in wanted.items():
            spaces = await bookmarks.open(where[1], chain, bookmark)
            if spaces is None or any(not self._may_take(each) for each in spaces):
                _log.warning("the bookmark of %s in %s-%d is not whole: it is passed over", chain, *where)
                return start
            taken += spaces
        for each in taken:
            found = self._spaces[each.space.encode()] = _Found(each.chain, each.space)
            found.reader.read(each.generation, each.entry)
        self._expected[where] = {bookmark.offset: bookmark.run for bookmark in wanted.values()}
        self.opened.update({(chain, where[1]): bookmark for chain, bookmark in wanted.items()})
        return min(bookmark.offset for bookmark in wanted.values())

    def _may_take(self, start: JournalRecord) -> bool:
        """What may not be here is told when the journal itself is read."""
        in_place = place(start.space, self._chains) == start.chain
        return in_place and start.generation < self.beginning[start.chain]

    def _is_expected(self, where: TopicPartition, records: Sequence[Record]) -> bool:
        """Whether those marks are here that should be."""
        expected = self._expected.get(where)
        if not expected or not records:
            return True
        first = records[0].offset
        for offset in [offset for offset in expected if first <= offset <= records[-1].offset]:
            mark = records[offset - first]
            if maker_of(mark.key, mark.value, mark.headers) != expected[offset]:
                return False
        return True

    def _forget(self) -> None:
        self._spaces, self._expected, self.opened = {}, {}, {}
        self.failures, self.grown, self.records, self.strays = {}, Counter(), 0, 0

    # Records.

    async def _read(self, where: TopicPartition, records: list[Record]) -> None:
        self.records += len(records)
        for first in range(0, len(records), RECORDS_AT_ONCE):
            begun = time.monotonic()
            self._take_all(where, records[first : first + RECORDS_AT_ONCE])
            # Heartbeats and the other chains of this process have their turn in between.
            await asyncio.sleep((time.monotonic() - begun) * (1 / self._share - 1))

    def _take_all(self, where: TopicPartition, records: list[Record]) -> None:
        spaces = self._spaces
        for record in records:
            key = record[2]
            found = spaces[key] if key in spaces else self._meet(key, record[4])
            if found is not None:
                self.grown[found.chain, where[1]] += len(record[3] or b"")
                self._take(where, record, found)

    def _meet(self, key: bytes | None, headers: Headers) -> _Found | None:
        try:
            space = read_space(key)
        except ProtocolError:
            self.strays += not is_mark(key, headers)
            return None
        chain = place(space, self._chains)
        wanted = chain in self.beginning and chain not in self.failures
        found = self._spaces[key] = _Found(chain, space) if wanted else None
        return found

    def _take(self, where: TopicPartition, record: Record, found: _Found) -> None:
        offset, _, _, value, headers = record
        reader = found.reader
        try:
            tag = read_tag(headers)
            if (tag.generation, tag.version) <= (reader.generation, reader.space.version):
                return
            journaled = decode_value(reader.space.name, tag, value)
            if journaled.chain != found.chain:
                raise StoreError(_moved(journaled.space, journaled.chain, found.chain))
            if journaled.generation >= self.beginning[found.chain]:
                raise StoreError(_amnesia(found.chain, journaled.generation, self.beginning[found.chain]))
            reader.read(journaled.generation, journaled.entry)
        except ProtocolError as error:
            look = f"octoloom topic consume {self._topic} -p {where[1]} --from {offset} -c 1 --json"
            self._fail(where, offset, found, f"this is no record of a journal ({error}): look at it with `{look}`")
        except JournalGap as error:
            text = f"{error}: records of this topic were deleted, or it is not the whole journal"
            self._fail(where, offset, found, text)
        except StoreError as error:
            self._fail(where, offset, found, str(error))

    def _fail(self, where: TopicPartition, offset: int, found: _Found, text: str) -> None:
        place_of = f"the journal of {found.chain} cannot be read at {where[0]}-{where[1]}, offset {offset}"
        rest = "to begin with empty spaces, start the links with another --journal-topic"
        self.failures[found.chain] = StoreError(f"{place_of}: {text}; {rest}")
        for key, other in self._spaces.items():
            if other is not None and other.chain == found.chain:
                self._spaces[key] = None

    def readers(self, chain: str) -> list[JournalReader]:
        """What was read of the chain's spaces."""
        return [found.reader for found in self._spaces.values() if found is not None and found.chain == chain]

    async def snapshots(self, chain: str) -> list[SpaceSnapshot]:
        """What the chain takes over. Each is a whole state, so others have their turn in between."""
        taken = []
        for reader in self.readers(chain):
            taken.append(reader.start())
            await asyncio.sleep(0)
        return taken


def _amnesia(chain: str, held: int, begins: int) -> str:
    text = f"it holds generation {held} of {chain}, and the register begins with generation {begins}"
    return f"{text}: the register has lost what it knew; start it with the data that it had"


def _moved(space: str, before: str, now: str) -> str:
    text = f"{before} published the space {space!r}, which belongs to {now} now"
    return f"{text}: start the register with the chains that it had"
