"""Simulated players of the arena, many in one process, beside the cluster and not in it.

They speak the devices' protocol over WebSockets like anybody else. The process that started them hears how they fare
(a line of JSON a few times a second on the standard output) and says when to end (on the standard input):

::

    volley          every player makes several moves at once
    stop            make no more moves, and wait until all are settled   → {"settled": true}
    finish VERSION  see that version, write the record, end
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from pathlib import Path

import msgspec
import uvloop

from octoloom.arena import CELLS
from octoloom.core.errors import OctoloomError, UsageError
from octoloom.runtime.device import Device, Sending
from octoloom.runtime.follower import Follower
from octoloom.runtime.observer import Observer
from octoloom.runtime.processes import end_with_parent, ready_line
from octoloom.runtime.proof import Move, PlayerRecord, Witness, digest_of

TELL_S = 0.25
SETTLE_S = 60.0
OUTSTANDING_MAX = 32
"""A player that hears nothing for a while makes no more moves than this: people would stop, too."""

VOLLEY = 8


class Casting(msgspec.Struct, frozen=True):
    """Who plays in this process."""

    urls: list[str]
    space: str
    players: list[str]
    observers: list[str]
    pause_ms: float
    seed: int
    record: str


class Progress(msgspec.Struct, frozen=True):
    """How they fare. `lags_ms` are those since the last line, at most a hundred of them."""

    sent: int
    applied: int
    rejected: int
    connected: int
    lags_ms: list[float]
    settled: bool = False


class Testimony(msgspec.Struct, frozen=True):
    players: list[PlayerRecord]
    observers: list[Witness]


def now_ms() -> float:
    """The machine's monotonic clock, which all of its processes share."""
    return time.monotonic_ns() / 1e6


class Watcher:
    """Follows a space, and notes whether it ever goes back."""

    def __init__(self, name: str, follower: Follower) -> None:
        self.witness = Witness(name)
        self.follower = follower
        self.told: list[tuple[int, str]] = []

    async def watch(self) -> None:
        async for change in self.follower.changes():
            self.witness.fell += change.version < self.witness.version
            self.witness.resets += change.reset
            self.witness.version = change.version
            self.told.extend((outcome.sequencer, outcome.status) for outcome in change.settled)

    async def see(self, version: int) -> None:
        """Waits until the follower is there, and notes what it sees."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                while self.follower.version < version:
                    await self.follower.told()
        self.witness.version, self.witness.digest = self.follower.version, digest_of(self.follower.state)


class Player(Watcher):
    """Makes moves at random, and notes every one and what became of it."""

    def __init__(self, device: Device, dice: random.Random, pause_ms: float, lags_ms: list[float]) -> None:
        super().__init__(device.device, device)
        self.device = device
        self.moves: list[Move] = []
        self.outstanding = 0
        self._dice, self._pause_ms, self._lags_ms = dice, pause_ms, lags_ms
        self._notes: set[asyncio.Task[None]] = set()

    async def play(self) -> None:
        while True:
            await asyncio.sleep(self._dice.uniform(0.3, 1.7) * self._pause_ms / 1000)
            if self.outstanding < OUTSTANDING_MAX:
                self._move()

    def fire(self) -> None:
        for _ in range(VOLLEY):
            self._move()

    def _move(self) -> None:
        move = Move(len(self.moves) + 1, now_ms())
        sending = self.device.send("claim", {"cell": self._dice.choice(CELLS), "number": move.number})
        self.moves.append(move)
        self.outstanding += 1
        note = asyncio.get_running_loop().create_task(self._note(move, sending))
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    async def _note(self, move: Move, sending: Sending) -> None:
        # One that never settles stays without a status, which is what the proof looks for.
        with contextlib.suppress(OctoloomError):
            outcome = await sending
            move.settled_ms, move.status, move.reason = now_ms(), outcome.status, outcome.reason
            move.version, move.sequencer = outcome.version, outcome.sequencer
            self.outstanding -= 1
            self._lags_ms.append(move.lag_ms)

    async def settle(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                await self.device.settled()
        await asyncio.sleep(0)

    def record(self) -> PlayerRecord:
        return PlayerRecord(self.witness, self.moves, self.told)


class Troupe:
    """All who play and watch in this process."""

    def __init__(self, casting: Casting) -> None:
        self.casting = casting
        self.lags_ms: list[float] = []
        self.players: list[Player] = []
        self.watchers: list[Watcher] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._playing: list[asyncio.Task[None]] = []
        self._settled = False

    async def run(self) -> None:
        casting = self.casting
        async with contextlib.AsyncExitStack() as stack:
            for at, name in enumerate(casting.players):
                device = Device.connect(casting.urls, casting.space, name, wait_ms=10_000)
                dice = random.Random(casting.seed + at)
                self.players.append(
                    Player(await stack.enter_async_context(device), dice, casting.pause_ms, self.lags_ms)
                )
            for at, name in enumerate(casting.observers):
                # Each begins at another link: any of them serves observers.
                urls = casting.urls[at + 1 :] + casting.urls[: at + 1]
                observer = Observer.connect(urls, casting.space, wait_ms=10_000)
                self.watchers.append(Watcher(name, await stack.enter_async_context(observer)))
            self._begin()
            print(ready_line(players=len(self.players)), flush=True)
            try:
                await self._obey()
            finally:
                for task in (*self._playing, *self._tasks):
                    task.cancel()

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(one.watch()) for one in (*self.players, *self.watchers)]
        self._tasks.append(loop.create_task(self._tell_on()))
        self._playing = [loop.create_task(player.play()) for player in self.players]

    async def _obey(self) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := (await reader.readline()).decode().split():
            match line:
                case ["volley"]:
                    for player in self.players:
                        player.fire()
                case ["stop"]:
                    await self._stop()
                case ["finish", version]:
                    await self._finish(int(version))
                    return

    async def _stop(self) -> None:
        for task in self._playing:
            task.cancel()
        await asyncio.gather(*(player.settle() for player in self.players))
        self._settled = True
        self._tell()

    async def _finish(self, version: int) -> None:
        await asyncio.gather(*(one.see(version) for one in (*self.players, *self.watchers)))
        testimony = Testimony([one.record() for one in self.players], [one.witness for one in self.watchers])
        Path(self.casting.record).write_bytes(msgspec.json.encode(testimony))

    async def _tell_on(self) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            self._tell()

    def _tell(self) -> None:
        lags_ms, self.lags_ms[:] = self.lags_ms[-100:], []
        statuses = [move.status for player in self.players for move in player.moves]
        connected = sum(one.follower.connected for one in (*self.players, *self.watchers))
        progress = Progress(
            len(statuses), statuses.count("applied"), statuses.count("rejected"), connected, lags_ms, self._settled
        )
        print(msgspec.json.encode(progress).decode(), flush=True)


def main() -> None:
    end_with_parent()
    try:
        casting = msgspec.json.decode(sys.argv[1], type=Casting)
    except (IndexError, msgspec.MsgspecError) as error:
        raise UsageError(f"players are started by `octoloom demo`, with a casting: {error}") from error
    uvloop.run(Troupe(casting).run())


if __name__ == "__main__":
    main()
