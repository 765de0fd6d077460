"""Our log once more, through the client that comes with it: the brokers of `log_octoloom`, and another way to them.

It runs in one thread, on uvloop as the client of NATS does. It is idempotent and waits for all replicas in sync, and
sends values in lists (`Producer.send_many`), as they come to who has many, and reads them in lists (`ValueConsumer`).
Where one record is one request, and for latency, each is sent by a call of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import uvloop

from log_case import SINGLE_WINDOW, Load, LogError, Meter, Pace, Setup
from log_figures import OWN
from log_octoloom import QUEUED_BYTES_MAX, Octoloom
from octoloom import LogClient, Producer, ValueConsumer
from octoloom.runtime.log_producer import BATCH_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BYTES_PER_CALL = 64_000


class OwnClient:
    def __init__(self, log: Octoloom) -> None:
        self._log = log
        self.setup = Setup(OWN, log.setup.replicas, log.setup.sync)

    @property
    def pids(self) -> Sequence[int]:
        return self._log.pids

    def make(self, topic: str) -> None:
        self._log.make(topic)

    def drop(self, topic: str) -> None:
        self._log.drop(topic)

    # Runs.

    def produce(self, topic: str, load: Load, meter: Meter) -> int:
        send = self._send_singly if load.way == "single" else self._send_lists
        return uvloop.run(send(topic, load, meter))

    async def _send_lists(self, topic: str, load: Load, meter: Meter) -> int:
        per_call = max(BYTES_PER_CALL // len(load.message()), 1)
        written: list[asyncio.Future[tuple[int, int]]] = []
        async with self._producer(topic, load.record, BATCH_BYTES_MAX) as producer:
            meter.start()
            end = time.perf_counter() + load.seconds
            while time.perf_counter() < end:
                written.append(producer.send_many(topic, load.messages(per_call), partition=0))
                await producer.room()
                await asyncio.sleep(0)
            await producer.flush()
            meter.stop()
        places = [each.result() for each in written]
        if places != [(0, 1 + number * per_call) for number in range(len(places))]:
            raise LogError("the records are not where they should be, one after the other")
        return len(places) * per_call

    async def _send_singly(self, topic: str, load: Load, meter: Meter) -> int:
        sent = 0
        # No batch may have more than a byte, so each record is a batch and a request.
        async with self._producer(topic, load.record, batch_bytes_max=1) as producer:
            meter.start()
            end = time.perf_counter() + load.seconds
            waiting: set[asyncio.Future[tuple[int, int]]] = set()
            while time.perf_counter() < end:
                while len(waiting) < SINGLE_WINDOW:
                    waiting.add(producer.send(topic, load.record, partition=0))
                    sent += 1
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
            await asyncio.gather(*waiting)
            meter.stop()
        return sent

    @asynccontextmanager
    async def _producer(self, topic: str, record: bytes, batch_bytes_max: int) -> AsyncIterator[Producer]:
        """A producer that is connected: it has written the record that is not counted."""
        async with LogClient(self._log.bootstrap) as client:
            producer = Producer(client, batch_bytes_max=batch_bytes_max, buffer_bytes_max=2 * QUEUED_BYTES_MAX)
            async with producer:
                await producer.send(topic, record, partition=0)
                yield producer

    def consume(self, topic: str, load: Load, messages: int, meter: Meter) -> int:
        return uvloop.run(self._consume(topic, load, messages, meter))

    async def _consume(self, topic: str, load: Load, messages: int, meter: Meter) -> int:
        place, records = (topic, 0), 0
        async with LogClient(self._log.bootstrap) as client:
            # Asking for the offsets connects it to the leader.
            await client.bounds([place])
            meter.start()
            # The first record was for the connection and is not counted.
            async with ValueConsumer(client, {place: 1}, until={place: messages + 1}) as consumer:
                async for _, _, _, values in consumer:
                    records += load.look_at(values)  # type: ignore[arg-type]  # no value was sent that is null
                meter.stop()
        return records

    def latencies(self, topic: str, record: bytes, count: int) -> list[float]:
        async def work() -> list[float]:
            found, pace = [], Pace()
            async with self._producer(topic, record, BATCH_BYTES_MAX) as producer:
                for _ in range(count):
                    await asyncio.sleep(pace.pause_s())
                    start = time.perf_counter()
                    await producer.send(topic, record, partition=0)
                    found.append(time.perf_counter() - start)
            return found

        return uvloop.run(work())
