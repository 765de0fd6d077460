"""A look at the brokers: which of them answer, where their partitions begin and end, how far consumer groups are."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from octoloom.console.answers import led_by
from octoloom.console.picture import CONSUMERS_MAX, DOWN, SILENT, UP, BrokerSeen
from octoloom.core.log_messages import BrokerAddress, LogDirectory, TopicPartition
from octoloom.core.roster import name_of
from octoloom.runtime.cluster_file import ProcessNote
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import LogError, Unreachable
from octoloom.runtime.log_groups import GroupStatus, describe_groups, list_groups
from octoloom.wire.kafka import client_messages as messages
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.client_messages import EARLIEST, LATEST, ListedOffset

STARTS_EVERY_S = 10.0
"""Where a partition begins changes rarely."""
CONSUMERS_EVERY_S = 3.0
LANE = "console"
CLIENT_ID = "octoloom-console"


@dataclass
class Consumers:
    """The consumer groups, as they were at `at_ms`."""

    groups: list[GroupStatus] = field(default_factory=list)
    at_ms: int = 0
    left_out: int = 0


class LogLook:
    """Keeps its connections from one picture to the next. Each question waits for `patience_s` at most."""

    def __init__(self, patience_s: float) -> None:
        self.starts: dict[TopicPartition, int] = {}
        self.highs: dict[TopicPartition, int] = {}
        """What is known now: of a broker that does not answer, nothing."""
        self.consumers = Consumers()
        self._patience_s = patience_s
        self._client: LogClient | None = None
        self._register = ""
        self._starts_due = self._consumers_due = 0.0
        self._starts_are_due = True

    async def close(self) -> None:
        """Hangs up. Who looks again calls again."""
        client, self._client = self._client, None
        self._starts_due = self._consumers_due = 0.0
        if client is not None:
            await client.close()

    async def client(self, register: str, brokers: Sequence[str]) -> LogClient:
        """A client of the brokers around this register: the same one for as long as it is the same register."""
        if self._client is not None and register == self._register:
            return self._client
        await self.close()
        bootstrap = [address for address in (register, *brokers) if address]
        if not bootstrap:
            raise Unreachable("no broker is known: start some with `octoloom up` or `octoloom broker`")
        self._client = LogClient(bootstrap, CLIENT_ID, int(self._patience_s * 1000))
        self._register = register
        return self._client

    def begin(self, log: LogDirectory) -> None:
        """Before brokers are asked for the next picture: forgets where partitions ended, and those that are gone."""
        self.highs.clear()
        places = {(topic, number) for topic, number, _ in log.partitions}
        self.starts = {place: start for place, start in self.starts.items() if place in places}
        self._starts_are_due = self._is_due(self._starts_due)
        if self._starts_are_due:
            self._starts_due = time.monotonic() + STARTS_EVERY_S

    def _is_due(self, due: float) -> bool:
        return time.monotonic() >= due

    async def broker(
        self, client: LogClient, address: BrokerAddress, note: ProcessNote | None, log: LogDirectory
    ) -> BrokerSeen:
        """A broker, up if it answers. On the way its partitions' ends are noted."""
        name, where = name_of(address.broker), f"{address.host}:{address.port}"
        state = DOWN if note is not None and not note.running else SILENT
        led = led_by(log, address.broker)
        if state != DOWN and await self._asked(client, where, led):
            state = UP
        replicas = sum(name in its.replicas for _, _, its in log.partitions)
        restarts = note.restarts if note is not None else 0
        return BrokerSeen(address.broker, name, state, address.pid, where, restarts, len(led), replicas)

    async def _asked(self, client: LogClient, where: str, led: dict[TopicPartition, int]) -> bool:
        try:
            async with asyncio.timeout(self._patience_s):
                connection = await client.cluster.connect(where, LANE)
                try:
                    wanted = [LATEST, EARLIEST] if led and self._starts_are_due else [LATEST]
                    answers = await asyncio.gather(
                        *(
                            connection.ask(Api.LIST_OFFSETS, _question(led, each), messages.parse_list_offsets)
                            for each in wanted
                        )
                    )
                except BaseException:
                    # An answer that comes late would be taken for the next one's.
                    connection.abort()
                    raise
        except (LogError, TimeoutError, OSError):
            return False
        for known, listed in zip((self.highs, self.starts), answers, strict=False):
            known |= _offsets(listed)
        return True

    async def ask_consumers(self, client: LogClient) -> None:
        """Asks how far the consumer groups are, if it is time to. If nobody tells, the last answer stays."""
        if not self._is_due(self._consumers_due):
            return
        self._consumers_due = time.monotonic() + CONSUMERS_EVERY_S
        with contextlib.suppress(LogError, TimeoutError):
            async with asyncio.timeout(self._patience_s):
                names = await list_groups(client)
                shown = names[:CONSUMERS_MAX]
                found = await describe_groups(client, shown)
                now_ms = time.time_ns() // 1_000_000
                self.consumers = Consumers(found, now_ms, len(names) - len(shown))


def _question(led: dict[TopicPartition, int], when: int) -> tuple[bytes, ...]:
    return messages.encode_list_offsets({place: (epoch, when) for place, epoch in led.items()})


def _offsets(listed: dict[TopicPartition, ListedOffset]) -> dict[TopicPartition, int]:
    return {place: found.offset for place, found in listed.items() if not found.error and found.offset >= 0}
