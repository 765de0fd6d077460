"""A register and brokers in one loop, and a client that speaks raw Kafka to them."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from octoloom.core.log_messages import MakeTopic
from octoloom.core.log_register import LogConfig
from octoloom.core.register import RegisterConfig
from octoloom.runtime.broker import BrokerServer
from octoloom.runtime.broker_settings import SYNC_OS, BrokerSettings
from octoloom.runtime.frames import split_address
from octoloom.runtime.register import RegisterServer
from octoloom.wire.framing import Piece
from octoloom.wire.kafka import client_messages as messages
from octoloom.wire.kafka import cold
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.compose import compose_request
from octoloom.wire.kafka.records import Record, build_batch, read_fetched
from tests.waiting import PATIENCE_S
from tests.waiting import async_until as until

FAST = BrokerSettings(sync=SYNC_OS, snapshot_ms=1_000_000, retention_check_ms=1_000_000, lag_ms=1_000)
"""Nothing happens by itself that a test does not ask for."""


class World:
    def __init__(self, register: RegisterServer, brokers: dict[str, BrokerServer], folder: Path) -> None:
        self.register = register
        self.brokers = brokers
        self.folder = folder

    @property
    def one(self) -> BrokerServer:
        return next(iter(self.brokers.values()))

    async def add(self, name: str, settings: BrokerSettings = FAST, port: int = 0) -> BrokerServer:
        broker = BrokerServer(name, self.register.address, self.folder / name, port=port, settings=settings)
        await broker.start()
        self.brokers[name] = broker
        await until(lambda: broker.id in broker.state.directory.brokers)
        return broker

    async def topic(self, name: str, partitions: int = 1, replicas: int = 0, **config: str) -> None:
        """Makes a topic and waits until somebody leads each of its partitions."""
        config = {key.replace("_", "."): value for key, value in config.items()}
        via = self.one
        done = await via._register.request(MakeTopic(0, name, partitions, replicas or len(self.brokers), config))
        assert done.error == 0, done
        await until(lambda: all(self.leader(name, number) is not None for number in range(partitions)))

    def leader(self, topic: str, number: int = 0) -> BrokerServer | None:
        for broker in self.brokers.values():
            partition = broker.core.partitions.get((topic, number))
            if partition is not None and partition.leading is not None:
                return broker
        return None

    def led(self, topic: str, number: int = 0) -> BrokerServer:
        leader = self.leader(topic, number)
        assert leader is not None
        return leader

    async def whole(self, topic: str, number: int = 0) -> None:
        """Waits until all brokers are in sync and hold all of it, committed."""

        def is_whole() -> bool:
            replicas = [broker.core.partitions.get((topic, number)) for broker in self.brokers.values()]
            lead = next((each for each in replicas if each is not None and each.leading is not None), None)
            ends = {each.durable if each is not None else -1 for each in replicas}
            return lead is not None and len(lead.state.in_sync) == len(replicas) and ends == {lead.end} == {lead.high}

        await until(is_whole)


@contextlib.asynccontextmanager
async def world(folder: Path, names: Sequence[str] = ("b1",), settings: BrokerSettings = FAST) -> AsyncIterator[World]:
    config = LogConfig(beat_ms=20, lease_ms=20_000, closed_grace_ms=50, answer_ms=500, form_ms=50, balance_ms=100_000)
    register = RegisterServer(RegisterConfig(("c",), 1), None, log_config=config)
    await register.start()
    all_of_it = World(register, {}, folder)
    try:
        for name in names:
            await all_of_it.add(name, settings)
        await until(lambda: all(len(b.state.directory.brokers) == len(names) for b in all_of_it.brokers.values()))
        yield all_of_it
    finally:
        for broker in all_of_it.brokers.values():
            await broker.stop()
        await register.stop()


class Client:
    """One connection. Requests can be sent without waiting; answers come back in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._correlation = 0

    @classmethod
    @contextlib.asynccontextmanager
    async def to(cls, address: str) -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_connection(*split_address(address))
        client = cls(reader, writer)
        try:
            yield client
        finally:
            writer.close()

    def send(self, api: int, version: int, body: Iterable[Piece]) -> int:
        self._correlation += 1
        self.writer.writelines(messages.encode_frame(api, version, self._correlation, b"test", body))
        return self._correlation

    async def receive(self) -> memoryview:
        """The next answer, from its correlation id on."""
        async with asyncio.timeout(PATIENCE_S):
            size = struct.unpack(">i", await self.reader.readexactly(4))[0]
            return memoryview(await self.reader.readexactly(size))

    async def ask(self, api: int, body: Iterable[Piece]) -> memoryview:
        correlation = self.send(api, messages.ASKED[api], body)
        answer = await self.receive()
        assert struct.unpack_from(">i", answer)[0] == correlation
        return answer

    async def ask_cold(self, api: int, version: int, **values: Any) -> Any:
        self._correlation += 1
        request = compose_request(api, version, **values)
        self.writer.write(cold.encode_request(request, self._correlation, "test"))
        return cold.decode_response(api, version, await self.receive())

    async def is_hung_up(self) -> bool:
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    # What tests ask most.

    async def produce(
        self, topic: str, batch: bytes, partition: int = 0, acks: int = -1, timeout_ms: int = 10_000
    ) -> messages.Produced:
        body = messages.encode_produce(topic, partition, batch, acks, timeout_ms)
        return messages.read(messages.parse_produce, await self.ask(Api.PRODUCE, body))

    async def fetch(
        self,
        topic: str,
        offset: int = 0,
        partition: int = 0,
        epoch: int = -1,
        wait_ms: int = 0,
        bytes_min: int = 1,
        bytes_max: int = 1 << 20,
    ) -> messages.FetchedPartition:
        wanted = {(topic, partition): messages.FetchFrom(offset, epoch, bytes_max)}
        answer = await self.ask(Api.FETCH, messages.encode_fetch(wanted, wait_ms, bytes_min, 1 << 26))
        _, [result] = messages.read(messages.parse_fetch, answer)
        return result

    async def read_all(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """The values of all that is committed."""
        values: list[bytes | None] = []
        offset = 0
        while True:
            fetched = await self.fetch(topic, offset, partition)
            assert fetched.error == 0, fetched.error
            if not fetched.batches:
                return values
            records, offset = read_fetched(bytes(fetched.batches), offset)
            values += [record.value for record in records]

    async def metadata(self, *topics: str) -> messages.Cluster:
        return messages.read(
            messages.parse_metadata, await self.ask(Api.METADATA, messages.encode_metadata(topics or None))
        )


def batch(*values: bytes, producer: int = -1, epoch: int = -1, sequence: int = -1, codec: str = "none") -> bytes:
    records = [Record(0, 1_000 + at, None, value) for at, value in enumerate(values)]
    return build_batch(records, codec=codec, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def with_settings(**changes: Any) -> BrokerSettings:
    return BrokerSettings(**{**msgspec.to_builtins(_fields(FAST)), **changes})


def _fields(settings: BrokerSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in BrokerSettings.__dataclass_fields__}
