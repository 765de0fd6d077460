"""A chat room in one screen: the app, and a client that shows its own lines before the chain has them.

    octoloom up examples/chat_room.py:app
    python examples/chat_room.py ada          (and in another terminal: python examples/chat_room.py bob)

What you type while no link can be reached is kept in ada.db, and goes out when one is back, even after a restart.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from octoloom import App, AppEvent, Device, Reject

LINES_MAX = 100

app = App("chat", state={"lines": [], "here": {}})


@app.on_join
def come(state: Any, event: AppEvent) -> None:
    state["here"][event.device] = True


@app.on_leave
def go(state: Any, event: AppEvent) -> None:
    state["here"].pop(event.device, None)


@app.on("say")
def say(state: Any, event: AppEvent) -> None:
    text = str(event.payload).strip()
    if not text:
        raise Reject("say something")
    state["lines"].append([event.device, text])
    del state["lines"][:-LINES_MAX]


async def show(me: Device) -> None:
    """Prints the room whenever it changes. `view` is the state with my own pending lines in it."""
    async for _ in me.changes():
        print("\n".join(f"{who}: {text}" for who, text in me.view["lines"][-5:]), end="\n\n")


async def main(name: str, url: str = "ws://127.0.0.1:7080") -> None:
    async with Device.connect(url, space="room", device=name, store=f"{name}.db", app=app) as me:
        showing = asyncio.create_task(show(me))
        while line := await asyncio.to_thread(sys.stdin.readline):
            outcome = await me.send("say", line)
            if not outcome:
                print(f"({outcome.status}: {outcome.reason})")
        showing.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
