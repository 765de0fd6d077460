"""NATS JetStream, as quick as its Python client goes: the first peer of our log.

Streams are kept in files, with one server or a cluster of as many as there are replicas. The client connects to the
server that leads the stream.

- Produce: core publishes with one shared reply inbox, whose acknowledgements are counted. `publish_async` of JetStream
  makes a future per message and is two to three times slower.
- Consume: a pull consumer that acknowledges nothing, with big batches asked for ahead into one inbox. `fetch` and the
  ordered consumer of nats-py do the same more slowly. A push consumer is no quicker, and large messages cut it off.

A server before 2.10 cannot sync before it acknowledges (`sync_interval: always`): its file store syncs in the
background, by default.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import nats
import uvloop
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StorageType, StreamConfig

from log_case import BLOB_SIZE, DRAIN_S_MAX, SINGLE_WINDOW, Load, LogError, Meter, Pace, Setup, Sync
from servers import HOST, Servers, free_ports

INSTALL = "apt-get install nats-server"
START_S_MAX = 60.0
WINDOW = 1_000
BLOBS_WINDOW = 64
SENT_AT_ONCE = {"batched": 100, "blobs": 1, "single": 1}
"""Sent before the clock is looked at again."""
PULLED_BYTES = 8_000_000
PULLED_MAX = 10_000
UNLIMITED: dict[str, Any] = {"pending_msgs_limit": -1, "pending_bytes_limit": -1}
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where Debian puts servers, which is not on everybody's path."""


def program() -> str | None:
    return shutil.which("nats-server") or shutil.which("nats-server", path=SBIN)


