"""Groups on real sockets: a register and several members in one loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import uvloop

from octoloom import Group, ReceivedMessage
from octoloom.core.group_register import GroupRegisterConfig
from octoloom.core.register import RegisterConfig
from octoloom.runtime.register import RegisterServer
from tests.waiting import STORY_S
from tests.waiting import async_until as until

T = TypeVar("T")


def run(story: Callable[[], Awaitable[T]], plain: bool = False) -> T:
    """Runs a story; `plain` on asyncio's own loop instead of uvloop."""

    async def told() -> T:
        async with asyncio.timeout(STORY_S):
            return await story()

    with asyncio.Runner(loop_factory=asyncio.new_event_loop if plain else uvloop.new_event_loop) as runner:
        return runner.run(told())


class Listener:
    """Takes all that a room hands over, for ever."""

    def __init__(self, room: Group) -> None:
        self.room = room
        self.messages: list[ReceivedMessage] = []
        self.error: Exception | None = None
        self.ended = False
        self.task = asyncio.create_task(self._listen())

    @property
    def bodies(self) -> list[Any]:
        return [message.body for message in self.messages]

    @property
    def heard(self) -> list[tuple[str, Any]]:
        return [(message.sender, message.body) for message in self.messages]

    async def _listen(self) -> None:
        try:
            async for batch in self.room.batches():
                self.messages += batch
            self.ended = True
        except Exception as error:
            self.error = error


class Rooms:
    """One group, whose members come one after the other so that their places are known."""

    def __init__(self, server: RegisterServer, stack: AsyncExitStack, options: dict[str, Any]) -> None:
        self.server = server
        self._stack = stack
        self._options = options
        self.rooms: dict[str, Group] = {}

    def place(self, name: str, **options: Any) -> Group:
        """A place that nobody has taken yet."""
        return Group.join("room", name=name, register=self.server.address, **{**self._options, **options})

    async def join(self, name: str, **options: Any) -> Group:
        room = await self._stack.enter_async_context(self.place(name, **options))
        self.rooms[name] = room
        return room

    async def join_all(self, *names: str, **options: Any) -> list[Group]:
        rooms = [await self.join(name, **options) for name in names]
        await self.agree(*names)
        return rooms

    async def agree(self, *names: str) -> None:
        """Returns when these see exactly each other."""
        await until(lambda: all(self.rooms[name].members == list(names) for name in names))

    async def kill(self, name: str) -> None:
        """What the death of a process does to its sockets."""
        await self.rooms[name].abandon()


@asynccontextmanager
async def group(register: GroupRegisterConfig | None = None, **options: Any) -> AsyncIterator[Rooms]:
    """A register with these settings, and a place for rooms that are all joined with these options."""
    config = register or GroupRegisterConfig(lease_ms=20_000, closed_grace_ms=50, suspect_ms=200)
    server = RegisterServer(RegisterConfig(["c0"], replicas=1), group_config=config)
    await server.start()
    try:
        async with AsyncExitStack() as stack:
            yield Rooms(server, stack, options)
    finally:
        await server.stop()


class BadWeather:
    """Loses, doubles and delays datagrams, from a seed."""

    def __init__(self, seed: int, lost: float = 0.2, doubled: float = 0.1, late: float = 0.2) -> None:
        self._dice = random.Random(seed)
        self._lost, self._doubled, self._late = lost, doubled, late
        self.losses = 0

    def __call__(self, _datagram: bytes) -> Sequence[float]:
        dice = self._dice
        if dice.random() < self._lost:
            self.losses += 1
            return ()
        delay_s = dice.random() * 0.01 if dice.random() < self._late else 0.0
        return (delay_s, dice.random() * 0.01) if dice.random() < self._doubled else (delay_s,)
