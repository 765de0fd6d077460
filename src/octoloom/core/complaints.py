"""When a member tells the register who cannot be reached: again and again, as long as it lasts."""

from __future__ import annotations

from collections.abc import Iterable

AGAIN_MS = 100
"""So soon a complaint is made again: the register counts only those that are, within a short time of its own."""


class Complaints:
    def __init__(self, patience_ms: int) -> None:
        self._pause_ms = patience_ms // 4
        self.due_at: int | None = None

    def begin(self, now: int) -> None:
        """There is somebody to complain of."""
        if self.due_at is None:
            self.due_at = now + self._pause_ms

    def take(self, now: int, *silent: Iterable[str]) -> list[str]:
        """Whom to complain of now, each once."""
        if self.due_at is None or now < self.due_at:
            return []
        members = list(dict.fromkeys(member for members in silent for member in members))
        self.due_at = now + (min(AGAIN_MS, self._pause_ms) if members else self._pause_ms)
        return members
