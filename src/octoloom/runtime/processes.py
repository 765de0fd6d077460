"""Child processes of this one: started, awaited until they are ready, and ended by their own number only.

1. A child has a session of its own, so a Ctrl-C in the terminal reaches this process alone, which ends its children.
2. A child asks the kernel to end it with its parent, so nothing is left behind by a `kill -9` of the parent.
3. A signal goes only to a child that has not been waited for: its number cannot have gone to another process.
4. A child says that it works with one line on its standard output, ``ready key=value ...``; the rest goes to a log. A
   server's own output is the log from the start (`print_to_log`): what an app prints would fill a pipe that nobody
   reads, and the server would wait for room in it for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from octoloom.core.errors import UsageError

PARENT = "OCTOLOOM_PARENT_PID"
READY_S = 60.0
STOP_S = 3.0
_PR_SET_PDEATHSIG = 1


def end_with_parent() -> bool:
    """For the child: end when the process that started this one does. Without such a parent, does nothing: False."""
    parent = os.environ.pop(PARENT, "")
    if not parent or sys.platform != "linux":
        return bool(parent)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # If it was gone before the kernel knew of the wish, nobody else will tell.
    if os.getppid() != int(parent):
        os.kill(os.getpid(), signal.SIGKILL)
    return True


def print_to_log() -> Callable[[str], None]:
    """For the child: whatever it prints goes where its errors go. Answers how to say the ready line to the parent."""
    parent = os.dup(1)
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)

    def say(line: str) -> None:
        with os.fdopen(parent, "w") as pipe:
            pipe.write(f"{line}\n")

    return say


def ready_line(**facts: object) -> str:
    return "ready " + " ".join(f"{key}={value}" for key, value in facts.items())


def parse_ready(line: str) -> dict[str, str]:
    """The facts of a ready line; none if it is another line."""
    word, *pairs = line.split()
    return dict(pair.split("=", 1) for pair in pairs) if word == "ready" else {}


def created_at(pid: int) -> float:
    """When the process began: with its number it names a process for good. 0 if there is none."""
    try:
        process = psutil.Process(pid)
        return 0.0 if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return 0.0


def is_same(pid: int, created: float) -> bool:
    now = created_at(pid)
    return now != 0.0 and abs(now - created) < 0.05


class Child:
    """One process of ours."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.pid = process.pid
        self.created = created_at(process.pid)
        self.log = log
        self.facts: dict[str, str] = {}
        self._process = process

    @classmethod
    async def start(cls, name: str, arguments: Sequence[str], log: Path, module: str = "octoloom") -> Child:
        """Starts `python -m module arguments`, and waits until it is ready."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=errors, start_new_session=True, env={**os.environ, PARENT: str(os.getpid())},
            )  # fmt: skip
        child = cls(name, process, log)
        try:
            async with asyncio.timeout(READY_S):
                await child._await_ready()
        except TimeoutError as error:
            await child.stop(0)
            raise UsageError(f"{name} was not ready within {READY_S:.0f} s: its log is {log}") from error
        except BaseException:
            await child.stop(0)
            raise
        return child

    async def _await_ready(self) -> None:
        while line := await self.read_line():
            if line.startswith("ready "):
                self.facts = parse_ready(line)
                return
        await self._process.wait()
        raise UsageError(f"{self.name} ended before it was ready: {self._last_words()}")

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
        return f"{last.removeprefix('Error: ')} (its log is {self.log})"

    async def read_line(self) -> str:
        """The next line of its standard output; empty at the end."""
        assert self._process.stdout is not None
        try:
            return (await self._process.stdout.readline()).decode(errors="replace")
        except ValueError as error:
            raise UsageError(f"{self.name} wrote a line that is too long: see {self.log}") from error

    def write_line(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{line}\n".encode())

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> int:
        return await self._process.wait()

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def stop(self, patience_s: float = STOP_S) -> None:
        """Asks it to end at once, and makes it end if it does not."""
        if self.running and patience_s:
            self.signal(signal.SIGINT)
            self.signal(signal.SIGCONT)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self.wait()
        if self.running:
            self.signal(signal.SIGKILL)
        await self.wait()
