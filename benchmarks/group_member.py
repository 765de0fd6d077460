"""One member of our group as a process of its own. `group_members` says what it can be told.

It judges nothing while a run is under way: of each delivery it keeps the first bytes, and of each batch the time.
"""

from __future__ import annotations

import asyncio
import importlib
import struct
import sys
import time
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

import click
import msgspec
import uvloop

from group_case import HEADER_SIZE
from group_deliveries import NUMBER_BITS, Deliveries

HEADER = struct.Struct(">iiiq")
SENT_TOGETHER = 256
"""Messages per call where throughput is measured, as an application would that has many."""
POLL_S = 0.002


class Received(Protocol):
    body: bytes


class Room(Protocol):
    """What is used of our group."""

    @property
    def view(self) -> Any: ...

    async def to_others(self, body: bytes) -> object: ...
    async def send_many(self, bodies: list[bytes]) -> object: ...
    def batches(self) -> AsyncIterator[Sequence[Received]]: ...


def join(name: str, register: str) -> AbstractAsyncContextManager[Room]:
    group: Any = importlib.import_module("octoloom").Group
    room: AbstractAsyncContextManager[Room] = group.join(
        "bench", name=name, register=register, order="total", transport="tcp"
    )
    return room


def names_of(room: Room) -> list[str]:
    """The members' names, the coordinator first; an incarnation is no part of a name."""
    return [str(member).split("#")[0] for member in room.view.names]


class Notes:
    """What was delivered since the run was announced, and how far this member's own sending has come."""

    def __init__(self, run: int) -> None:
        self.run = run
        self.count = 0
        self.sent = 0
        self.own: asyncio.Queue[None] | None = None
        """Where the own deliveries are told, if they are waited for."""
        self._headers: list[bytes] = []
        self._batches: list[tuple[int, int]] = []

    def take(self, batch: Sequence[Received], me: int) -> None:
        self._batches.append((len(batch), time.monotonic_ns()))
        headers = [message.body[:HEADER_SIZE] for message in batch]
        self._headers += headers
        self.count += len(batch)
        if self.own is not None:
            for header in headers:
                if HEADER.unpack(header)[1] == me:
                    self.own.put_nowait(None)

    def deliveries(self) -> Deliveries:
        found = Deliveries(array("q"), array("q"), array("q"))
        times = (at for count, at in self._batches for _ in range(count))
        for header, at in zip(self._headers, times, strict=True):
            run, sender, number, sent_ns = HEADER.unpack(header)
            if run == self.run:
                found.messages.append(sender << NUMBER_BITS | number)
                found.sent_ns.append(sent_ns)
                found.at_ns.append(at)
        return found


class Obedient:
    def __init__(self, number: int, room: Room) -> None:
        self._number = number
        self._room = room
        self._notes = Notes(-1)
        self._sending: asyncio.Task[None] | None = None

    async def listen(self) -> None:
        async for batch in self._room.batches():
            self._notes.take(batch, self._number)

    async def obey(self, told: dict[str, Any]) -> None:
        notes = self._notes
        match told["do"]:
            case "view":
                say("view", members=names_of(self._room))
            case "expect":
                self._notes = Notes(told["run"])
                say("expecting")
            case "send":
                notes.own = asyncio.Queue() if told.get("one_at_a_time") else None
                self._sending = asyncio.create_task(self._send(notes, told))
            case "progress":
                say("progress", count=notes.sent, ended_ns=time.monotonic_ns())
            case "wait":
                deadline = time.monotonic() + told["millis"] / 1000
                while notes.count < told["total"] and time.monotonic() < deadline:
                    await asyncio.sleep(POLL_S)
                say("waited", count=notes.count)
            case "write":
                # Millions of rows take seconds, and a member that is silent for so long is given up.
                await asyncio.to_thread(lambda: notes.deliveries().write(Path(told["file"])))
                say("written")
            case unknown:
                say("failed", why=f"nobody can do {unknown}")

    async def _send(self, notes: Notes, told: dict[str, Any]) -> None:
        count = told.get("count") or sys.maxsize
        end = time.monotonic() + told["millis"] / 1000 if told.get("millis") else float("inf")
        padding = bytes(told["size"] - HEADER_SIZE)
        try:
            if told.get("period_us"):
                await self._send_paced(notes, count, padding, told["period_us"] / 1e6)
            elif notes.own is not None:
                while notes.sent < count and time.monotonic() < end:
                    await self._send_one(notes, padding)
                    await notes.own.get()
            else:
                while notes.sent < count and time.monotonic() < end:
                    together = min(SENT_TOGETHER, count - notes.sent)
                    await self._room.send_many(self._bodies(notes, together, padding))
                    notes.sent += together
                    # Even where nothing slows the sender down, others get their turn.
                    await asyncio.sleep(0)
        except Exception as error:
            say("failed", why=f"{type(error).__name__}: {error}")
        else:
            say("sent", count=notes.sent, ended_ns=time.monotonic_ns())

    async def _send_paced(self, notes: Notes, count: int, padding: bytes, period_s: float) -> None:
        began = time.monotonic()
        while notes.sent < count:
            await asyncio.sleep(max(began + notes.sent * period_s - time.monotonic(), 0))
            await self._send_one(notes, padding)

    async def _send_one(self, notes: Notes, padding: bytes) -> None:
        await self._room.to_others(self._bodies(notes, 1, padding)[0])
        notes.sent += 1

    def _bodies(self, notes: Notes, count: int, padding: bytes) -> list[bytes]:
        now, pack, run, me, first = time.monotonic_ns(), HEADER.pack, notes.run, self._number, notes.sent
        return [pack(run, me, number, now) + padding for number in range(first, first + count)]


def say(said: str, **fields: object) -> None:
    sys.stdout.write(msgspec.json.encode({"said": said, **fields}).decode() + "\n")
    sys.stdout.flush()


async def live(number: int, register: str) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with join(f"m{number}", register) as room:
        member = Obedient(number, room)
        listening = asyncio.create_task(member.listen())
        # Without its deliveries a member is of no use: it ends, and its driver sees why in its log.
        listening.add_done_callback(lambda _: lines.feed_eof())
        say("joined")
        while line := await lines.readline():
            await member.obey(msgspec.json.decode(line))
        if listening.done():
            await listening
        listening.cancel()


@click.command()
@click.option("--number", type=click.IntRange(0, 63), required=True)
@click.option("--register", required=True, help="The register's address.")
def main(number: int, register: str) -> None:
    """One member of a group that is measured. Started by benchmarks/group.py."""
    uvloop.run(live(number, register))


if __name__ == "__main__":
    main()
