"""Logs of processes, kept from growing for ever: one that is found to be too long begins anew, and its end is kept.

Who writes a log has it open, and knows nothing of this. So it is not renamed, but copied and then emptied; all write to
its end, wherever that is. Lines that come between the two steps are lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

LOG_BYTES_MAX = 16 * 1024 * 1024
LOOK_S = 10.0
OLDER = ".1"
"""Behind the name of a log: what was in it before."""


class ProcessLogs:
    """All logs of a directory, looked after from `start` to `stop`."""

    def __init__(self, directory: Path, bytes_max: int = LOG_BYTES_MAX, look_s: float = LOOK_S) -> None:
        self._directory, self._bytes_max, self._look_s = directory, bytes_max, look_s
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        for log in self._directory.glob("*.log"):
            # A log that cannot be copied, for lack of space perhaps, stays as it is.
            with contextlib.suppress(OSError):
                keep_short(log, self._bytes_max)
        self._timer = asyncio.get_running_loop().call_later(self._look_s, self._look)


def keep_short(log: Path, bytes_max: int) -> None:
    """Moves the last words of a log that is too long to the older one, in place of what that had; drops the rest."""
    size = log.stat().st_size
    if size > bytes_max:
        with log.open("rb") as words:
            words.seek(size - bytes_max)
            log.with_name(log.name + OLDER).write_bytes(words.read())
        os.truncate(log, 0)
