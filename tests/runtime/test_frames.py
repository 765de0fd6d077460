"""A framed connection on real sockets: batches in, batches out, and an orderly end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from octoloom.core.errors import ProtocolError
from octoloom.runtime.frames import FramedConnection
from octoloom.wire.framing import frame
from tests.waiting import STORY_S
from tests.waiting import async_until as until

Story = Callable[[], Awaitable[None]]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Story], None]:
    def runs(story: Story) -> None:
        async def told() -> None:
            async with asyncio.timeout(STORY_S):
                await story()

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(told())

    return runs


class Counting(FramedConnection):
    reads = 0

    def buffer_updated(self, nbytes: int) -> None:
        self.reads += 1
        super().buffer_updated(nbytes)


class Side:
    """One end, and all that happened to it."""

    def __init__(self, frame_max: int = 1 << 28) -> None:
        self.batches: list[list[bytes]] = []
        self.ends: list[Exception | None] = []
        self.connection = Counting(self._on_frames, self._on_closed, None, frame_max)

    @property
    def reads(self) -> int:
        return self.connection.reads

    def _on_frames(self, _connection: FramedConnection, frames: list[memoryview]) -> None:
        if any(bytes(body) == b"nonsense" for body in frames):
            raise ProtocolError("malformed", "nonsense")
        self.batches.append([bytes(body) for body in frames])

    def _on_closed(self, _connection: FramedConnection, error: Exception | None) -> None:
        self.ends.append(error)

    @property
    def bodies(self) -> list[bytes]:
        return [body for batch in self.batches for body in batch]


async def pair(frame_max: int = 1 << 28) -> tuple[Side, Side, asyncio.Server]:
    loop = asyncio.get_running_loop()
    ours, theirs = Side(), Side(frame_max)
    server = await loop.create_server(lambda: theirs.connection, "127.0.0.1", 0)
    await loop.create_connection(lambda: ours.connection, "127.0.0.1", server.sockets[0].getsockname()[1])
    return ours, theirs, server


def test_what_is_sent_in_one_tick_arrives_together(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        ours, theirs, server = await pair()
        for number in range(100):
            ours.connection.send(frame(b"%d" % number))
        assert ours.connection.buffered > 100
        await until(lambda: len(theirs.bodies) == 100)
        assert theirs.batches == [[b"%d" % number for number in range(100)]]
        assert ours.connection.buffered == 0
        ours.connection.close()
        await until(lambda: bool(theirs.ends and ours.ends))
        server.close()

    run(story)


def test_a_frame_may_come_in_pieces(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        ours, theirs, server = await pair()
        large = bytes(range(256)) * 4000
        for body in (b"small", large, b"", large[:100_000]):
            ours.connection.send(
                *(bytes([byte]) for byte in frame(body)[:4]), memoryview(body)[:3], bytearray(body[3:])
            )
        assert ours.connection.buffered == 4 * 4 + 5 + len(large) + 100_000
        await until(lambda: len(theirs.bodies) == 4)
        assert theirs.bodies == [b"small", large, b"", large[:100_000]]
        server.close()

    run(story)


def test_of_a_large_frame_large_parts_wake_the_reader(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        ours, theirs, server = await pair()
        large, part = bytes(1_000_000), 20_000
        stream = frame(large) + frame(b"small")
        for at in range(0, len(stream), part):
            ours.connection.send(stream[at : at + part])
            await asyncio.sleep(0.001)
        await until(lambda: len(theirs.bodies) == 2)
        assert theirs.bodies == [large, b"small"]
        # 51 parts came one after the other. What lacks little is read as it comes.
        assert theirs.reads < 25
        ours.connection.send(frame(large)[:100])
        ours.connection.close()
        await until(lambda: bool(theirs.ends))
        server.close()

    run(story)


def test_a_close_lets_out_what_was_said_before_and_nothing_after(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        ours, theirs, server = await pair()
        ours.connection.send(frame(b"last"))
        ours.connection.close()
        ours.connection.send(frame(b"too late"))
        await until(lambda: bool(theirs.ends and ours.ends))
        assert theirs.bodies == [b"last"]
        assert (len(ours.ends), len(theirs.ends)) == (1, 1)
        server.close()

    run(story)


@pytest.mark.parametrize("bad", [frame(b"nonsense"), frame(bytes(2000))])
def test_the_peers_fault_ends_the_connection_and_is_told_once(run: Callable[[Story], None], bad: bytes) -> None:
    async def story() -> None:
        ours, theirs, server = await pair(frame_max=1000)
        ours.connection.send(bad)
        await until(lambda: bool(theirs.ends and ours.ends))
        assert [type(error) for error in theirs.ends] == [ProtocolError]
        server.close()

    run(story)


def test_a_peer_that_does_not_read_shows_in_the_buffer(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        ours, theirs, server = await pair()
        await until(lambda: theirs.connection._transport is not None)
        theirs.connection.pause_reading()
        body, sent = bytes(1 << 20), 0
        while not ours.connection.paused:
            ours.connection.send(frame(body))
            sent += 1
            await asyncio.sleep(0)
        assert ours.connection.buffered > 0
        theirs.connection.resume_reading()
        await until(lambda: len(theirs.bodies) == sent and not ours.connection.paused)
        ours.connection.abort()
        await until(lambda: bool(theirs.ends and ours.ends))
        server.close()

    run(story)


@pytest.mark.parametrize("gently", [True, False])
def test_nothing_is_heard_on_a_connection_that_was_given_up(run: Callable[[Story], None], gently: bool) -> None:
    """The loop may have read it before: a fenced device must not be heard."""

    async def story() -> None:
        ours, theirs, server = await pair()
        await until(lambda: theirs.connection.peer != "?")
        if gently:
            theirs.connection.close()
        else:
            theirs.connection.abort()
        said = frame(b"too late")
        theirs.connection.get_buffer(-1)[: len(said)] = said
        theirs.connection.buffer_updated(len(said))
        assert theirs.bodies == []
        ours.connection.abort()
        await until(lambda: bool(ours.ends and theirs.ends))
        server.close()
        await server.wait_closed()

    run(story)
