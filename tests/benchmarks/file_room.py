"""A member of the smallest possible group with a total order: a file that all members append to and read.

It obeys its driver as a member of a real group does. It can be told to get one thing wrong, so that the benchmark can
be shown to notice.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import group_member

LENGTH = struct.Struct(">I")
AT = 20
"""Which delivery goes wrong."""
PAUSE_S = 0.001


@dataclass
class Message:
    body: bytes


@dataclass
class View:
    names: list[str]


class FileRoom:
    def __init__(self, folder: Path, name: str, fault: str) -> None:
        self._folder = folder
        self._fault = fault
        (folder / f"{name}.member").touch()
        self._file = os.open(folder / "order", os.O_RDWR | os.O_APPEND | os.O_CREAT)

    @property
    def view(self) -> View:
        return View(sorted(f"{path.stem}#1" for path in self._folder.glob("*.member")))

    async def to_others(self, body: bytes) -> None:
        await self.send_many([body])

    async def send_many(self, bodies: list[bytes]) -> None:
        if self._fault == "stuck" and os.fstat(self._file).st_size > AT * len(bodies[0]):
            await asyncio.Event().wait()
        os.write(self._file, b"".join(LENGTH.pack(len(body)) + body for body in bodies))

    async def batches(self) -> AsyncIterator[Sequence[Message]]:
        place, held, count = 0, [], 0
        while True:
            found = os.pread(self._file, 1_000_000, place)
            batch = []
            for body in whole(found):
                place += LENGTH.size + len(body)
                count += 1
                if count == AT and self._fault == "swap":
                    held = [Message(body)]
                elif not (count == AT and self._fault == "lose"):
                    batch += [Message(body), *held]
                    held = []
                if count == AT and self._fault == "twice":
                    batch.append(Message(body))
            if batch:
                yield batch
            await asyncio.sleep(PAUSE_S)


def whole(data: bytes) -> list[bytes]:
    found, place = [], 0
    while place + LENGTH.size <= len(data):
        end = place + LENGTH.size + LENGTH.unpack_from(data, place)[0]
        if end > len(data):
            break
        found.append(data[place + LENGTH.size : end])
        place = end
    return found


def main(folder: str, number: str, fault: str = "") -> None:
    @asynccontextmanager
    async def join(name: str, register: str) -> AsyncIterator[group_member.Room]:
        yield FileRoom(Path(register), name, fault)

    group_member.join = join
    asyncio.run(group_member.live(int(number), folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
