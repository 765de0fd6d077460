"""The chat of one screen, as two people use it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.runtime.group_rooms import group, run

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "group_chat.py"


class Person:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def come(cls, name: str, register: str) -> Person:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(EXAMPLE), name, register, stdin=pipe, stdout=pipe
        )
        return cls(process)

    def type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def sees(self) -> str:
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    async def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert await self._process.wait() == 0


def test_two_people_chat() -> None:
    async def story() -> None:
        async with group() as rooms:
            ada = await Person.come("ada", rooms.server.address)
            assert await ada.sees() == "(here: ada; order: causal)"
            bob = await Person.come("bob", rooms.server.address)
            assert await bob.sees() == "(here: ada, bob; order: causal)"
            assert await ada.sees() == "(bob is here, we are ada, bob)"
            ada.type("Done?")
            assert await bob.sees() == "ada: Done?"
            bob.type("@ada Lunch?")
            assert await ada.sees() == "bob (to you): Lunch?"
            bob.type("@eve Lunch?")
            assert await bob.sees() == "(eve is not in chat with bob: choose one of ada)"
            ada.type("/order total")
            ada.type("Yes")
            assert await bob.sees() == await ada.sees() == "ada: Yes"
            await bob.go()
            assert await ada.sees() == "(bob has gone)"
            await ada.go()

    run(story, plain=True)
