"""Ends reducers that run for too long.

A signal ticks while the process runs. The app wears a positive number while a reducer runs, a new one for each event;
a tick that sees the same number for the whole budget raises `TookTooLong` right there, inside the reducer. The core
rejects that event, takes its writes back and goes on.

1. It never raises outside of a reducer: the number is negative then.
2. It ticks in wall time, so that a reducer that sleeps or waits for a network is ended too.
3. It counts ticks, not time: a process that was stopped, or that the machine had no time for, loses nothing.

What it cannot end is a loop inside of C code that never looks at signals. Such a link falls silent, the register gives
it up, and the next tail finds the culprit in its trial.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from types import FrameType

from octoloom.core.app import App, TookTooLong
from octoloom.core.errors import UsageError

TICK_MS = 250
BUDGET_MS = 1000


class Watchdog:
    """Watches apps from the main thread, one watchdog per process, from `start` until `stop`."""

    def __init__(self, apps: Sequence[App], budget_ms: int = BUDGET_MS, tick_ms: int = TICK_MS) -> None:
        if budget_ms < tick_ms or tick_ms < 1:
            raise UsageError(f"a reducer's budget is at least one tick of {tick_ms} ms, not {budget_ms} ms")
        self._apps = tuple(apps)
        self._tick_ms = tick_ms
        self._ticks_max = budget_ms // tick_ms
        self._seen = [0] * len(self._apps)
        self._ticks = [0] * len(self._apps)
        self._before: signal._HANDLER = signal.SIG_DFL
        self._running = False

    def start(self) -> None:
        try:
            self._before = signal.signal(signal.SIGALRM, self._on_tick)
        except ValueError as error:
            raise UsageError("a watchdog works in the main thread only: start the link there") from error
        self._running = True
        signal.setitimer(signal.ITIMER_REAL, self._tick_ms / 1000, self._tick_ms / 1000)

    def stop(self) -> None:
        if self._running:
            self._running = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)

    def _on_tick(self, _number: int, _frame: FrameType | None) -> None:
        for at, app in enumerate(self._apps):
            running = app.running
            if running <= 0 or running != self._seen[at]:
                self._seen[at], self._ticks[at] = running, 0
                continue
            self._ticks[at] += 1
            if self._ticks[at] >= self._ticks_max:
                raise TookTooLong
