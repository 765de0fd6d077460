"""Three brokers and a register as real processes, and what all tests of Kafka's own clients share.

Clients are used as they come, with the settings that their users set. What they do to each other's records is told in
words of no client (`Note`), so that whatever one writes can be compared with whatever another reads.

What is really in the log is looked at through the wire: a client that cannot compress, or believes that the brokers
cannot, sends records as they are and says nothing.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from octoloom.wire.kafka.batches import BatchHeader, check_batches
from octoloom.wire.kafka.compression import CODECS
from tests.runtime.broker_world import Client
from tests.runtime.real_log import RealLog
from tests.waiting import PATIENCE_S

SESSION_MS = 6_000
"""Of members of consumer groups: as short as brokers allow."""


class Note(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


HEADERS = (("trace", b"7f"), ("lang", b"de"))
NOTES = (
    Note(b"ada", b"the first", HEADERS),
    Note(None, b"without a key", HEADERS),
    Note(b"eve", None, HEADERS),
    Note(b"ada", "Gr\u00fc\u00dfe".encode(), HEADERS),
    Note(b"ada", b"long " * 400, HEADERS),
)
"""A key, none, a tombstone, more than ASCII, and something that is worth compressing."""


class Cluster:
    def __init__(self, log: RealLog) -> None:
        self.log = log
        self.brokers = log.bootstrap
        self.register = log.register.address
        self._admin = AdminClient({"bootstrap.servers": self.register, "log_level": 2})
        self._names = itertools.count(1)

    def name(self, kind: str) -> str:
        """A name that nobody else has, for a topic or a group."""
        return f"{kind}-{next(self._names)}"

    def restart(self, number: int) -> None:
        """Kills the broker that clients know by this number and starts it again, where it was."""
        seen = self._admin.list_topics(timeout=PATIENCE_S).brokers[number]
        ours = self.log.at(f"{seen.host}:{seen.port}")
        self.log.kill(ours)
        self.log.bring_back(ours)

    def topic(self, partitions: int = 1, **config: str) -> str:
        name = self.name("topic")
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self._admin.create_topics([NewTopic(name, partitions, 3, config=settings)])[name].result(PATIENCE_S)
        return name

    # What is in the log.

    def address_of_leader(self, topic: str, partition: int) -> str:
        seen = self._admin.list_topics(topic, timeout=PATIENCE_S)
        leader = seen.brokers[seen.topics[topic].partitions[partition].leader]
        return f"{leader.host}:{leader.port}"

    def codecs_in(self, topic: str, partition: int) -> set[str]:
        """The codecs of the batches that are stored."""
        return {CODECS[header.attributes & 7] for header in self.batches_in(topic, partition)}

    def batches_in(self, topic: str, partition: int) -> list[BatchHeader]:
        async def fetch() -> bytes:
            async with Client.to(self.address_of_leader(topic, partition)) as client:
                fetched = await client.fetch(topic, partition=partition)
                assert fetched.error == 0
                return bytes(fetched.batches)

        return [header for _, header in check_batches(memoryview(asyncio.run(fetch())))]


def numbered(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def in_order(values: Sequence[bytes]) -> list[bytes]:
    return sorted(values, key=int)
