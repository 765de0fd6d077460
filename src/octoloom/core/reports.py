"""What a link tells the register: that it has learnt, that it is whole, and whom it cannot reach.

A report can be lost, or come too early to count, so it is said again and again until the register's view shows it.
"""

from __future__ import annotations

from octoloom.core.effects import Effect, Report
from octoloom.core.register_messages import Adopted, Ready, Suspect, Whole

Standing = Ready | Whole | Adopted

SUSPECT_AFTER_MS = 400
SUSPECT_EVERY_MS = 200
REPORT_EVERY_MS = 500


class Reports:
    def __init__(self) -> None:
        self.missing: dict[str, int] = {}
        """Neighbours that this link has not heard in this view, and since when."""
        self._complained_ms = 0
        self._said: Standing | None = None
        self._said_ms = 0

    def repeat(self) -> None:
        """The register is there again: it may have missed the last report."""
        self._said = None

    def deadline(self, standing: Standing | None) -> int | None:
        times = [] if standing is None else [self._said_ms + REPORT_EVERY_MS]
        if self.missing:
            first = min(self.missing.values()) + SUSPECT_AFTER_MS
            times.append(max(first, self._complained_ms + SUSPECT_EVERY_MS))
        return min(times, default=None)

    def due(self, now: int, chain: str, epoch: int, standing: Standing | None) -> list[Effect]:
        """What is to be said now. `standing` is what the register's view does not show yet."""
        out: list[Effect] = []
        if standing is None:
            self._said = None
        elif standing != self._said or now >= self._said_ms + REPORT_EVERY_MS:
            self._said, self._said_ms = standing, now
            out.append(Report(standing))
        if now >= self._complained_ms + SUSPECT_EVERY_MS:
            for peer, since in self.missing.items():
                if now >= since + SUSPECT_AFTER_MS:
                    self._complained_ms = now
                    out.append(Report(Suspect(chain, epoch, peer)))
        return out
