"""Connections on real sockets: frames in pieces, large ones, garbage, and clients that do not read."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from octoloom.core.errors import ProtocolError
from octoloom.runtime import broker_connection
from octoloom.runtime.broker_apis import Request
from octoloom.runtime.broker_connection import BUFFER_BYTES, REQUESTS_MAX, Connection
from octoloom.runtime.broker_sockets import Buffers, Sockets
from octoloom.wire.kafka import client_messages as ask
from octoloom.wire.kafka.apis import Api, parse_header
from tests.runtime.broker_world import Client, batch, with_settings, world
from tests.waiting import async_until as until

FRAME_MAX = 1 << 20
NONSENSE, NO_MATTER = b"nonsense", b"no matter"


@pytest.fixture(autouse=True, params=[True, False], ids=["busy", "quiet"])
def _pace(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ears, "is_busy", request.param)


class Ears:
    """Takes frames, and has turns as a broker does, at once or at the end of a tick: after it, the bytes may change."""

    is_busy = True

    def __init__(self) -> None:
        promptly = self.soon if self.is_busy else self._turn
        self.sockets = Sockets(self.soon, promptly, self.on_broken, 100, FRAME_MAX)
        self.heard: list[bytes] = []
        self.views: list[memoryview] = []
        self.broken: list[Exception] = []
        self.turns = 0
        self._is_soon = False

    def soon(self) -> None:
        if not self._is_soon:
            self._is_soon = True
            self.sockets.loop.call_soon(self._turn)

    def _turn(self) -> None:
        assert not self.sockets.is_turn
        self._is_soon = False
        self.turns += 1
        # What was handed over is looked at only now, as a write at the end of the tick does.
        self.heard += [bytes(view) for view in self.views]
        self.views.clear()
        self.sockets.is_turn = True
        self.sockets.recycle()
        self.sockets.flush()
        self.sockets.is_turn = False

    def on_broken(self, error: Exception) -> None:
        self.broken.append(error)

    def take(self, _: Connection, frame: memoryview) -> bool:
        if frame == NONSENSE:
            raise ProtocolError("nonsense", "as was to be expected")
        if frame == NO_MATTER:
            return False
        self.views.append(frame)
        return True


@asynccontextmanager
async def connected(take: Callable[[Connection, memoryview], bool] | None = None) -> AsyncIterator[tuple]:  # type: ignore[type-arg]
    ears = Ears()
    ours, theirs = tcp_pair()
    connection = ears.sockets.add(ours, take or ears.take)
    assert connection is not None
    try:
        yield ears, connection, theirs
    finally:
        connection.close()
        theirs.close()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    theirs.setblocking(False)
    return ours, theirs


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def test_frames_arrive_whole_however_they_are_cut() -> None:
    dice = random.Random(7)
    sizes = [1, 5, 100, BUFFER_BYTES - 4, BUFFER_BYTES, 3 * BUFFER_BYTES, 700_000]
    bodies = [dice.randbytes(dice.choice(sizes)) for _ in range(60)]

    async def main() -> None:
        async with connected() as (ears, _, theirs):
            loop = asyncio.get_running_loop()
            stream = b"".join(map(framed, bodies))
            at = 0
            while at < len(stream):
                size = dice.choice([1, 3, 1000, 100_000, 1_000_000])
                await loop.sock_sendall(theirs, stream[at : at + size])
                at += size
                if dice.random() < 0.5:
                    await asyncio.sleep(0)
            await until(lambda: len(ears.heard) == len(bodies))
            assert ears.heard == bodies

    uvloop.run(main())


def test_what_nothing_follows_from_takes_no_turn_and_no_place() -> None:
    async def main() -> None:
        async with connected() as (ears, connection, theirs):
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(theirs, framed(NO_MATTER) * 3 + framed(b"half")[:6])
            await until(lambda: connection._filled == 6)
            assert (ears.turns, connection._parsed, ears.sockets.used) == (0, 0, {})
            await loop.sock_sendall(theirs, framed(b"half")[6:] + framed(NO_MATTER))
            await until(lambda: ears.heard)
            assert (ears.turns, ears.heard) == (1, [b"half"])

    uvloop.run(main())


def test_what_was_handed_over_before_a_fault_stays_until_the_turn() -> None:
    """Nobody else gets the buffer meanwhile: what lies in it is still to be written."""

    async def main() -> None:
        async with connected() as (ears, connection, theirs):
            out = []
            connection.on_closed = lambda _: out.append(ears.sockets.buffers.bytes_out)
            await asyncio.get_running_loop().sock_sendall(theirs, framed(b"good") + framed(NONSENSE))
            await until(lambda: ears.heard)
            assert (ears.heard, out, ears.sockets.buffers.bytes_out) == ([b"good"], [BUFFER_BYTES], 0)

    uvloop.run(main())


def test_a_silent_connection_holds_no_buffer() -> None:
    async def main() -> None:
        async with connected() as (ears, connection, theirs):
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(theirs, framed(b"x"))
            await until(lambda: ears.heard)
            assert ears.sockets.buffers.bytes_out == BUFFER_BYTES
            connection.rest()
            assert ears.sockets.buffers.bytes_out == 0
            await loop.sock_sendall(theirs, framed(bytes(500_000)))
            await until(lambda: len(ears.heard) == 2)
            connection.rest()
            assert ears.sockets.buffers.bytes_out == 0
            await loop.sock_sendall(theirs, framed(b"half")[:5])
            await until(lambda: ears.sockets.buffers.bytes_out == BUFFER_BYTES)
            theirs.close()
            await until(lambda: connection.closed)
            assert ears.sockets.buffers.bytes_out == 0

    uvloop.run(main())


def test_where_many_speak_nobody_keeps_a_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_connection, "KEPT_BYTES_MAX", BUFFER_BYTES)

    async def main() -> None:
        async with connected() as (ears, _, theirs):
            loop = asyncio.get_running_loop()
            ears.sockets.buffers.take(BUFFER_BYTES, None)
            await loop.sock_sendall(theirs, framed(b"x"))
            await until(lambda: ears.heard)
            assert ears.sockets.buffers.bytes_out == BUFFER_BYTES

    uvloop.run(main())


def test_a_large_length_alone_takes_no_memory() -> None:
    async def main() -> None:
        async with connected() as (ears, _, theirs):
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(theirs, struct.pack(">i", FRAME_MAX) + b"only this")
            await until(lambda: ears.sockets.buffers.bytes_out)
            assert ears.sockets.buffers.bytes_out == BUFFER_BYTES

    uvloop.run(main())


def test_all_buffers_together_are_bounded() -> None:
    buffers = Buffers(3 * BUFFER_BYTES)
    first = buffers.take(BUFFER_BYTES, None)
    buffers.take(BUFFER_BYTES, None)
    with pytest.raises(ProtocolError, match="busy"):
        buffers.take(2 * BUFFER_BYTES, None)
    larger = buffers.take(2 * BUFFER_BYTES, first)
    assert buffers.bytes_out == 3 * BUFFER_BYTES
    small = buffers.take(BUFFER_BYTES, None)  # who begins is never kept out
    buffers.give(small)
    buffers.give(larger)
    assert buffers.bytes_out == BUFFER_BYTES


def test_who_sends_little_is_heard_when_others_hold_all_buffers() -> None:
    async def main() -> None:
        async with connected() as (ears, connection, theirs):
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(theirs, framed(b"x" * 200_000))
            await until(lambda: ears.heard)
            connection.release()
            assert connection._wanted > BUFFER_BYTES
            ears.sockets.buffers = Buffers(0)
            await loop.sock_sendall(theirs, framed(b"a little") * 3)
            await until(lambda: len(ears.heard) == 4)
            await loop.sock_sendall(theirs, framed(b"x" * 200_000))
            await until(lambda: ears.sockets.counters["busy"] == 1)

    uvloop.run(main())


def test_half_a_request_that_does_not_get_on_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_connection, "STALLS_MAX", 3)

    async def main() -> None:
        async with connected() as (ears, connection, theirs):
            loop = asyncio.get_running_loop()
            stream = framed(b"slowly")
            for at in range(len(stream)):
                await loop.sock_sendall(theirs, stream[at : at + 1])
                await until(lambda at=at: connection._filled == (at + 1) % len(stream))  # type: ignore[misc]
                connection.rest()
                connection.rest()
            for _ in range(10):
                connection.rest()
            assert (ears.heard, connection.closed) == ([b"slowly"], False)
            await loop.sock_sendall(theirs, stream[:6])
            await until(lambda: connection._filled == 6)
            for _ in range(3):
                assert not connection.closed
                connection.rest()
            assert (connection.closed, ears.sockets.counters["stalled"]) == (True, 1)
            assert ears.sockets.buffers.bytes_out == 0

    uvloop.run(main())


def test_of_a_large_request_large_parts_wake_the_broker() -> None:
    body, part = random.Random(3).randbytes(1_000_000), 20_000

    async def main() -> None:
        async with connected() as (ears, connection, theirs):
            reads = counted_reads(connection)
            stream = framed(body) + framed(b"small")
            for at in range(0, len(stream), part):
                await asyncio.get_running_loop().sock_sendall(theirs, stream[at : at + part])
                await asyncio.sleep(0.001)
            await until(lambda: len(ears.heard) == 2)
            assert ears.heard == [body, b"small"]
            # 51 parts came one after the other. What lacks little is read as it comes.
            assert len(reads) < 25

    uvloop.run(main())


def test_half_of_a_large_request_does_not_hide_its_end() -> None:
    async def main() -> None:
        async with connected() as (_, connection, theirs):
            await asyncio.get_running_loop().sock_sendall(theirs, framed(bytes(FRAME_MAX))[:1000])
            await until(lambda: connection._filled == 1000)
            theirs.close()
            await until(lambda: connection.closed)

    uvloop.run(main())


def test_a_large_request_that_comes_slowly_is_no_stalled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_connection, "STALLS_MAX", 3)

    async def main() -> None:
        async with connected() as (_, connection, theirs):
            stream = framed(bytes(FRAME_MAX))
            for at in range(0, 10_000, 1000):
                await asyncio.get_running_loop().sock_sendall(theirs, stream[at : at + 1000])
                connection.rest()
                await until(lambda at=at: connection._filled == at + 1000)  # type: ignore[misc]
            assert not connection.closed

    uvloop.run(main())


def counted_reads(connection: Connection) -> list[int]:
    """How much was there at each read, from now on."""
    reads: list[int] = []
    on_readable = connection._on_readable

    def counted() -> None:
        before = connection._filled
        on_readable()
        reads.append(connection._filled - before)

    loop = connection._sockets.loop
    loop.remove_reader(connection.fd)
    loop.add_reader(connection.fd, counted)
    return reads


@pytest.mark.parametrize("length", [0, -1, -(2**31), FRAME_MAX + 1, 2**31 - 1])
def test_a_length_that_cannot_be_ends_the_connection(length: int) -> None:
    async def main() -> None:
        async with connected() as (ears, connection, theirs):
            await asyncio.get_running_loop().sock_sendall(theirs, struct.pack(">i", length))
            await until(lambda: connection.closed)
            assert ears.sockets.counters == {"bad-length": 1}
            assert ears.broken == []

    uvloop.run(main())


def test_a_receiver_that_breaks_is_told_of_and_its_connection_ends() -> None:
    def take(_connection: Connection, _frame: memoryview) -> bool:
        raise ZeroDivisionError

    async def main() -> None:
        async with connected(take) as (ears, connection, theirs):
            await asyncio.get_running_loop().sock_sendall(theirs, framed(b"x"))
            await until(lambda: connection.closed)
            assert [type(error) for error in ears.broken] == [ZeroDivisionError]

    uvloop.run(main())


def test_who_does_not_read_is_not_read_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_connection, "OUT_BYTES_MAX", 100_000)

    def echo(connection: Connection, frame: memoryview) -> bool:
        connection.send([bytes(frame)])
        return True

    async def main() -> None:
        async with connected(echo) as (ears, connection, theirs):
            ours = connection.socket
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
            body = bytes(range(256)) * 100
            sending = asyncio.create_task(asyncio.get_running_loop().sock_sendall(theirs, framed(body) * 400))
            await until(lambda: not connection._is_reading)
            waiting = connection._out.size
            await asyncio.sleep(0.05)
            assert connection._out.size <= waiting < 3_000_000
            assert not sending.done()
            total = 0
            while total < 400 * len(body):
                data = await asyncio.get_running_loop().sock_recv(theirs, 1 << 20)
                assert data == (body * (len(data) // len(body) + 2))[total % len(body) :][: len(data)]
                total += len(data)
            await sending
            assert connection._is_reading
            assert ears.broken == []

    uvloop.run(main())


def test_too_many_unanswered_requests_are_not_read() -> None:
    requests: list[Request] = []

    def take(connection: Connection, frame: memoryview) -> bool:
        request = Request(connection, parse_header(frame), frame)
        connection.requests.append(request)
        requests.append(request)
        return True

    async def main() -> None:
        async with connected(take) as (_, connection, theirs):
            one = b"".join(ask.encode_frame(Api.API_VERSIONS, 0, 1, b"x", ()))
            sending = asyncio.create_task(asyncio.get_running_loop().sock_sendall(theirs, one * 3 * REQUESTS_MAX))
            await until(lambda: len(requests) == REQUESTS_MAX)
            await asyncio.sleep(0.02)
            assert len(requests) == REQUESTS_MAX
            requests[1].respond(b"b")
            requests[0].respond(b"a")
            assert await asyncio.get_running_loop().sock_recv(theirs, 10) == b"ab"
            await until(lambda: len(requests) == REQUESTS_MAX + 2)
            while len(requests) < 3 * REQUESTS_MAX or not requests[-1].answered:
                for request in requests:
                    if not request.answered:
                        request.respond(b".")
                await asyncio.sleep(0)
            await sending
            assert not connection.closed

    uvloop.run(main())


# Garbage, against a whole broker.


def test_garbage_ends_its_own_connection_and_no_other(tmp_path: Path) -> None:
    dice = random.Random(3)
    good = b"".join(ask.encode_frame(Api.PRODUCE, 7, 1, b"x", ask.encode_produce("t", 0, batch(b"v"), -1, 1000)))

    async def main() -> None:
        settings = with_settings(request_bytes_max=FRAME_MAX)
        async with world(tmp_path, settings=settings) as all_of_it, Client.to(all_of_it.one.address) as witness:
            await all_of_it.topic("t")
            for number in range(300):
                garbage = bytearray(good if number % 3 else dice.randbytes(dice.randrange(4, 300)))
                for _ in range(dice.randrange(1, 6)):
                    garbage[dice.randrange(len(garbage))] = dice.randrange(256)
                async with Client.to(all_of_it.one.address) as client:
                    client.writer.write(bytes(garbage))
                    client.writer.write_eof()
                    await client.reader.read()
            for text in (b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", 2**31 - 1), b"\x16\x03\x01\x02\x00\x01"):
                async with Client.to(all_of_it.one.address) as client:
                    client.writer.write(text)
                    client.writer.write_eof()
                    await client.reader.read()
            assert (await witness.produce("t", batch(b"end"))).error == 0
            assert (await witness.read_all("t"))[-1] == b"end"
            failed = all_of_it.one.failed
            assert failed is not None
            assert not failed.done()

    uvloop.run(main())


def test_an_unknown_api_or_version_ends_the_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it:
            for api, version in ((999, 0), (Api.PRODUCE, 2), (Api.METADATA, 99), (Api.FETCH, 3)):
                async with Client.to(all_of_it.one.address) as client:
                    client.send(api, version, ())
                    assert await client.is_hung_up()

    uvloop.run(main())


def test_more_connections_than_allowed_are_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, settings=with_settings(connections_max=3)) as all_of_it:
            address = all_of_it.one.address
            async with Client.to(address) as one, Client.to(address) as two, Client.to(address) as three:
                for client in (one, two, three):
                    assert (await client.metadata()).brokers
                async with Client.to(address) as four:
                    assert await four.is_hung_up()
                assert (await three.metadata()).brokers
            await until(lambda: len(all_of_it.one._sockets) == 0)
            async with Client.to(address) as five:
                assert (await five.metadata()).brokers

    uvloop.run(main())
