"""One clock for one process: wall time in milliseconds that never goes back.

The wall is looked at once, at the start; from then on only elapsed time is added. Setting the machine's clock while a
link runs therefore moves no timer and takes no event back in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_NS_PER_MS = 1_000_000


class Clock:
    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, elapsed_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._elapsed_ns = elapsed_ns
        self._origin_ns = wall_ns() - elapsed_ns()
        self.started_ms = self.now()

    def now(self) -> int:
        return (self._origin_ns + self._elapsed_ns()) // _NS_PER_MS
