"""A chat without a server: everybody speaks to everybody, and no answer is shown before its question.

    octoloom register                         (once, so that members find each other)
    python examples/group_chat.py ada         (and in another terminal: python examples/group_chat.py bob)

`@bob hello` is for bob alone, `/order total` switches the whole group to another order while it runs.
"""

from __future__ import annotations

import asyncio
import sys

from octoloom import Group, UsageError


async def show(room: Group) -> None:
    async for message in room:
        marks = " (to you)" if message.to_me else " (at the same time)" if message.concurrent else ""
        print(f"{message.sender}{marks}: {message.body}", flush=True)


async def say(room: Group, line: str) -> None:
    if line.startswith("@"):
        name, _, text = line[1:].partition(" ")
        await room.to_user(name, text)
    elif line.startswith("/order "):
        await room.set_order(line.removeprefix("/order "))
    elif line:
        await room.to_others(line)


async def main(name: str, register: str = "127.0.0.1:7070") -> None:
    async with Group.join("chat", name=name, register=register) as room:
        room.on_join(lambda who, members: print(f"({who} is here, we are {', '.join(members)})", flush=True))
        room.on_leave(lambda who, _: print(f"({who} has gone)", flush=True))
        if room.members == [name]:
            await room.set_order("causal")  # who comes later takes the order that there is
        print(f"(here: {', '.join(room.members)}; order: {room.view.order})", flush=True)
        showing = asyncio.create_task(show(room))
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                await say(room, line.strip())
            except UsageError as error:
                print(f"({error})", flush=True)
        showing.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
