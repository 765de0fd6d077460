"""How long a device waits: for any sign of life, for the answer to its bootstrap, and because it was asked to.

Theory. A link that lives says something at least every `dead_ms`, because a device that hears nothing for `ping_ms`
pings it. Silence after that ping is death. The answer to a bootstrap has its own, longer time. A wait that the link
asked for (`Busy`, `Redirect`) suspends only the latter: the link must stay alive meanwhile.

Invariants
1. Whoever is declared dead was pinged first: a pause of our own process kills no connection.
2. A ping goes out only into silence, once per silence.
3. `due` may be asked too early or too late, and `deadline` is never later than the next thing that is due.
"""

from __future__ import annotations

from enum import Enum

from octoloom.core.device_effects import Limits


class Due(Enum):
    PING = "ping"
    RESUME = "resume"
    DEAD = "the link is silent"
    UNANSWERED = "the link does not answer the bootstrap"


class Patience:
    """The times of one connection, in milliseconds."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._heard_at = 0
        self._pinged_at: int | None = None
        self._asked_at: int | None = None
        self._wait_until: int | None = None

    @property
    def waiting(self) -> bool:
        """Whether the link asked for a pause that is not over."""
        return self._wait_until is not None

    def on_connected(self, now: int) -> None:
        self._asked_at = self._wait_until = None
        self.on_heard(now)

    def on_heard(self, now: int) -> None:
        self._heard_at, self._pinged_at = now, None

    def on_asked(self, now: int) -> None:
        self._asked_at, self._wait_until = now, None

    def on_answered(self) -> None:
        self._asked_at = self._wait_until = None

    def on_wait(self, now: int, retry_ms: int) -> None:
        """A wait has a least and a most: neither a busy circle nor a device asleep for good."""
        self._wait_until = now + max(1, min(retry_ms, self._limits.retry_ms_max))

    def due(self, now: int) -> list[Due]:
        """What is due now. A ping that is due counts as sent, a wait that is over as ended."""
        if self._pinged_at is not None and now >= self._silent_at():
            return [Due.DEAD]
        if not self.waiting and self._asked_at is not None and now >= self._asked_at + self._limits.welcome_ms:
            return [Due.UNANSWERED]
        due = []
        if self._wait_until is not None and now >= self._wait_until:
            self._wait_until = None
            due.append(Due.RESUME)
        if self._pinged_at is None and now >= self._heard_at + self._limits.ping_ms:
            self._pinged_at = now
            due.append(Due.PING)
        return due

    def deadline(self) -> int:
        due = self._silent_at()
        if self._wait_until is not None:
            return min(due, self._wait_until)
        return due if self._asked_at is None else min(due, self._asked_at + self._limits.welcome_ms)

    def _silent_at(self) -> int:
        """When the ping is due or, if it is out, when the silence after it means death."""
        if self._pinged_at is None:
            return self._heard_at + self._limits.ping_ms
        return self._pinged_at + self._limits.dead_ms - self._limits.ping_ms
