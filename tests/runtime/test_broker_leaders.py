"""A follower among leaders that lie, are silent or are somebody else: nothing wrong reaches its log."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from octoloom.core.log_messages import BrokerAddress, LogDirectory, Part, PartitionState, TopicInfo
from octoloom.runtime import broker_leaders
from octoloom.wire.kafka.apis import parse_header
from octoloom.wire.kafka.records import Record, build_batch
from octoloom.wire.replication import (
    Welcome,
    decode_from_follower,
    decode_intro,
    encode_frame_start,
    encode_parts,
    encode_welcome,
)
from tests.runtime.broker_world import world
from tests.waiting import async_until as until

LIAR = "liar#1"
Speech = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def read_frame(reader: asyncio.StreamReader) -> memoryview:
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    return memoryview(await reader.readexactly(size))


async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str = LIAR) -> None:
    frame = await read_frame(reader)
    header = parse_header(frame)
    assert decode_intro(header, frame).leader == LIAR
    writer.write(encode_welcome(header, Welcome(name)))


def framed(number: int, part: Part, data: bytes) -> bytes:
    body = encode_parts([part]) + data
    return encode_frame_start(number, len(body)) + body


def batch(offset: int, epoch: int, value: bytes) -> bytes:
    return build_batch([Record(0, 1, None, value)], base_offset=offset, leader_epoch=epoch)


def run_with_liar(tmp_path: Path, speech: Speech, check: Callable[[list[int], object], Awaitable[None]]) -> None:
    """One broker whose partition is led by whoever gives this speech."""

    async def main() -> None:
        calls: list[int] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            calls.append(1)
            try:
                await speech(reader, writer)
                await reader.read()
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        async with world(tmp_path) as all_of_it:
            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            broker = all_of_it.one
            port = server.sockets[0].getsockname()[1]
            brokers = {
                LIAR: BrokerAddress(LIAR, "127.0.0.1", port, "x"),
                broker.id: BrokerAddress(broker.id, "", 1, "y"),
            }
            state = PartitionState(LIAR, 4, [LIAR], ["liar", "b1"], 1)
            topics = {"t": TopicInfo("t", 1, {})}
            await broker._register.stop()
            broker._on_told(LogDirectory(5, brokers, topics, [("t", 0, state)]))
            await check(calls, broker)
            server.close()
            failed = broker.failed
            assert failed is not None
            assert not failed.done()

    uvloop.run(main())


def test_an_honest_leader_is_followed(tmp_path: Path) -> None:
    heard = []

    async def speech(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await welcome(reader, writer)
        heard.append(decode_from_follower(await read_frame(reader)))
        data = batch(0, 3, b"a") + batch(1, 4, b"b")
        writer.write(framed(1, Part("t", 0, 4, 0, len(data), 2, 0), data))
        heard.append(decode_from_follower(await read_frame(reader)))

    async def check(_: list[int], broker: object) -> None:
        await until(lambda: len(heard) == 2)
        log = broker.state.replicas["t", 0].log  # type: ignore[attr-defined]
        assert (log.end, log.epochs) == (2, [(3, 0), (4, 1)])

    run_with_liar(tmp_path, speech, check)
    follow, durable = heard
    assert [(entry.topic, entry.offset, entry.last_epoch) for entry in follow.entries] == [("t", 0, -1)]  # type: ignore[union-attr]
    assert (durable.frame, durable.ends) == (1, [("t", 0, 4, 2)])  # type: ignore[union-attr]


WRONG = [
    framed(1, Part("t", 0, 4, 0, len(batch(0, 4, b"a")), 1, 0), batch(0, 4, b"a")[:-1] + b"?"),
    framed(1, Part("t", 0, 4, 0, len(batch(0, 5, b"a")), 1, 0), batch(0, 5, b"a")),
    framed(1, Part("t", 0, 4, 0, len(batch(5, 4, b"a")), 1, 0), batch(5, 4, b"a")),
    struct.pack(">i", 3) + b"???",
    struct.pack(">i", -3),
    struct.pack(">i", 2**31 - 1),
]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_a_leader_that_lies_is_hung_up_on_and_changes_nothing(tmp_path: Path, wrong: bytes) -> None:
    async def speech(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await welcome(reader, writer)
        await read_frame(reader)
        writer.write(wrong)

    async def check(calls: list[int], broker: object) -> None:
        await until(lambda: len(calls) >= 3)  # it dials again, and again
        assert broker.state.replicas["t", 0].log.end == 0  # type: ignore[attr-defined]
        assert broker.core.partitions["t", 0].end == 0  # type: ignore[attr-defined]

    run_with_liar(tmp_path, speech, check)


def test_somebody_else_at_that_address_is_not_followed(tmp_path: Path) -> None:
    async def speech(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await welcome(reader, writer, "other#7")

    async def check(calls: list[int], broker: object) -> None:
        await until(lambda: len(calls) >= 2)
        assert not broker._leaders._lines[LIAR].is_up  # type: ignore[attr-defined]

    run_with_liar(tmp_path, speech, check)


def test_a_leader_that_says_nothing_is_dialled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_leaders, "WELCOME_S_MAX", 0.02)

    async def speech(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_frame(reader)

    async def check(calls: list[int], _: object) -> None:
        await until(lambda: len(calls) >= 3)

    run_with_liar(tmp_path, speech, check)
