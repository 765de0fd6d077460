"""A short chat with one slow member: each word answers the one before, and the slow one only reads.

It hears Ada late. Without an order it then reads answers before their questions. In causal order it never does, for an
answer waits until its question is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from octoloom.core.errors import UsageError
from octoloom.runtime.causal_proof import Chat
from octoloom.runtime.group import Group

SAID = [("ada", "Lunch?"), ("bob", "Where?"), ("ada", "At the corner."), ("bob", "I am coming.")]
LATE, SLOW = "ada", "cathy"
CHAT_S = 30.0


async def chat(register: str, order: str, late_ms: int, tell: Callable[[str], None], trace: Path | None = None) -> Chat:
    """Has them join a group in this order, chat, and leave. What the slow one reads is told as it reads it."""
    try:
        async with asyncio.timeout(CHAT_S), AsyncExitStack() as stack:
            rooms = {}
            for name in (LATE, "bob", SLOW):
                place = Group.join(
                    f"chat-{order}", name=name, register=register, order=order, timeout_s=CHAT_S, trace=trace
                )
                rooms[name] = await stack.enter_async_context(place)
            while any(len(room.members) < len(rooms) for room in rooms.values()):
                await asyncio.sleep(0.01)
            rooms[LATE].set_minimum_delay(SLOW, late_ms)
            reading = stack.enter_context(_Reading(rooms[SLOW], order, tell))
            await _speak(rooms)
            await reading.done
            return Chat(order, SLOW, LATE, late_ms, [text for _, text in SAID], reading.read)
    except TimeoutError as error:
        raise UsageError(f"the chat in the order {order} did not end within {CHAT_S:.0f} s") from error


async def _speak(rooms: dict[str, Group]) -> None:
    """Each says its word when it has read the one before."""
    for at, (name, text) in enumerate(SAID):
        if at:
            before = await anext(rooms[name])
            assert before.body == SAID[at - 1][1], f"{name} read {before.body!r}"
        await rooms[name].to_others(text)


class _Reading:
    """The slow one, who only reads."""

    def __init__(self, room: Group, order: str, tell: Callable[[str], None]) -> None:
        self.read: list[str] = []
        self._room, self._order, self._tell = room, order, tell
        self.done = asyncio.get_running_loop().create_task(self._follow())

    def __enter__(self) -> _Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.done.cancel()

    async def _follow(self) -> None:
        while len(self.read) < len(SAID):
            message = await anext(self._room)
            self.read.append(message.body)
            self._tell(f"with {self._order}, {SLOW} reads {message.sender}: {message.body}")
