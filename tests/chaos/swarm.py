"""Many devices in one process that act all the time: `python -m tests.chaos.swarm CASTING`, a file of JSON.

They keep a journal, one line per fact, that outlives a `kill -9`. An action is noted before it is sent, an outcome
after it was told: so whatever the chain could know of is in the journal, and so is nothing that was not told.

The parent says on the standard input ``stop`` (act no more, settle everything → ``settled``) and ``see JSON`` (wait
for these versions, note what you see → ``seen``).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from pathlib import Path
from typing import Any, TextIO

import msgspec
import uvloop

from octoloom.core.device_effects import Full
from octoloom.runtime.device import Device, Sending
from octoloom.runtime.follower import Follower
from octoloom.runtime.observer import Observer
from octoloom.runtime.processes import end_with_parent, ready_line
from octoloom.runtime.proof import digest_of
from tests.chaos.journal import Behind, Ended, Fact, Fell, Saw, Sent, Told, now_ms
from tests.waiting import PATIENCE_S

OUTSTANDING_MAX = 16


class Actor(msgspec.Struct, frozen=True):
    """With `life` it sends notes that name it; without, acts. Nobody's name means an observer."""

    name: str
    space: str
    life: int = 0
    store: str = ""


class Casting(msgspec.Struct, frozen=True):
    urls: list[str]
    actors: list[Actor]
    journal: str
    pause_ms: float
    seed: int


class Player:
    """One device: acts, and notes what it is told and sees."""

    def __init__(self, actor: Actor, follower: Follower, journal: TextIO, dice: random.Random) -> None:
        self.actor, self.follower = actor, follower
        self.waiting: set[asyncio.Task[None]] = set()
        self._journal, self._dice = journal, dice
        self._number = self._applied = 0
        # From before the first welcome on, which may tell how earlier lives' actions ended.
        self._changes = follower.changes()

    def note(self, fact: Fact) -> None:
        self._journal.write(msgspec.json.encode(fact).decode() + "\n")

    async def act(self, device: Device, pause_ms: float) -> None:
        # They do not all act in the same instant.
        await asyncio.sleep(self._dice.uniform(0, pause_ms) / 1000)
        while True:
            if len(self.waiting) < OUTSTANDING_MAX:
                with contextlib.suppress(Full):
                    self._send(device)
            await asyncio.sleep(self._dice.uniform(0.5, 1.5) * pause_ms / 1000)

    def _send(self, device: Device) -> None:
        self._number += 1
        number, life = self._number, self.actor.life
        self.note(Sent(self.actor.name, life, number, now_ms()))
        sending = device.send("note", [life, number]) if life else device.send("act", number)
        task = asyncio.get_running_loop().create_task(self._hear(number, sending))
        self.waiting.add(task)
        task.add_done_callback(self.waiting.discard)

    async def _hear(self, number: int, sending: Sending) -> None:
        outcome = await sending
        name, life = self.actor.name, self.actor.life
        self.note(Told(name, life, number, now_ms(), outcome.status, outcome.version, outcome.sequencer))
        self._applied += bool(outcome)
        if outcome and self._held() < self._applied:
            self.note(Behind(name, life, number))

    def _held(self) -> int:
        """How many of this device's actions are in the state that it sees."""
        if self.actor.life:
            notes = self.follower.state["notes"].get(self.actor.name, {})
            return sum(key.startswith(f"{self.actor.life}.") for key in notes)
        return int(self.follower.state["devices"].get(self.actor.name, {}).get("count", 0))

    async def watch(self) -> None:
        version = 0
        async for change in self._changes:
            if change.version < version or change.reset:
                self.note(Fell(self.actor.name, version, change.version, change.reset))
            version = change.version
            for outcome in change.settled if self.actor.life else ():
                self.note(Ended(self.actor.name, self.actor.life, outcome.sequencer, outcome.status))

    async def see(self, version: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while self.follower.version < version:
                    await self.follower.told()
        self.note(Saw(self.actor.name, self.follower.version, digest_of(self.follower.state)))


class Swarm:
    def __init__(self, casting: Casting, journal: TextIO) -> None:
        self._casting, self._journal = casting, journal
        self._players: list[Player] = []
        self._acting: list[asyncio.Task[None]] = []
        self._watching: list[asyncio.Task[None]] = []

    async def run(self, stack: contextlib.AsyncExitStack) -> None:
        await asyncio.gather(*(self._open(actor, stack) for actor in self._casting.actors))
        print(ready_line(devices=len(self._players)), flush=True)
        commands = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(commands), sys.stdin.buffer
        )
        while line := (await commands.readline()).decode().strip():
            word, _, rest = line.partition(" ")
            await (self._stop() if word == "stop" else self._see(msgspec.json.decode(rest)))
            print("settled" if word == "stop" else "seen", flush=True)

    async def _open(self, actor: Actor, stack: contextlib.AsyncExitStack) -> None:
        urls, loop = self._casting.urls, asyncio.get_running_loop()
        follower: Follower
        if actor.name:
            follower = Device.connect(urls, actor.space, actor.name, actor.store or None)
        else:
            follower = Observer.connect(urls, actor.space)
        dice = random.Random(f"{self._casting.seed} {actor.name} {actor.life}")
        player = Player(actor, follower, self._journal, dice)
        await stack.enter_async_context(follower)
        self._players.append(player)
        self._watching.append(loop.create_task(player.watch()))
        if isinstance(follower, Device):
            self._acting.append(loop.create_task(player.act(follower, self._casting.pause_ms)))

    async def _stop(self) -> None:
        for task in self._acting:
            task.cancel()
        waiting = [task for player in self._players for task in player.waiting]
        if waiting:
            await asyncio.wait(waiting, timeout=PATIENCE_S)
        with contextlib.suppress(TimeoutError):
            # What earlier lives left behind as well.
            async with asyncio.timeout(PATIENCE_S):
                for player in self._players:
                    if isinstance(player.follower, Device):
                        await player.follower.settled()

    async def _see(self, versions: dict[str, Any]) -> None:
        await asyncio.gather(*(player.see(versions[player.actor.space]) for player in self._players))


async def main(path: str) -> None:
    casting = msgspec.json.decode(Path(path).read_bytes(), type=Casting)
    # By lines: each goes to the kernel at once, and so survives this process.
    with Path(casting.journal).open("a", buffering=1) as journal:
        async with contextlib.AsyncExitStack() as stack:
            await Swarm(casting, journal).run(stack)


if __name__ == "__main__":
    end_with_parent()
    uvloop.run(main(sys.argv[1]))
