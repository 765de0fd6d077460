"""How long to wait before trying again: twice as long each time, and never quite as long as the others do."""

from __future__ import annotations

import random

FIRST_MS = 20.0
MAX_MS = 500.0


class Backoff:
    def __init__(self, first_ms: float = FIRST_MS, max_ms: float = MAX_MS) -> None:
        self._first_ms, self._max_ms = first_ms, max_ms
        self._ms = first_ms

    def next_s(self) -> float:
        """Seconds to wait now."""
        wait_s = self._ms / 1000 * random.uniform(0.5, 1.0)
        self._ms = min(self._ms * 2, self._max_ms)
        return wait_s

    def reset(self) -> None:
        """It went well: the next trouble begins with a short wait."""
        self._ms = self._first_ms
