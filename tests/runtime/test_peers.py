"""The connections between links, with an owner that only listens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from octoloom.core.link_messages import Ack, LinkMessage, Stale
from octoloom.runtime import peers as module
from octoloom.runtime.peers import Peers
from octoloom.wire.framing import frame
from octoloom.wire.link import Intro, encode_frame, encode_intro
from octoloom.wire.stats import StatsRequest
from tests.waiting import PATIENCE_S
from tests.waiting import async_until as until


class Listener:
    """Writes down what it hears, and knows everybody."""

    def __init__(self, name: str) -> None:
        self.heard: list[tuple[str, str, object]] = []
        self.addresses: dict[str, str] = {}
        self.peers = Peers(name, self)

    def on_peer_up(self, chain: str, peer: str) -> None:
        self.heard.append((chain, peer, "up"))

    def on_peer_down(self, chain: str, peer: str) -> None:
        self.heard.append((chain, peer, "down"))

    def on_peer_messages(self, chain: str, peer: str, messages: list[LinkMessage]) -> None:
        self.heard.extend((chain, peer, message.epoch) for message in messages)

    def address_of(self, peer: str) -> str:
        return self.addresses.get(peer, "")

    def hosts(self, chain: str) -> bool:
        return chain.startswith("c")

    def answer(self, request: StatsRequest) -> bytes:
        return frame(b"{}")


async def several(*names: str) -> list[Listener]:
    listeners = [Listener(name) for name in names]
    for listener in listeners:
        await listener.peers.open("127.0.0.1", 0)
    for listener in listeners:
        listener.addresses = {
            name: f"127.0.0.1:{other.peers.port}" for name, other in zip(names, listeners, strict=True)
        }
    return listeners


def say(epoch: int) -> LinkMessage:
    return Stale("c", epoch)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_both_sides_hear_of_each_other_and_then_in_order(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def play() -> None:
        upper, lower = await several("upper", "lower")
        lower.peers.call("c", "upper")
        await until(lambda: upper.heard and lower.heard)
        lower.peers.send("c", "upper", [say(1), say(2)])
        lower.peers.send("c", "upper", [say(3)])
        upper.peers.send("c", "lower", [say(4)])
        upper.peers.send("c", "nobody", [say(5)])
        await until(lambda: len(upper.heard) == 4 and len(lower.heard) == 2)
        assert upper.heard == [("c", "lower", "up"), ("c", "lower", 1), ("c", "lower", 2), ("c", "lower", 3)]
        assert lower.heard == [("c", "upper", "up"), ("c", "upper", 4)]
        lower.peers.call("c", "")
        await until(lambda: upper.heard[-1] == ("c", "lower", "down"))
        assert lower.heard[-1] == ("c", "upper", "down")
        upper.peers.close()
        lower.peers.close()

    run(play())


def test_a_call_goes_on_until_somebody_answers() -> None:
    async def play() -> None:
        upper, lower = await several("upper", "lower")
        address, lower.addresses = lower.addresses, {}
        lower.peers.call("c", "upper")
        await asyncio.sleep(0.05)
        lower.addresses = address
        await until(lambda: upper.heard)
        # And again when it is cut off.
        for connection in list(upper.peers._keys):
            connection.abort()
        await until(lambda: len(upper.heard) == 3)
        assert [what for _, _, what in upper.heard] == ["up", "down", "up"]
        assert [what for _, _, what in lower.heard] == ["up", "down", "up"]
        upper.peers.close()
        lower.peers.close()

    asyncio.run(play())


def test_whom_it_calls_changes() -> None:
    async def play() -> None:
        first, second, lower = await several("first", "second", "lower")
        lower.peers.call("c", "first")
        await until(lambda: first.heard)
        lower.peers.call("c", "second")
        await until(lambda: second.heard and len(first.heard) == 2)
        assert lower.heard[:2] == [("c", "first", "up"), ("c", "first", "down")]
        for listener in (first, second, lower):
            listener.peers.close()

    asyncio.run(play())


async def introduced(listener: Listener, intro: Intro, *frames: bytes) -> tuple[asyncio.StreamReader, Any]:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.peers.port)
    writer.write(encode_intro(intro) + b"".join(frames))
    return reader, writer


def test_a_newer_connection_takes_the_place_of_the_older() -> None:
    async def play() -> None:
        upper, _ = await several("upper", "lower")
        intro = Intro("lower", "", "c")
        reader, older = await introduced(upper, intro, encode_frame([say(1)]))
        await until(lambda: len(upper.heard) == 2)
        (side,) = upper.peers._keys
        _, newer = await introduced(upper, intro, encode_frame([say(2)]))
        await until(lambda: len(upper.heard) == 5)
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        # What the older had already said, but nobody has looked at yet, is not heard any more.
        upper.peers._on_frames(side, [memoryview(encode_frame([say(9)])[4:])])
        newer.write(encode_frame([say(3)]))
        await until(lambda: len(upper.heard) == 6)
        assert [what for _, _, what in upper.heard] == ["up", 1, "down", "up", 2, 3]
        older.close()
        newer.close()
        upper.peers.close()

    asyncio.run(play())


def test_news_may_be_late_and_faults_are_counted() -> None:
    async def play() -> None:
        upper, _ = await several("upper", "lower")
        for intro in (Intro("unknown", "", "c"), Intro("lower", "", "x")):
            reader, writer = await introduced(upper, intro)
            async with asyncio.timeout(PATIENCE_S):
                assert await reader.read() == b""
            writer.close()
        assert upper.heard == []
        assert not upper.peers.counters
        _, writer = await introduced(upper, Intro("lower", "", "c"), encode_frame([Ack("c2", 1, [])]))
        await until(lambda: upper.peers.counters["other-chain"] == 1)
        await until(lambda: len(upper.heard) == 2)
        assert upper.heard == [("c", "lower", "up"), ("c", "lower", "down")]
        writer.close()
        upper.peers.close()

    asyncio.run(play())


def test_messages_that_are_too_large_for_one_frame_take_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octoloom.wire.framing.FRAME_MAX", 60)
    messages = [Ack("c", number, [("s" * 20, number)]) for number in range(5)]
    frames = module._frames(messages)
    assert 1 < len(frames) <= 5


def test_who_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUFFERED_MAX", 100_000)

    async def play() -> None:
        upper, _ = await several("upper", "lower")
        _, writer = await introduced(upper, Intro("lower", "", "c"))
        await until(lambda: upper.heard)
        large = Ack("c", 1, [("s" * 1_000_000, 1)])
        async with asyncio.timeout(PATIENCE_S):
            while upper.heard[-1][2] != "down":
                upper.peers.send("c", "lower", [large])
                await asyncio.sleep(0)
        assert upper.peers.counters["too-slow"] == 1
        writer.close()
        upper.peers.close()

    asyncio.run(play())
