"""Who in a chain cannot reach whom, and who has to go for it.

The register may hear every link of a chain although two neighbours cannot hear each other. They complain, again and
again while it lasts. The complaints of one epoch are gathered for `suspect_ms`, so that both sides are heard, and then
the most accused is named: a link cut off in the middle is accused from above and from below. Between equals the one
nearest the tail goes, for it is the head that devices are connected to.

A complaint that was made once and not again does not count, and one that is old is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class _Complaint:
    first_at: int
    last_at: int


class Suspicions:
    """The complaints of one chain's current epoch: at most one per pair of its members."""

    def __init__(self, suspect_ms: int) -> None:
        self._suspect_ms = suspect_ms
        self._complaints: dict[tuple[str, str], _Complaint] = {}
        self._decide_at: int | None = None

    @property
    def decide_at(self) -> int | None:
        """When the complaints are to be weighed."""
        return self._decide_at

    def add(self, now: int, accuser: str, accused: str) -> None:
        complaint = self._complaints.setdefault((accuser, accused), _Complaint(now, now))
        complaint.last_at = now
        if self._decide_at is None:
            self._decide_at = now + self._suspect_ms

    def clear(self) -> None:
        self._complaints.clear()
        self._decide_at = None

    def delay(self, late_ms: int) -> None:
        if self._decide_at is not None:
            self._decide_at += late_ms
        for complaint in self._complaints.values():
            complaint.first_at += late_ms
            complaint.last_at += late_ms

    def weigh(self, now: int, links: Sequence[str]) -> list[str]:
        """Those involved, the first to go first; empty while it is too early or the complaints have ceased.

        Accusers come after all accused: if nobody accused can be spared, the one that complains has to go.
        """
        if self._decide_at is None or now < self._decide_at:
            return []
        self._forget_old(now)
        self._decide_at = now + self._suspect_ms if self._complaints else None
        standing = [pair for pair, complaint in self._complaints.items() if complaint.last_at > complaint.first_at]
        involved = [link for link in reversed(links) if any(link in pair for pair in standing)]
        return sorted(involved, key=lambda link: -sum(link == accused for _, accused in standing))

    def _forget_old(self, now: int) -> None:
        oldest = now - 2 * self._suspect_ms
        self._complaints = {pair: c for pair, c in self._complaints.items() if c.last_at >= oldest}
