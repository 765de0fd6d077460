"""Finds the events that end the process that computes them, in processes that may end.

A child with a copy of the state says through a pipe which event it is at, computes it, and goes on to the next, by the
rule of a space: an event that waits is tried again when another one frees it. If the child ends before it said that it
is through, the event that it was at is fatal; another child then tries the rest, without it. A child that spends more
than the budget on one event is ended by the kernel (processor time) or by this side (wall time, for one that sleeps),
which is the same. The children are made by a process of their own: `trial_host` says why.

1. A link that is started by a command makes that process before it has any thread, so a trial begins at once, with the
   very code that the link runs. Otherwise, or if that process was lost, it is started when it is needed.
2. The rounds are bounded. If events are still untried then, they count as fatal: the link's life goes first.
3. If there is no process to be had, there is no verdict: nothing is fatal.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import msgspec

from octoloom.core.app import App
from octoloom.core.event import Event
from octoloom.runtime import trial_host
from octoloom.runtime.trial_host import AT, END, ORDER, TRY, Case

BUDGET_MS = 1000
PATIENCE = 10
"""In wall time a child may take this many budgets: it may share its processor with many others."""
START_S = 60.0
"""For the first word: an interpreter may have to be started, and the app loaded."""
ROUNDS_MAX = 64

_BROKEN = -1
_log = logging.getLogger("octoloom.link")


class Trials:
    """`app` names the app for a process that loads it; without a name only `forked` has one."""

    def __init__(self, app: str = "") -> None:
        self._app = app
        self._pid = 0
        self._control: socket.socket | None = None
        self._numbers = count(1)
        self._closed = False

    @classmethod
    def forked(cls, app: App, name: str = "") -> Trials:
        """To be called while this process has one thread only."""
        made = cls(name)
        ours, theirs = socket.socketpair()
        # Until the child has no handlers of this process left, no signal may reach it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                trial_host.serve(app, theirs.fileno())
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        made._take(pid, ours)
        return made

    @property
    def pid(self) -> int:
        """Of the process that makes the children; 0 if there is none now."""
        return self._pid

    async def judge(self, state: Mapping[str, Any], events: Sequence[Event], budget_ms: int = BUDGET_MS) -> list[int]:
        """The chain sequencers of those events that end the process, in order."""
        fatal: list[int] = []
        rest = list(events)
        for _ in range(ROUNDS_MAX):
            case = Case(dict(state), rest, budget_ms)
            reached = await self._round(case)
            if reached == _BROKEN and self._is_lost():
                self._drop()
                reached = await self._round(case)
            if reached == _BROKEN or reached >= len(rest):
                return fatal
            fatal.append(rest[reached].chain_sequencer)
            del rest[reached]
        return sorted([*fatal, *(event.chain_sequencer for event in rest)])

    def close(self) -> None:
        """Ends all that was started, for good."""
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
            # Nobody has waited for it yet, so the number is still its own, whether it lives or not.
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0

    async def _round(self, case: Case) -> int:
        """The place of the event that ended the child; as many as there are if none did."""
        number = next(self._numbers)
        try:
            pipe = self._begin(number, case)
        except (OSError, TypeError, ValueError, OverflowError) as error:
            _log.warning("no trial, since no process could be started: %s", error)
            return _BROKEN
        try:
            return await _follow(pipe, case.budget_ms * PATIENCE / 1000)
        finally:
            with contextlib.suppress(OSError):
                self._order(END, number)
            os.close(pipe)

    def _begin(self, number: int, case: Case) -> int:
        """Answers where the child will say how far it is."""
        reading, writing = os.pipe()
        try:
            with tempfile.TemporaryFile(buffering=0) as file:
                file.write(msgspec.json.encode(case))
                self._order(TRY, number, file.fileno(), writing)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
        return reading

    def _order(self, kind: int, number: int, *descriptors: int) -> None:
        if self._control is None:
            if kind == END:
                return
            self._spawn()
        assert self._control is not None
        socket.send_fds(self._control, [ORDER.pack(kind, number)], descriptors)

    def _is_lost(self) -> bool:
        """Whether the process that makes the children was there and is gone: it says nothing, so this is its end."""
        if self._control is None:
            return False
        try:
            self._control.recv(1)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def _spawn(self) -> None:
        if self._closed:
            raise OSError("the link is about to end")
        if not self._app:
            raise OSError("the app has no name by which another process could load it")
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", trial_host.__name__, self._app, str(theirs.fileno())]
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        self._take(process.pid, ours)
        # It is waited for in `_drop`, by its number.
        process.returncode = 0

    def _take(self, pid: int, control: socket.socket) -> None:
        control.setblocking(False)
        self._pid, self._control = pid, control


async def _follow(pipe: int, patience_s: float) -> int:
    """Reads how far the child came, until it ends or stays at one event for too long."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(pipe, readable.set)
    reached = _BROKEN
    try:
        while True:
            try:
                # Not wait_for: in Python 3.11 it may swallow a cancellation that comes together with the event.
                async with asyncio.timeout(START_S if reached == _BROKEN else patience_s):
                    await readable.wait()
                silent = False
            except TimeoutError:
                silent = True
            readable.clear()
            # If this side was the slow one, the child's word lies in the pipe all the same.
            text, ended = _read(pipe)
            if text:
                (reached,) = AT.unpack(text[-AT.size :])
            if ended or (silent and not text):
                return reached
    finally:
        loop.remove_reader(pipe)


def _read(pipe: int) -> tuple[bytes, bool]:
    """All that waits in the pipe, and whether it has come to its end. To be empty is not to have ended."""
    text = b""
    try:
        while chunk := os.read(pipe, 65536):
            text += chunk
    except BlockingIOError:
        return text, False
    return text, True
