"""Questions about topics that wait while a broker may not know the newest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from octoloom.core.errors import ProtocolError
from octoloom.runtime import broker_guard
from octoloom.runtime.broker_apis import Handler, Request
from octoloom.runtime.broker_guard import Guard
from octoloom.runtime.broker_state import BrokerState
from octoloom.wire.kafka.apis import Api
from tests.runtime.broker_world import Client, world
from tests.waiting import async_until as until


class Scene:
    """A guard around one handler, which notes the frames that it is given."""

    def __init__(self) -> None:
        self.may_speak = False
        self.taken: list[bytes] = []
        state = SimpleNamespace(may_speak=lambda: self.may_speak, loop=asyncio.get_running_loop())
        self.guard = Guard(cast(BrokerState, state))
        self.take: Handler = self.guard.around({Api.METADATA: self._take})[Api.METADATA]
        self.connection: Any = SimpleNamespace(closed=False, close=self._close)

    def _take(self, request: Request) -> None:
        self.taken.append(bytes(request.frame))
        if self.taken[-1] == b"bad":
            raise ProtocolError("malformed", "not a request")

    def _close(self) -> None:
        self.connection.closed = True

    def ask(self, frame: bytes) -> bytearray:
        buffer = bytearray(frame)
        self.take(Request(self.connection, cast(Any, SimpleNamespace(api=3, version=1)), memoryview(buffer)))
        return buffer


def play(story: Callable[[Scene], Any]) -> None:
    async def main() -> None:
        scene = Scene()
        try:
            await story(scene)
        finally:
            scene.guard.close()

    uvloop.run(main())


def test_who_may_speak_answers_at_once() -> None:
    async def story(scene: Scene) -> None:
        scene.may_speak = True
        scene.ask(b"one")
        assert scene.taken == [b"one"]

    play(story)


def test_a_request_waits_with_a_copy_of_its_bytes_until_the_broker_may_speak() -> None:
    async def story(scene: Scene) -> None:
        buffer = scene.ask(b"one")
        buffer[:] = b"two"
        await asyncio.sleep(0)
        assert scene.taken == []
        scene.may_speak = True
        await until(lambda: scene.taken == [b"one"])

    play(story)


def test_who_has_gone_is_not_answered_and_a_request_that_fails_later_ends_its_connection() -> None:
    async def story(scene: Scene) -> None:
        scene.ask(b"bad")
        scene.may_speak = True
        await until(lambda: scene.connection.closed)
        assert scene.taken == [b"bad"]
        scene.may_speak = False
        scene.ask(b"gone")
        await until(lambda: not scene.guard._tasks)
        assert scene.taken == [b"bad"]

    play(story)


def test_nobody_waits_for_ever_and_not_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_guard, "HELD_MAX", 2)
    monkeypatch.setattr(broker_guard, "HELD_S", 0.0)

    async def story(scene: Scene) -> None:
        scene.ask(b"one")
        scene.ask(b"two")
        with pytest.raises(ProtocolError, match="wait for the register"):
            scene.ask(b"three")
        await until(lambda: scene.connection.closed)
        assert scene.taken == []

    play(story)


def test_a_broker_speaks_of_topics_while_the_register_is_down(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it:
            await all_of_it.topic("t", partitions=3)
            await all_of_it.register.stop()
            await until(lambda: not all_of_it.one._register.connected)
            async with Client.to(all_of_it.one.address) as client:
                for _ in range(3):
                    assert len((await client.metadata("t")).topics["t"].partitions) == 3

    uvloop.run(main())
