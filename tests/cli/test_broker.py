"""`octoloom broker` as a process: a real client writes to it, it is killed, leaves, and comes back with everything."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import uvloop
from click.testing import CliRunner
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import TopicPartition as Place

from octoloom.cli import octoloom
from octoloom.runtime.processes import Child
from tests.waiting import PATIENCE_S


@contextlib.asynccontextmanager
async def register(folder: Path) -> AsyncIterator[Child]:
    child = await Child.start("register", ["register", "--port", "0", "--data", str(folder)], folder / "register.log")
    try:
        yield child
    finally:
        await child.stop()


async def broker(folder: Path, register: Child, name: str, *more: str) -> Child:
    arguments = ["broker", "--register", register.facts["address"], "--data", str(folder / name), "--port", "0", *more]
    return await Child.start(name, arguments, folder / f"{name}.log")


async def stop_all(children: dict[str, Child]) -> None:
    for child in children.values():
        await child.stop()


def produce(address: str, values: list[bytes], **config: object) -> list[int]:
    """The offsets of all values, which were acknowledged."""
    offsets: dict[bytes, int] = {}

    def on_delivery(error: object, message: Message) -> None:
        assert error is None, error
        offsets[message.value()] = message.offset()  # type: ignore[index, assignment]

    producer = Producer(
        {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "log_level": 0, **config}
    )
    for value in values:
        producer.produce("t", value, on_delivery=on_delivery)
    assert producer.flush(PATIENCE_S) == 0
    return [offsets[value] for value in values]


def consume(address: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False, "log_level": 0})
    consumer.assign([Place("t", 0, 0)])
    values: list[bytes] = []
    while len(values) < count:
        messages = consumer.consume(count, PATIENCE_S)
        assert messages
        values += [message.value() for message in messages if message.error() is None]  # type: ignore[misc]
    consumer.close()
    return values


def test_what_was_acknowledged_outlives_the_process(tmp_path: Path) -> None:
    values = [b"%d" % number for number in range(1000)]

    async def main() -> None:
        async with register(tmp_path) as home:
            child = await broker(tmp_path, home, "b1", "--name", "first")
            try:
                assert child.facts["id"] == "first#1"
                offsets = await asyncio.to_thread(produce, child.facts["address"], values)
                assert offsets == list(range(1000))
            finally:
                child.signal(signal.SIGKILL)
                await child.wait()
            child = await broker(tmp_path, home, "b1", "--sync", "os")
            try:
                assert child.facts["id"] == "first#2"
                assert await asyncio.to_thread(consume, child.facts["address"], 1000) == values
            finally:
                child.signal(signal.SIGTERM)
                assert await child.wait() == 0

    uvloop.run(main())


def test_a_broker_that_is_asked_to_leave_lets_others_lead_first(tmp_path: Path) -> None:
    """Three brokers, one after the other asked to leave and started again, while a client goes on writing."""

    async def main() -> None:
        async with register(tmp_path) as home, contextlib.AsyncExitStack() as stack:
            children = {name: await broker(tmp_path, home, name, "--name", name) for name in ("b1", "b2", "b3")}
            stack.push_async_callback(stop_all, children)
            addresses = ",".join(child.facts["address"] for child in children.values())
            expected = [b"first"]
            await asyncio.to_thread(produce, addresses, expected)
            for name in ("b1", "b2", "b3"):
                values = [b"%s %d" % (name.encode(), number) for number in range(200)]
                expected += values
                writing = asyncio.create_task(asyncio.to_thread(produce, addresses, values))
                children[name].signal(signal.SIGTERM)
                assert await asyncio.wait_for(children[name].wait(), PATIENCE_S) == 0
                await writing
                children[name] = await broker(tmp_path, home, name, "--name", name)
                addresses += "," + children[name].facts["address"]
            address = children["b3"].facts["address"]
            assert await asyncio.to_thread(consume, address, len(expected)) == expected

    uvloop.run(main())


def test_help_shows_examples() -> None:
    result = CliRunner().invoke(octoloom, ["broker", "--help"])
    assert result.exit_code == 0
    assert "octoloom broker --register 127.0.0.1:7070" in result.output


def test_a_broker_needs_a_register_that_is_an_address(tmp_path: Path) -> None:
    result = CliRunner().invoke(octoloom, ["broker", "--register", "nowhere", "--data", str(tmp_path), "--port", "0"])
    assert (result.exit_code, "write host:port" in result.output) == (2, True)
    assert os.listdir(tmp_path) == []
