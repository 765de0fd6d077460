"""The groups of a story: a chat with one slow member, and a group in total order whose coordinator is killed.

The members of the second are processes of their own (`group_speaker.py`). They are loaded before the story begins, so
that their start slows down nobody in the midst of it, and end with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Callable
from itertools import dropwhile
from pathlib import Path

import msgspec

from octoloom.core.errors import UsageError
from octoloom.core.roster import name_of
from octoloom.runtime.causal_proof import Chat
from octoloom.runtime.group_chat_scene import chat
from octoloom.runtime.group_lives import Heard, Life, Line, Moved, longest_pause_ms
from octoloom.runtime.group_proof import GroupEvidence
from octoloom.runtime.group_speaker import Speaking, now_ms, read_lines
from octoloom.runtime.processes import Child, parse_ready

NAMES = ["anna", "ben", "cleo", "dan"]
LATE_MS = 800
PATIENCE_S = 30.0
LOOK_S = 0.05
REST_S = 0.2
"""What comes twice comes soon."""


class Succession(msgspec.Struct, frozen=True):
    """The coordinator of a group was killed, and another one orders on."""

    killed: str
    heir: str
    pause_ms: float
    """The longest time in which a survivor was handed nothing."""


class GroupStage:
    def __init__(self, register: str, data: Path, news: Callable[[str], None]) -> None:
        self._register, self._data, self._news = register, data, news
        self._speakers: dict[str, Child] = {}
        self._chats: list[Chat] = []
        self._lives: list[Life] = []
        self._pause_ms = 0.0

    async def load(self) -> None:
        """Starts the members of the group in total order. They do not join yet."""
        for path in [*map(self._file, NAMES), *self.traces()]:
            path.unlink(missing_ok=True)
        self._trace("crew").parent.mkdir(exist_ok=True)
        loads = await asyncio.gather(*(self._load(name) for name in NAMES), return_exceptions=True)
        for failed in [load for load in loads if isinstance(load, BaseException)]:
            raise failed

    async def _load(self, name: str) -> None:
        # So little that it slows down nobody, and so much that every moment is in the midst of it.
        speaking = Speaking(
            "crew", name, self._register, str(self._file(name)), 1, burst=4, trace=str(self._trace("crew"))
        )
        log = self._data / "logs" / f"member-{name}.log"
        arguments = [msgspec.json.encode(speaking).decode()]
        self._speakers[name] = await Child.start(name, arguments, log, module="octoloom.runtime.group_speaker")

    async def stop(self) -> None:
        await asyncio.gather(*(speaker.stop(0) for speaker in self._speakers.values()))

    # A chat.

    async def chat(self, order: str) -> Chat:
        done = await chat(self._register, order, LATE_MS, self._news, self._trace(f"chat-{order}"))
        self._chats.append(done)
        return done

    # One order.

    async def kill_coordinator(self, play_s: float) -> Succession:
        """Has all of them send, kills the coordinator, and has the others send on for as long as before."""
        await self._join()
        await asyncio.sleep(play_s)
        first, heir = self._lives[0], self._lives[1]
        speaker, killed_ms = self._speakers[name_of(first.member)], now_ms()
        speaker.signal(signal.SIGKILL)
        first.lived = False
        self._news(f"kill -9 of {speaker.name}, which orders what {', '.join(NAMES)} send")
        await speaker.wait()
        await self._until("a view without the one that was killed", self._have_gone_on)
        await asyncio.sleep(play_s)
        await self._come_to_rest()
        self._pause_ms = longest_pause_ms(self._survivors, killed_ms, now_ms())
        return Succession(speaker.name, name_of(heir.member), self._pause_ms)

    async def _join(self) -> None:
        """One after the other, so the first of them is the coordinator. They send when all are there."""
        for name in NAMES:
            speaker = self._speakers[name]
            _say(speaker, "join")
            facts = await self._answer(speaker)
            self._lives.append(Life(facts["member"], founded=True))
        await self._until("all members of the crew", self._are_all_there)
        for speaker in self._speakers.values():
            _say(speaker, "send")

    def _are_all_there(self) -> bool:
        """The last one found all of them there, so nobody came for it."""
        return all(self._members(name) == NAMES for name in NAMES[:-1])

    def _have_gone_on(self) -> bool:
        return all(self._members(name_of(life.member)) == NAMES[1:] for life in self._survivors)

    async def _come_to_rest(self) -> None:
        """Has the survivors end, and reads what each was handed once all have all."""
        for life in self._survivors:
            _say(self._speakers[name_of(life.member)], "stop")
        for life in self._survivors:
            life.to_send = int((await self._answer(self._speakers[name_of(life.member)]))["sent"])
        with contextlib.suppress(UsageError):
            # If some are never handed all, the proof says what is missing.
            await self._until("all messages at all survivors", self._has_all)
        await asyncio.sleep(REST_S)
        for life in self._lives:
            life.lines = self._lines(name_of(life.member))

    def _has_all(self) -> bool:
        counts = [
            Counter(heard.sender for heard in _heard(self._lines(name_of(life.member)))) for life in self._survivors
        ]
        return all(count[life.member] >= life.to_send for count in counts for life in self._survivors)

    def evidence(self) -> GroupEvidence:
        return GroupEvidence(self._chats, self._lives, self._pause_ms)

    # The members' processes and files.

    @property
    def _survivors(self) -> list[Life]:
        return [life for life in self._lives if life.lived]

    def _file(self, name: str) -> Path:
        return self._data / f"member-{name}.lines"

    def traces(self) -> list[Path]:
        """What the groups' members wrote down about their algorithms, a file for each group."""
        return sorted(self._trace("").parent.glob("*.steps"))

    def _trace(self, group: str) -> Path:
        return self._data / "traces" / f"{group}.steps"

    def _lines(self, name: str) -> list[Line]:
        """All that it wrote down, but for how the group came together."""
        lines = read_lines(self._file(name).read_bytes())
        return list(dropwhile(lambda line: isinstance(line, Moved) and line.word == "join", lines))

    def _members(self, name: str) -> list[str]:
        """Whom it saw last."""
        moves = [line for line in read_lines(self._file(name).read_bytes()) if isinstance(line, Moved)]
        return moves[-1].names if moves else []

    async def _answer(self, speaker: Child) -> dict[str, str]:
        try:
            async with asyncio.timeout(PATIENCE_S):
                line = await speaker.read_line()
        except TimeoutError as error:
            raise UsageError(f"{speaker.name} gave no answer within {PATIENCE_S:.0f} s: see {speaker.log}") from error
        if not line.startswith("ready "):
            raise UsageError(f"{speaker.name} ended before its time: see {speaker.log}")
        return parse_ready(line)

    async def _until(self, what: str, condition: Callable[[], bool]) -> None:
        deadline_ms = now_ms() + PATIENCE_S * 1000
        while not condition():
            if now_ms() > deadline_ms:
                raise UsageError(f"waited {PATIENCE_S:.0f} s for {what}: look into {self._data / 'logs'}")
            await asyncio.sleep(LOOK_S)


def _say(speaker: Child, word: str) -> None:
    # One that has just died has no ear any more; that it gives no answer is what counts.
    with contextlib.suppress(RuntimeError):
        speaker.write_line(word)


def _heard(lines: list[Line]) -> list[Heard]:
    return [line for line in lines if isinstance(line, Heard)]