def version() -> str:
    return subprocess.run([str(program()), "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]


def can_sync_always(folder: Path) -> bool:
    """Whether this server knows the setting."""
    config = folder / "nats_probe.conf"
    config.write_text(f'jetstream {{ store_dir: "{folder}", sync_interval: always }}')
    return subprocess.run([str(program()), "-t", "-c", str(config)], capture_output=True, check=False).returncode == 0


class Nats:
    def __init__(self, setup: Setup, folder: Path) -> None:
        self.setup = setup
        self._servers = Servers(folder)
        self._ports = free_ports(2 * setup.replicas)
        self._urls = {f"n{number}": f"nats://{HOST}:{self._ports[number]}" for number in range(setup.replicas)}

    @property
    def pids(self) -> list[int]:
        return self._servers.pids

    # The processes.

    def start(self) -> None:
        for number, name in enumerate(self._urls):
            config = self._servers.folder / f"{name}.conf"
            config.write_text(self._config(number, name, self.setup.sync))
            self._servers.start(name, [str(program()), "-c", str(config)])

    def _config(self, number: int, name: str, sync: Sync) -> str:
        always = ", sync_interval: always" if sync == "always" else ""
        lines = [
            f"server_name: {name}",
            f"listen: {HOST}:{self._ports[number]}",
            f'jetstream {{ store_dir: "{self._servers.folder / name}"{always} }}',
        ]
        cluster = self._ports[self.setup.replicas :]
        if len(cluster) > 1:
            routes = ", ".join(f"nats://{HOST}:{port}" for port in cluster)
            lines.append(f"cluster {{ name: benchmark, listen: {HOST}:{cluster[number]}, routes: [{routes}] }}")
        return "\n".join(lines)

    def until_ready(self) -> None:
        self.make("ready")
        self.drop("ready")

    def stop(self) -> None:
        self._servers.stop()

    # Streams.

    def make(self, topic: str) -> None:
        uvloop.run(self._make(topic))

    async def _make(self, topic: str) -> None:
        config = StreamConfig(name=topic, subjects=[topic], storage=StorageType.FILE, num_replicas=self.setup.replicas)
        deadline = time.monotonic() + START_S_MAX
        while True:
            try:
                connection = await self._connect(next(iter(self._urls)))
                try:
                    await connection.jetstream(timeout=2).add_stream(config)
                    return
                finally:
                    await connection.close()
            except (OSError, nats.errors.Error) as error:
                self._servers.check()
                if time.monotonic() > deadline:
                    raise LogError(f"the stream cannot be made: {error}") from error
                await asyncio.sleep(0.1)

    def drop(self, topic: str) -> None:
        async def work(connection: Client) -> None:
            await connection.jetstream(timeout=30).delete_stream(topic)

        uvloop.run(self._at_leader(topic, work))

    async def _connect(self, name: str) -> Client:
        async def be_quiet(_: Exception) -> None:
            pass

        return await nats.connect(
            self._urls[name], allow_reconnect=False, error_cb=be_quiet, skip_subject_validation=True
        )

    async def _at_leader(self, topic: str, work: Callable[[Client], Awaitable[Any]]) -> Any:
        """Does some work on a connection to the server that leads the stream."""
        first = next(iter(self._urls))
        connection = await self._connect(first)
        try:
            info = await connection.jetstream(timeout=10).stream_info(topic)
            leader = info.cluster.leader if info.cluster is not None and info.cluster.leader else first
            if leader != first:
                await connection.close()
                connection = await self._connect(leader)
            return await work(connection)
        finally:
            await connection.close()

    # Runs.

    def produce(self, topic: str, load: Load, meter: Meter) -> int:
        async def work(connection: Client) -> int:
            window = {"batched": WINDOW, "blobs": BLOBS_WINDOW, "single": SINGLE_WINDOW}[load.way]
            sender = await Sender.open(connection, topic, window)
            await sender.send(load.record)
            await sender.until_acknowledged()
            before = sender.sent
            meter.start()
            end = time.perf_counter() + load.seconds
            while time.perf_counter() < end:
                for message in load.messages(SENT_AT_ONCE[load.way]):
                    await sender.send(message)
            await sender.until_acknowledged()
            meter.stop()
            return sender.sent - before

        return int(uvloop.run(self._at_leader(topic, work)))

    def consume(self, topic: str, load: Load, messages: int, meter: Meter) -> int:
        size = BLOB_SIZE if load.way == "blobs" else load.size

        async def work(connection: Client) -> int:
            reader = await Reader.open(connection, topic, messages, min(PULLED_BYTES // size, PULLED_MAX), load)
            meter.start()
            await reader.read()
            meter.stop()
            return reader.records

        return int(uvloop.run(self._at_leader(topic, work)))

    def latencies(self, topic: str, record: bytes, count: int) -> list[float]:
        async def work(connection: Client) -> list[float]:
            sender = await Sender.open(connection, topic, 1)
            await sender.send(record)
            await sender.until_acknowledged()
            found, pace = [], Pace()
            for _ in range(count):
                await asyncio.sleep(pace.pause_s())
                start = time.perf_counter()
                await sender.send(record)
                await sender.until_acknowledged()
                found.append(time.perf_counter() - start)
            return found

        return list(uvloop.run(self._at_leader(topic, work)))


class Sender:
    """Publishes with at most `window` unacknowledged."""

    def __init__(self, connection: Client, subject: str, window: int) -> None:
        self.sent = 0
        self._connection = connection
        self._subject = subject
        self._window = window
        self._inbox = connection.new_inbox()
        self._acknowledged = 0
        self._refused = b""
        self._wanted = 0
        self._moved = asyncio.Event()

    @classmethod
    async def open(cls, connection: Client, subject: str, window: int) -> Sender:
        sender = cls(connection, subject, window)
        await connection.subscribe(sender._inbox, cb=sender._on_answer, **UNLIMITED)
        return sender

    async def _on_answer(self, message: Msg) -> None:
        self._acknowledged += 1
        if b'"error"' in message.data:
            self._refused = message.data
        if self._acknowledged >= self._wanted:
            self._moved.set()

    async def send(self, payload: bytes) -> None:
        if self.sent - self._acknowledged >= self._window:
            # Half a window is let in at a time, or each acknowledgement would wake the sender.
            await self._until(self.sent - self._window // 2)
        await self._connection.publish(self._subject, payload, reply=self._inbox)
        self.sent += 1

    async def until_acknowledged(self) -> None:
        await self._until(self.sent)
        if self._refused:
            raise LogError(f"NATS refused a message: {self._refused.decode(errors='replace')}")

    async def _until(self, wanted: int) -> None:
        if self._acknowledged >= wanted:
            return
        self._wanted = wanted
        self._moved.clear()
        async with asyncio.timeout(DRAIN_S_MAX):
            await self._moved.wait()


class Reader:
    """Pulls batches into one inbox, the next one before the last has come."""

    def __init__(self, connection: Client, topic: str, messages: int, batch: int, load: Load) -> None:
        self.records = 0
        self._connection = connection
        self._topic = topic
        self._left = messages
        self._batch = batch
        self._load = load
        self._inbox = connection.new_inbox()
        self._asked = 0
        self._payloads: list[bytes] = []
        self._done = asyncio.Event()

    @classmethod
    async def open(cls, connection: Client, topic: str, messages: int, batch: int, load: Load) -> Reader:
        reader = cls(connection, topic, messages, batch, load)
        # The first record was for the connection and is not counted.
        config = ConsumerConfig(
            durable_name="benchmark", ack_policy=AckPolicy.NONE, deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=2,
        )  # fmt: skip
        streams = connection.jetstream(timeout=10)
        await streams.add_consumer(topic, config)
        await connection.subscribe(reader._inbox, cb=reader._on_message, **UNLIMITED)
        return reader

    async def read(self) -> None:
        await self._ask()
        await self._ask()
        async with asyncio.timeout(DRAIN_S_MAX):
            await self._done.wait()

    async def _ask(self) -> None:
        self._asked += self._batch
        body = msgspec.json.encode({"batch": self._batch})
        await self._connection.publish(f"$JS.API.CONSUMER.MSG.NEXT.{self._topic}.benchmark", body, reply=self._inbox)

    async def _on_message(self, message: Msg) -> None:
        self._payloads.append(message.data)
        if len(self._payloads) < self._batch and len(self._payloads) < self._left:
            return
        self._left -= len(self._payloads)
        self._asked -= len(self._payloads)
        self.records += self._load.look_at(self._payloads)
        self._payloads = []
        if self._left <= 0:
            self._done.set()
        elif self._left > self._asked:
            await self._ask()
