"""A register and brokers on a thread of their own, for tests of what Kafka clients see."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import uvloop
from kio.static.protocol import RequestPayload

from octoloom.core.log_register import LogConfig
from octoloom.core.register import RegisterConfig
from octoloom.runtime.broker import BrokerServer
from octoloom.runtime.broker_settings import SYNC_OS, BrokerSettings
from octoloom.runtime.register import RegisterServer
from octoloom.wire.kafka.apis import correlation_of
from octoloom.wire.kafka.cold import decode_response, encode_request
from octoloom.wire.kafka.compose import compose_request
from tests.waiting import PATIENCE_S
from tests.waiting import async_until as until

T = TypeVar("T")


class InnerLog:
    def __init__(self, data: Path, brokers: int) -> None:
        self._data = data
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.brokers: dict[int, BrokerServer] = {}
        """By the number that Kafka clients know them by, which is the order in which they first came."""
        self._ports: dict[int, int] = {}
        self.register: RegisterServer = self.run(self._start_register())
        for number in range(1, brokers + 1):
            self.start(number)

    async def _start_register(self) -> RegisterServer:
        config = LogConfig(lease_ms=30_000, balance_ms=3_600_000)
        register = RegisterServer(RegisterConfig(["c0"], 1), self._data / "register.db", log_config=config)
        await register.start()
        return register

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def call(self, call: Callable[[], T]) -> T:
        """Calls on the cluster's own thread."""

        async def work() -> T:
            return call()

        return self.run(work())

    @property
    def address(self) -> str:
        return self.register.address

    def address_of(self, number: int) -> str:
        return self.call(lambda: self.brokers[number].address)

    def start(self, number: int) -> None:
        # On a busy machine everybody is slow at times; that is not what is tried here.
        settings = BrokerSettings(sync=SYNC_OS, lag_ms=600_000)
        port = self._ports.get(number, 0)

        async def started() -> BrokerServer:
            name = f"b{number}"
            broker = BrokerServer(name, self.register.address, self._data / name, port=port, settings=settings)
            await broker.start()
            await until(lambda: broker.id in broker.state.directory.brokers)
            return broker

        self.brokers[number] = self.run(started())
        self._ports[number] = int(self.address_of(number).rpartition(":")[2])

    def stop(self, number: int) -> None:
        """Ends a broker without a word to the register, as a crash does."""
        self.run(self.brokers.pop(number).stop())

    async def _settle(self) -> None:
        """Lets what was cancelled come to its end."""
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if rest:
            await asyncio.wait(rest, timeout=0.2)

    def close(self) -> None:
        for number in list(self.brokers):
            self.stop(number)
        self.run(self.register.stop())
        self.run(self._settle())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()


@contextlib.contextmanager
def inner_log(data: Path, brokers: int = 1) -> Iterator[InnerLog]:
    log = InnerLog(data, brokers)
    try:
        yield log
    finally:
        log.close()


class Line:
    """A connection that says one request after the other, in the version it is told to."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._loop = asyncio.new_event_loop()
        self._reader, self._writer = self._loop.run_until_complete(asyncio.open_connection(host, int(port)))
        self._correlation = 0

    def say(self, api: int, version: int, **values: Any) -> Any:
        request = compose_request(api, version, **values)
        return self._loop.run_until_complete(asyncio.wait_for(self._ask(request), PATIENCE_S))

    async def _ask(self, request: RequestPayload) -> Any:
        self._correlation += 1
        self._writer.write(encode_request(request, self._correlation, "line"))
        [size] = struct.unpack(">i", await self._reader.readexactly(4))
        frame = memoryview(await self._reader.readexactly(size))
        assert correlation_of(frame) == self._correlation
        return decode_response(request.__api_key__, request.__version__, frame)

    def close(self) -> None:
        self._writer.close()
        self._loop.close()


@contextlib.contextmanager
def line(address: str) -> Iterator[Line]:
    made = Line(address)
    try:
        yield made
    finally:
        made.close()
