"""Reads all records of one space from the journal, as any consumer would: for the proof, which trusts nobody's word.

All partitions are read, not only the one that the space should be in: a record in the wrong place would be out of order
for every reader, and must show.
"""

from __future__ import annotations

import asyncio
import contextlib

from octoloom.core.errors import ProtocolError
from octoloom.runtime.journal_proof import JournalCopy, Line
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_consumer import Consumer
from octoloom.wire.journal import TOPIC, decode
from octoloom.wire.kafka.client_messages import TopicPartition
from octoloom.wire.kafka.partitioner import partition_of


def place_of(space: str, partitions: int) -> TopicPartition:
    """Where the journal keeps a space."""
    return TOPIC, partition_of(space.encode(), partitions)


async def read_journal(bootstrap: str, space: str, version: int, timeout_s: float) -> JournalCopy:
    """Reads until the journal has come to `version` of the space, or for so long; then what there is has to do."""
    async with LogClient(bootstrap, "octoloom-proof") as client:
        partitions = (await client.topic(TOPIC)).partitions
        place = place_of(space, len(partitions))
        copy = JournalCopy(f"{place[0]}-{place[1]}", space, 0, [], [])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await _read_place(client, place, version, copy)
        others = [(TOPIC, number) for number in partitions if number != place[1]]
        await _look_for_strays(client, others, copy)
        copy.high = (await client.bounds([place]))[place][1]
        return copy


async def _read_place(client: LogClient, place: TopicPartition, version: int, copy: JournalCopy) -> None:
    """To the end of what is there once `version` is."""
    key, newest = copy.space.encode(), 0
    async with Consumer(client, {place: "beginning"}) as consumer:
        async for _, _, records in consumer:
            for record in records:
                if record.key != key:
                    continue
                try:
                    found = decode(record.key, record.value, record.headers)
                except ProtocolError as error:
                    copy.strays.append(f"what is at {copy.place}, offset {record.offset}, cannot be read: {error}")
                    continue
                copy.lines.append(Line(record.offset, found.generation, found.entry))
                newest = max(newest, found.entry.version)
            if newest >= version and consumer.positions[place] >= consumer.highs[place]:
                return


async def _look_for_strays(client: LogClient, places: list[TopicPartition], copy: JournalCopy) -> None:
    key, bounds = copy.space.encode(), await client.bounds(places)
    until = {place: high for place, (_, high) in bounds.items()}
    starts = {place: start for place, (start, _) in bounds.items()}
    async with Consumer(client, starts, until=until) as consumer:
        async for topic, partition, records in consumer:
            copy.strays += [
                f"a record of the space is at {topic}-{partition}, offset {record.offset}"
                for record in records
                if record.key == key
            ]
