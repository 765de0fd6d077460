"""When a member tells the register who cannot be reached: again and again, as long as it lasts."""

from __future__ import annotations

from collections.abc import Iterable


class Complaints:
    def __init__(self, patience_ms: int) -> None:
        self.patience_ms = patience_ms
        self.due_at: int | None = None

    def begin(self, now: int) -> None:
        """There is somebody to complain of."""
        if self.due_at is None:
            self.due_at = now + self.patience_ms // 4

    def take(self, now: int, *silent: Iterable[str]) -> list[str]:
        """Whom to complain of now, each once."""
        if self.due_at is None or now < self.due_at:
            return []
        self.due_at = now + self.patience_ms // 4
        return list(dict.fromkeys(member for members in silent for member in members))
