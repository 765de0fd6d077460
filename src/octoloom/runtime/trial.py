"""Finds the events that end the process that computes them, in processes that may end.

A child is forked with a copy of the state. It says through a pipe which event it is at, computes it, and goes on to
the next. If the child ends before it said that it is through, the event that it was at is fatal; another child then
tries the rest, without it. A child that spends more than the budget on one event is ended by the kernel (processor
time) or by this side (wall time, for one that sleeps), which is the same.

1. The child never touches the event loop: it drops every descriptor but its pipe and every signal handler first.
2. It leaves by `_exit` only, so nothing of this process is flushed, closed or cleaned up twice.
3. The rounds are bounded. If events are still untried then, they count as fatal: the link's life goes first.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from octoloom.core.app import App
from octoloom.core.event import Event
from octoloom.core.recorder import Recorder

BUDGET_MS = 1000
PATIENCE = 10
"""In wall time a child may take this many budgets: it may share its processor with many others."""
ROUNDS_MAX = 64

_AT = struct.Struct("=i")
_BROKEN = -1
_log = logging.getLogger("octoloom.link")


async def trial(app: App, state: Mapping[str, Any], events: Sequence[Event], budget_ms: int = BUDGET_MS) -> list[int]:
    """The chain sequencers of those events that end the process, in order."""
    fatal: list[int] = []
    rest = list(events)
    for _ in range(ROUNDS_MAX):
        reached = await _round(app, state, rest, budget_ms)
        if reached == _BROKEN or reached >= len(rest):
            return fatal
        fatal.append(rest[reached].chain_sequencer)
        del rest[reached]
    return sorted([*fatal, *(event.chain_sequencer for event in rest)])


async def _round(app: App, state: Mapping[str, Any], events: Sequence[Event], budget_ms: int) -> int:
    """The place of the event that ended the child; `len(events)` if none did."""
    try:
        pid, pipe = _fork(app, state, events, budget_ms)
    except OSError as error:
        _log.warning("no trial, since no process could be started: %s", error)
        return _BROKEN
    try:
        return await _follow(pipe, budget_ms * PATIENCE / 1000)
    finally:
        # Nobody has waited for it yet, so the number is still its own, whether it lives or not.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        os.close(pipe)


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
                async with asyncio.timeout(patience_s):
                    await readable.wait()
                silent = False
            except TimeoutError:
                silent = True
            readable.clear()
            # If this side was the slow one, the child's word lies in the pipe all the same.
            text, ended = _read(pipe)
            if text:
                (reached,) = _AT.unpack(text[-_AT.size :])
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


def _fork(app: App, state: Mapping[str, Any], events: Sequence[Event], budget_ms: int) -> tuple[int, int]:
    reading, writing = os.pipe()
    # Until the child has no handlers of this process left, no signal may reach it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _live(app, state, events, budget_ms, writing)
    except OSError:
        os.close(reading)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(writing)
    os.set_blocking(reading, False)
    return pid, reading


# Only the child runs what follows.


def _live(app: App, state: Mapping[str, Any], events: Sequence[Event], budget_ms: int, pipe: int) -> NoReturn:
    try:
        pipe = _leave_everything(pipe)
        _compute(app, state, events, budget_ms, pipe)
    finally:
        os._exit(0)


def _leave_everything(pipe: int) -> int:
    """Cuts every tie to the parent but the pipe, and says which descriptor that now is."""
    signal.set_wakeup_fd(-1)
    faulthandler.disable()
    for number in signal.valid_signals():
        # Those that cannot be caught cannot be reset either.
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.dup2(pipe, 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    return 3


def _compute(app: App, state: Mapping[str, Any], events: Sequence[Event], budget_ms: int, pipe: int) -> None:
    recorder = Recorder(dict(state))
    for at, event in enumerate(events):
        os.write(pipe, _AT.pack(at))
        signal.setitimer(signal.ITIMER_PROF, budget_ms / 1000)
        app.run(recorder, event, next_timer=1)
    signal.setitimer(signal.ITIMER_PROF, 0)
    os.write(pipe, _AT.pack(len(events)))
