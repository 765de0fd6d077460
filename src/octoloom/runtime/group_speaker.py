"""A member of a group that sends numbered messages and writes down all that it is handed, as a process of its own.

It is somebody who can be killed: each batch is in its file before the next is taken. The process that started it says
when (on the standard input), and is told (on the standard output):

::

                ready               it is loaded
    join        ready member=NAME   it is in the group
    send                            it begins to send
    stop        ready sent=COUNT    it has sent all that it should, and sends no more
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import uvloop

from octoloom.core.errors import UsageError
from octoloom.core.filters import ReceivedMessage
from octoloom.core.roster import name_of
from octoloom.runtime.group import Group
from octoloom.runtime.group_errors import Expelled
from octoloom.runtime.group_lives import Ended, Heard, Line, Moved
from octoloom.runtime.group_udp import Loss
from octoloom.runtime.hosting import first_of
from octoloom.runtime.processes import end_with_parent, ready_line

EXPELLED = 3
"""The exit code of one that the group has gone on without."""
JOIN_S = 30.0

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


class Speaking(msgspec.Struct, frozen=True):
    """Who speaks, where, and how much: `count` messages at least, `burst` at once and then a pause."""

    group: str
    name: str
    register: str
    file: str
    count: int = 0
    burst: int = 5
    pause_ms: float = 20.0
    order: str = "total"
    transport: str = "tcp"
    host: str = "127.0.0.1"
    lost: float = 0.0
    """The share of its datagrams that are lost, for tests."""
    trace: str = ""
    """Where it writes down the steps of its algorithms, if it shall."""


def now_ms() -> float:
    """The machine's monotonic clock, which all of its processes share."""
    return time.monotonic_ns() / 1e6


def read_lines(text: bytes) -> list[Line]:
    """The whole lines of a speaker's file. It may have died in the middle of one."""
    return [_decoder.decode(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]


class Speaker:
    def __init__(self, speaking: Speaking, loss: Loss | None = None) -> None:
        self.speaking = speaking
        self.me = ""
        self._loss = loss
        self._sent = 0
        self._begin = asyncio.Event()
        self._stopping = False
        self._seen: Counter[str] = Counter()
        self._file: BinaryIO

    async def run(self) -> int:
        """Speaks until its input ends or the group goes on without it; answers the exit code."""
        speaking = self.speaking
        commands = await _stdin()
        print(ready_line(), flush=True)
        if await commands.readline() != b"join\n":
            return 0
        room = Group.join(
            speaking.group, name=speaking.name, register=speaking.register, order=speaking.order, host=speaking.host,
            transport=speaking.transport, timeout_s=JOIN_S, loss=self._loss, trace=speaking.trace or None,
        )  # fmt: skip
        with Path(speaking.file).open("ab") as self._file:
            async with room:
                self.me = next(member for member in room.view.names if name_of(member) == speaking.name)
                print(ready_line(member=self.me), flush=True)
                return await self._live(room, commands)

    async def _live(self, room: Group, commands: asyncio.StreamReader) -> int:
        room.on_join(lambda name, names: self._write([Moved(now_ms(), "join", name, names)]))
        room.on_leave(lambda name, names: self._write([Moved(now_ms(), "leave", name, names)]))
        try:
            await first_of(self._listen(room), self._send(room), self._obey(commands))
        except Expelled as expelled:
            unsure = [number for _, number, _ in expelled.unsure]
            self._write([Ended(now_ms(), self._sent, unsure, str(expelled))])
            return EXPELLED
        return 0

    async def _obey(self, commands: asyncio.StreamReader) -> None:
        while line := await commands.readline():
            if line == b"send\n":
                self._begin.set()
            elif line == b"stop\n":
                self._stopping = True

    async def _send(self, room: Group) -> None:
        speaking = self.speaking
        await self._begin.wait()
        while not self._stopping or self._sent < speaking.count:
            for _ in range(speaking.burst):
                await room.to_others([self.me, self._sent + 1, self._causes()])
                self._sent += 1
            await asyncio.sleep(speaking.pause_ms / 1000)
        print(ready_line(sent=self._sent), flush=True)
        await asyncio.Event().wait()  # and listens on

    def _causes(self) -> dict[str, int]:
        return dict(self._seen) if self.speaking.order == "causal" else {}

    async def _listen(self, room: Group) -> None:
        async for batch in room.batches():
            self._write(self._heard(batch))

    def _heard(self, batch: Iterable[ReceivedMessage]) -> list[Line]:
        at_ms, lines = now_ms(), list[Line]()
        for message in batch:
            sender, number, seen = message.body
            if name_of(sender) != message.sender:
                raise AssertionError(f"what {sender} said came from {message.sender}")
            self._seen[sender] = number
            lines.append(Heard(at_ms, sender, number, seen))
        return lines

    def _write(self, lines: Iterable[Line]) -> None:
        self._file.write(b"".join(_encoder.encode(line) + b"\n" for line in lines))
        self._file.flush()


async def _stdin() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def main(loss: Any = None) -> None:
    """`loss` makes, for tests, what becomes of datagrams."""
    end_with_parent()
    try:
        speaking = msgspec.json.decode(sys.argv[1], type=Speaking)
    except (IndexError, msgspec.MsgspecError) as error:
        raise UsageError(f"speakers are started by `octoloom demo`, with what to say: {error}") from error
    sys.exit(uvloop.run(Speaker(speaking, loss(speaking.lost) if loss and speaking.lost else None).run()))


if __name__ == "__main__":
    main()
