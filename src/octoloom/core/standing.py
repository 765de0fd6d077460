"""Whether a broker may speak of what the register told it: by its own clock, for it may have slept.

The register waits for a broker until it gives it up, and from then on answers changes of topics that the broker does
not know of (`uptake.py`). So a broker has to know when it may have been given up:

1. it is *informed* while less than a lease has passed since it sent a beat that the register has answered. The lease at
   the register began later than that, so it ends later;
2. when its connection ends it is not informed: the register waits for it only for a short grace;
3. after `TRIES_MAX` tries, one soon after the other, of which none was answered, it is *alone*. The register is down,
   or the broker is cut off, and it cannot tell which. It then speaks of what it knows, since topics can be read and
   written without a register. Tries are counted, and not the time: who sleeps does not try, and has to begin anew.

A broker that is neither waits before it answers: the register is heard soon, or the broker turns out to be alone.
"""

from __future__ import annotations

TRIES_MAX = 30
"""Beats without an answer."""
DIAL_TRIES = 10
"""What a dial that led nowhere counts for: it takes longer than a beat, or is refused."""
MARGIN = 10
"""The broker takes a tenth off its lease: clocks do not run equally fast."""
PAUSE_LEASES = 2
"""Who has not tried for so many leases has slept."""


class Standing:
    def __init__(self) -> None:
        self._lease_ms = 0
        """As the register has said; 0 before it was heard."""
        self._until = self._alone_until = -1
        self._tries = self._tried_at = 0

    def on_heard(self, sent_at: int, lease_ms: int) -> None:
        """The register answers the beat of that time."""
        self._lease_ms = lease_ms - lease_ms // MARGIN
        self._until = max(self._until, sent_at + self._lease_ms)
        self._alone_until, self._tries = -1, 0

    def on_lost(self) -> None:
        """The connection ended."""
        self._until = -1

    def on_try(self, now: int, count: int = 1) -> None:
        """A beat goes out, or a dial has failed."""
        if now - self._tried_at > PAUSE_LEASES * self._lease_ms:
            self._tries = 0
        self._tries, self._tried_at = self._tries + count, now
        if self._tries > TRIES_MAX:
            self._alone_until = now + self._lease_ms

    def informed(self, now: int) -> bool:
        return now < self._until

    def may_speak(self, now: int) -> bool:
        return now < self._until or now < self._alone_until
