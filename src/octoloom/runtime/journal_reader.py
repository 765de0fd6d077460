"""Reads the journal from its beginning to where it ends, for the chains that begin anew.

Where it ends is found out by writing a mark there. A broker that led a partition once, and slept through its end as a
leader, would tell of an end that is long past; but it cannot have anything acknowledged. So all that was acknowledged
before the mark was written lies before the mark.

Every space has a `JournalReader` (`core/journal.py`), which drops what comes twice and notices what is missing. Spaces
of other chains are passed over by their key, and what comes twice by its headers: neither is opened.

What cannot be read is an error that names the place and the next step. It is an error of one chain: the others go on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

from octoloom.core.errors import ProtocolError, StoreError
from octoloom.core.event import SpaceSnapshot
from octoloom.core.journal import JournalGap, JournalReader
from octoloom.core.placement import place
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_consumer import Consumer
from octoloom.runtime.log_errors import Damaged
from octoloom.wire.journal import decode_value, encode_mark, is_mark, read_space, read_tag
from octoloom.wire.kafka.client_messages import EARLIEST, TopicPartition
from octoloom.wire.kafka.records import Headers, Record, build_batch

PARTITION_BYTES_MAX = 1024 * 1024
"""So much is read at a time, and then others have their turn."""
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
    """One pass over the topic. `beginning` are the chains to read, with the generation that begins in each."""

    def __init__(self, client: LogClient, topic: str, beginning: Mapping[str, int], chains: Sequence[str]) -> None:
        self._client, self._topic = client, topic
        self._beginning = dict(beginning)
        self._chains = list(chains)
        self._spaces: dict[bytes | None, _Found | None] = {}
        """By key; None for a space of another chain, or of one that cannot be read."""
        self.failures: dict[str, StoreError] = {}
        """The chains that cannot be read, and why."""
        self.strays = 0
        """Records whose key is no space: no head has written them."""
        self.records = 0
        self.heard_at = time.monotonic()
        """When the brokers last brought something."""

    async def run(self) -> None:
        """Raises `LogError` if the brokers cannot be reached for too long; then another pass may go better."""
        partitions = (await self._client.topic(self._topic)).partitions
        places = [(self._topic, number) for number in sorted(partitions)]
        starts = await self._client.list_offsets(dict.fromkeys(places, EARLIEST))
        marks = await asyncio.gather(*map(self._mark, places))
        until = dict(zip(places, marks, strict=True))
        total = sum(until[where] - starts[where] for where in places)
        begun = told = time.monotonic()
        async with Consumer(self._client, starts, until=until, partition_bytes_max=PARTITION_BYTES_MAX) as consumer:
            async for topic, partition, records in consumer:
                self.heard_at = time.monotonic()
                self._read((topic, partition), records)
                if time.monotonic() - told > PROGRESS_S:
                    told = time.monotonic()
                    _log.info("read %d of %d records of the topic %s", self.records, total, self._topic)
                # Heartbeats and the other chains of this process have their turn between any two.
                await asyncio.sleep(0)
        if self.records != total:
            # Nothing is ever taken out of the middle of this log.
            raise Damaged(f"{total - self.records} of {total} records of the topic {self._topic} did not come")
        found = sum(1 for found in self._spaces.values() if found is not None)
        text = "read %d records of the topic %s in %.1f s: %d spaces of %s"
        _log.info(text, self.records, self._topic, time.monotonic() - begun, found, ", ".join(self._beginning))
        if self.strays:
            _log.warning("%d records of the topic %s have no space as key, and were left out", self.strays, self._topic)

    async def _mark(self, where: TopicPartition) -> int:
        """Writes a mark, and answers its offset."""
        now_ms = time.time_ns() // 1_000_000
        value, headers = encode_mark(self._beginning, now_ms)
        return await self._client.produce(*where, build_batch([Record(0, now_ms, None, value, headers)]))

    def _read(self, where: TopicPartition, records: list[Record]) -> None:
        spaces = self._spaces
        self.records += len(records)
        for record in records:
            key = record[2]
            found = spaces[key] if key in spaces else self._meet(key, record[4])
            if found is not None:
                self._take(where, record, found)

    def _meet(self, key: bytes | None, headers: Headers) -> _Found | None:
        try:
            space = read_space(key)
        except ProtocolError:
            self.strays += not is_mark(key, headers)
            return None
        chain = place(space, self._chains)
        wanted = chain in self._beginning and chain not in self.failures
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
            if journaled.generation >= self._beginning[found.chain]:
                raise StoreError(_amnesia(found.chain, journaled.generation, self._beginning[found.chain]))
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

    async def snapshots(self, chain: str) -> list[SpaceSnapshot]:
        """What the chain takes over. Each is a whole state, so others have their turn in between."""
        taken = []
        for found in self._spaces.values():
            if found is not None and found.chain == chain:
                taken.append(found.reader.start())
                await asyncio.sleep(0)
        return taken


def _amnesia(chain: str, held: int, begins: int) -> str:
    text = f"it holds generation {held} of {chain}, and the register begins with generation {begins}"
    return f"{text}: the register has lost what it knew; start it with the data that it had"


def _moved(space: str, before: str, now: str) -> str:
    text = f"{before} published the space {space!r}, which belongs to {now} now"
    return f"{text}: start the register with the chains that it had"
