"""A register and the members of a group as real processes, and what can be done to them.

Members join one after the other, so who is the coordinator is known: the oldest that is still there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from octoloom.runtime.group_lives import Life, Moved
from octoloom.runtime.group_speaker import EXPELLED, Speaking, now_ms, read_lines
from octoloom.runtime.processes import PARENT, parse_ready
from tests.chaos.netns import Net
from tests.waiting import PATIENCE_S, until

REGISTER_PORT = 7070
QUIET_S = 0.7


class Member:
    """A process that speaks, and what it has written down so far."""

    def __init__(self, speaking: Speaking, process: subprocess.Popen[bytes]) -> None:
        self.name = speaking.name
        self.process = process
        self.life = Life("", founded=False)
        self._file = Path(speaking.file)
        self._read = 0

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())
        self.process.stdin.flush()

    def hear(self) -> dict[str, str]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        if not line.startswith("ready"):
            pytest.fail(f"{self.name} ended before it was ready")
        return parse_ready(line)

    def join(self) -> None:
        self.say("join")
        self.life.member = self.hear()["member"]

    def look(self) -> Life:
        """Reads on in its file."""
        if self._file.exists():
            with self._file.open("rb") as file:
                file.seek(self._read)
                text = file.read()
            whole = text.rfind(b"\n") + 1
            self._read += whole
            self.life.lines += read_lines(text[:whole])
        return self.life

    def members(self) -> list[str]:
        """Whom it saw last, if it has seen a change."""
        moves = [line for line in self.look().lines if isinstance(line, Moved)]
        return moves[-1].names if moves else []


class GroupCluster:
    def __init__(self, folder: Path, speaking: dict[str, object], net: Net | None = None) -> None:
        """`speaking` is what all members have in common; with a net, each is on the host of its name."""
        self.folder, self.net = folder, net
        self.members: list[Member] = []
        self.faults: list[tuple[str, float]] = []
        """What was done, and when."""
        self._speaking = speaking
        self._processes: list[subprocess.Popen[bytes]] = []
        self.register = self._start_register()

    def _spawn(self, host: str, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        before = self.net.command(host) if self.net is not None else []
        with (self.folder / f"{host}.log").open("ab") as log:
            process = subprocess.Popen(
                [*before, sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
                env={**os.environ, PARENT: str(os.getpid())},
            )  # fmt: skip
        self._processes.append(process)
        return process

    def _address(self, host: str) -> str:
        return self.net.address(host) if self.net is not None else "127.0.0.1"

    def _start_register(self) -> str:
        host, port = self._address("register"), REGISTER_PORT if self.net is not None else 0
        arguments = ["register", "--host", host, "--port", str(port), "--data", str(self.folder / "data")]
        process = self._spawn("register", "octoloom", *arguments)
        assert process.stdout is not None
        return parse_ready(process.stdout.readline().decode())["address"]

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    # Members.

    def load(self, name: str) -> Member:
        """Starts a process that does not join yet."""
        file = self.folder / f"{name}-{len(self._processes)}.lines"
        common = {"group": "room", "host": self._address(name), "register": self.register}
        speaking = msgspec.convert({**common, "name": name, "file": str(file), **self._speaking}, Speaking)
        text = msgspec.json.encode(speaking).decode()
        return Member(speaking, self._spawn(name, "tests.chaos.group_member_process", text))

    def found(self, names: list[str]) -> None:
        """Has them join, and then all begin to send at once."""
        loaded = [self.load(name) for name in names]
        for member in loaded:
            member.hear()
        for member in loaded:
            self._join(member, founded=True)
        until(lambda: all(member.members() == names for member in loaded[:-1]), "all founders")
        for member in loaded:
            # What came before is no part of the story.
            member.look().lines.clear()
        for member in loaded:
            member.say("send")

    def loaded(self, name: str) -> Member:
        """A newcomer that is ready to join: so there is not more of a pause than the join itself."""
        member = self.load(name)
        member.hear()
        return member

    def admit(self, newcomer: Member) -> None:
        self._join(newcomer, founded=False)
        until(lambda: self.reference.members() == self.present(), f"{newcomer.name} to be seen")
        newcomer.say("send")

    def _join(self, member: Member, founded: bool) -> None:
        member.join()
        member.life.founded = founded
        self.members.append(member)

    def alive(self) -> list[Member]:
        return [member for member in self.members if member.life.lived]

    def present(self) -> list[str]:
        return [member.name for member in self.alive()]

    @property
    def coordinator(self) -> Member:
        return self.alive()[0]

    @property
    def reference(self) -> Member:
        """One that was there from the beginning, and that nobody does anything to."""
        return next(member for member in reversed(self.alive()) if member.life.founded)

    # Faults.

    def begin_fault(self, kind: str, messages: int) -> None:
        """Waits until so many more messages are through, so that the fault comes in the midst of them."""
        before = len(self.reference.look().heard)
        until(lambda: len(self.reference.look().heard) >= before + messages, f"messages before {kind}")
        self.faults.append((kind, now_ms()))

    def kill(self, member: Member) -> None:
        member.process.send_signal(signal.SIGKILL)
        member.process.wait()
        member.life.lived = False

    def until_expelled(self, member: Member) -> None:
        """Waits until the others have gone on without it."""
        member.life.lived = False
        until(lambda: self.reference.members() == self.present(), f"a view without {member.name}")

    def until_gone(self, member: Member) -> None:
        """It has found out, and ended."""
        assert member.process.wait(PATIENCE_S) == EXPELLED

    # The end.

    def finish(self) -> list[Life]:
        """Waits until all founders who live have all, and nobody is handed anything any more; answers all lives."""
        for member in self.alive():
            member.say("stop")
        for member in self.alive():
            member.life.to_send = int(member.hear()["sent"])
        until(self._is_done, "all messages")
        size = -1
        while size != (size := sum(len(member.look().lines) for member in self.members)):
            time.sleep(QUIET_S)
        return [member.life for member in self.members]

    def _is_done(self) -> bool:
        for member in self.alive():
            code = member.process.poll()
            if code is not None:
                pytest.fail(f"{member.name} ended with {code}: {(self.folder / f'{member.name}.log').read_text()}")
        living = [member.life for member in self.alive()]
        for member in [member for member in self.alive() if member.life.founded]:
            last = {heard.sender: heard.number for heard in member.look().heard}
            if self._speaking["order"] != "total":
                last[member.life.member] = member.life.to_send
            if any(last.get(life.member, 0) < life.to_send for life in living):
                return False
        return True
