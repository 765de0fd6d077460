"""A cluster with brokers, whose links keep a journal; and what a reader makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec

from octoloom.core.event import JournalEntry
from octoloom.core.journal import JournalGap, JournalReader
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_consumer import Consumer
from octoloom.runtime.proof import digest_of
from octoloom.wire.journal import TOPIC, decode, is_mark
from tests.chaos.cluster import Cluster, Replicas, free_port


class JournaledCluster(Cluster):
    def __init__(self, folder: Path, durability: str, brokers: int = 3) -> None:
        super().__init__(folder, link_options=("--journal", "--durability", durability))
        self.brokers = [f"broker{number}" for number in range(brokers)]
        self._broker_ports = {name: free_port() for name in self.brokers}

    async def __aenter__(self) -> JournaledCluster:
        try:
            await self.start("register")
            await asyncio.gather(*(self.start(name) for name in self.brokers))
            await asyncio.gather(*(self.start(name) for name in self.names))
            await self.until_whole()
        except BaseException:
            await self.stop()
            raise
        return self

    def _arguments(self, name: str) -> list[str]:
        if name not in self.brokers:
            return super()._arguments(name)
        data, port = str(self.folder / name), str(self._broker_ports[name])
        return ["broker", "--name", name, "--register", self.register, "--data", data, "--port", port]

    async def kill_links(self) -> None:
        await asyncio.gather(*map(self.kill, self.names))

    async def start_links(self) -> None:
        await asyncio.gather(*map(self.start, self.names))

    async def journal(self) -> JournalText:
        """Everything that is in the journal now."""
        text = JournalText()
        async with LogClient(self.register) as client:
            places = [(TOPIC, number) for number in (await client.topic(TOPIC)).partitions]
            bounds = await client.bounds(places)
            until = {place: high for place, (_, high) in bounds.items()}
            async with Consumer(client, dict.fromkeys(places, "beginning"), until=until) as consumer:
                async for _, _, records in consumer:
                    for record in records:
                        if is_mark(record.key, record.headers):
                            continue
                        journaled = decode(record.key, record.value, record.headers)
                        text.add(journaled.space, journaled.generation, journaled.entry)
        return text


class JournalText:
    """The records of all spaces, as they lie in the log."""

    def __init__(self) -> None:
        self.records: dict[str, list[tuple[int, JournalEntry]]] = {}

    def add(self, space: str, generation: int, entry: JournalEntry) -> None:
        self.records.setdefault(space, []).append((generation, entry))

    def __len__(self) -> int:
        return sum(map(len, self.records.values()))

    @property
    def duplicates(self) -> int:
        distinct = {(s, g, entry.version) for s, records in self.records.items() for g, entry in records}
        return len(self) - len(distinct)

    def versions(self) -> dict[str, int]:
        return {space: max(entry.version for _, entry in records) for space, records in self.records.items()}

    def doubts(self, replicas: Replicas) -> Iterator[str]:
        """What a reader finds wrong with it, beside what the replicas hold."""
        for space, (version, digest) in replicas.items():
            reader = JournalReader(space)
            try:
                for generation, entry in self.records.get(space, []):
                    reader.read(generation, entry)
            except JournalGap as gap:
                yield str(gap)
                continue
            if reader.space.version != version:
                yield f"the journal of {space} ends with version {reader.space.version}, the replicas with {version}"
            elif digest_of(reader.space.state) != digest:
                yield f"the journal of {space} leads to another state than the replicas hold"
            yield from self._contradictions(space)

    def _contradictions(self, space: str) -> Iterator[str]:
        """What is there twice has to say the same twice."""
        said: dict[tuple[int, int], JournalEntry] = {}
        for generation, entry in self.records[space]:
            before = said.setdefault((generation, entry.version), entry)
            if before != entry:
                yield f"version {entry.version} of {space} is there twice: {_brief(before)} and {_brief(entry)}"

    def consumed(self) -> dict[tuple[str, str], list[int]]:
        """(space, device) → the sequencers of its events, in the order in which changes consumed them, each once."""
        found: dict[tuple[str, str], list[int]] = {}
        for space, records in self.records.items():
            taken: dict[tuple[int, int], None] = {}
            for generation, entry in records:
                if (generation, entry.version) not in taken:
                    taken[generation, entry.version] = None
                    for event in entry.events:
                        found.setdefault((space, event.device), []).append(event.sequencer)
        return found


def _brief(entry: JournalEntry) -> str:
    return msgspec.json.encode(entry)[:200].decode()
