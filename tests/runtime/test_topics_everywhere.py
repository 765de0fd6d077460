"""A topic that was just made, changed or deleted is seen so by whichever broker is asked next: all of them are asked.

On real processes, of which one is stopped or killed now and then. A broker that slept finds questions waiting for it
when it goes on, and must not answer them with what it knew when it fell asleep.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import uvloop

from octoloom.wire.kafka import client_messages as messages
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.errors import ErrorCode
from tests.runtime.broker_world import Client
from tests.runtime.real_log import SHORT_LEASE_MS, RealLog, real_log

CYCLES = 50
"""Of four changes each."""
TIMEOUT = timedelta(seconds=60)
TOPIC = 2
SET = 0


class Seen(NamedTuple):
    partitions: int = 0
    retention: str = ""
    """None of both: there is no such topic."""


class Behind(Client):
    """A connection on which there is one more answer to come."""

    def __init__(self, client: Client) -> None:
        super().__init__(client.reader, client.writer)
        self._correlation = client._correlation

    async def receive(self) -> memoryview:
        await super().receive()
        return await super().receive()


class Line:
    """Two connections to one broker: so that two questions can lie there unread."""

    def __init__(self, one: Client, other: Client) -> None:
        self.one, self.other = one, other

    def knock(self) -> None:
        """Asks something on both; whoever sleeps will look here first when it wakes, and find what was asked since."""
        for client in (self.one, self.other):
            client.send(Api.METADATA, messages.ASKED[Api.METADATA], messages.encode_metadata(("nothing",)))

    async def seen_after_knock(self, topic: str) -> Seen:
        """What is asked before the answer to the knock is there."""
        return await Line(Behind(self.one), Behind(self.other)).seen(topic)

    async def seen(self, topic: str) -> Seen:
        partitions, retention = await asyncio.gather(self._partitions(topic), self._retention(topic))
        return Seen(partitions, retention)

    async def _partitions(self, topic: str) -> int:
        found = (await self.one.metadata(topic)).topics[topic]
        assert found.error in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), found.error
        return len(found.partitions)

    async def _retention(self, topic: str) -> str:
        resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ["retention.ms"]}
        answer = await self.other.ask_cold(Api.DESCRIBE_CONFIGS, 1, resources=[resource], include_synonyms=False)
        [result] = answer.results
        assert result.error_code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), result
        return result.configs[0].value if result.configs else ""


async def make(client: Client, topic: str) -> Seen:
    setting = {"name": "retention.ms", "value": "60000"}
    wish = {"name": topic, "num_partitions": 2, "replication_factor": 2, "assignments": [], "configs": [setting]}
    answer = await client.ask_cold(Api.CREATE_TOPICS, 4, topics=[wish], timeout=TIMEOUT, validate_only=False)
    assert [each.error_code for each in answer.topics] == [0]
    return Seen(2, "60000")


async def grow(client: Client, topic: str) -> Seen:
    wish = {"name": topic, "count": 3, "assignments": None}
    answer = await client.ask_cold(Api.CREATE_PARTITIONS, 1, topics=[wish], timeout=TIMEOUT, validate_only=False)
    assert [each.error_code for each in answer.results] == [0]
    return Seen(3, "60000")


async def configure(client: Client, topic: str) -> Seen:
    change = {"name": "retention.ms", "config_operation": SET, "value": "70000"}
    wish = {"resource_type": TOPIC, "resource_name": topic, "configs": [change]}
    answer = await client.ask_cold(Api.INCREMENTAL_ALTER_CONFIGS, 0, resources=[wish], validate_only=False)
    assert [each.error_code for each in answer.responses] == [0]
    return Seen(3, "70000")


async def delete(client: Client, topic: str) -> Seen:
    answer = await client.ask_cold(Api.DELETE_TOPICS, 3, topic_names=[topic], timeout=TIMEOUT)
    assert [each.error_code for each in answer.responses] == [0]
    return Seen()


Change = Callable[[Client, str], Awaitable[Seen]]
CHANGES: tuple[Change, ...] = (make, grow, configure, delete)


@contextlib.asynccontextmanager
async def line_to(log: RealLog, number: int) -> AsyncIterator[Line]:
    address = log.brokers[number].address
    async with Client.to(address) as one, Client.to(address) as other:
        yield Line(one, other)


async def check(log: RealLog, topic: str, wanted: Seen, *without: int) -> None:
    """Asks all brokers at once."""

    async def ask(number: int) -> Seen:
        async with line_to(log, number) as line:
            return await line.seen(topic)

    asked = [number for number in log.brokers if number not in without]
    assert dict(zip(asked, await asyncio.gather(*map(ask, asked)), strict=True)) == dict.fromkeys(asked, wanted)


async def with_one_asleep(log: RealLog, change: Change, via: Client, topic: str, sleeper: int) -> None:
    """The change is answered when the sleeper's lease is over. It wakes with questions in front of it."""
    async with line_to(log, sleeper) as line:
        assert await line.seen("nothing") == Seen()
        log.brokers[sleeper].send(signal.SIGSTOP)
        line.knock()
        wanted = await change(via, topic)
        await check(log, topic, wanted, sleeper)
        asking = asyncio.create_task(line.seen_after_knock(topic))
        await asyncio.sleep(0)
        log.brokers[sleeper].send(signal.SIGCONT)
        assert await asking == wanted
    await check(log, topic, wanted)


async def with_one_dozing(log: RealLog, change: Change, via: Client, topic: str, sleeper: int) -> None:
    """The sleeper goes on while the change waits for it."""
    log.brokers[sleeper].send(signal.SIGSTOP)
    changing = asyncio.ensure_future(change(via, topic))
    await asyncio.sleep(0)
    log.brokers[sleeper].send(signal.SIGCONT)
    await check(log, topic, await changing)


async def with_one_killed(log: RealLog, change: Change, via: Client, topic: str, victim: int) -> None:
    """It dies in the middle of the change, and is asked as soon as it is back."""
    changing = asyncio.ensure_future(change(via, topic))
    await asyncio.sleep(0)
    log.kill(victim)
    wanted = await changing
    await check(log, topic, wanted)
    log.start(victim)
    await asyncio.to_thread(log.brokers[victim].await_ready)
    await check(log, topic, wanted)
    await log.whole()


TROUBLE = {10: with_one_asleep, 20: with_one_killed, 30: with_one_dozing, 40: with_one_dozing}
"""In these cycles, at each of the four changes in turn; the other cycles have none."""


def test_whichever_broker_is_asked_next_knows_what_was_changed(tmp_path: Path) -> None:
    async def main(log: RealLog) -> None:
        for cycle in range(CYCLES):
            for turn, change in enumerate(CHANGES):
                via, other = 1 + turn % 3, 1 + (turn + 1 + cycle % 2) % 3
                async with line_to(log, via) as line:
                    if cycle in TROUBLE:
                        await TROUBLE[cycle](log, change, line.one, f"t{cycle}", other)
                    else:
                        await check(log, f"t{cycle}", await change(line.one, f"t{cycle}"))

    with real_log(tmp_path, 3, SHORT_LEASE_MS) as log:
        uvloop.run(main(log))
