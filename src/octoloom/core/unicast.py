"""UNICAST: what one member says to another arrives, once and in order, over a network that loses, doubles and reorders.

1. Every part has a number, from 1, and is kept until the other side has acknowledged it.
2. The receiver hands on the next number only; what is ahead of a gap waits, what was there before is dropped.
3. Who waits too long for an acknowledgement sends again: the oldest few, with growing patience.
4. Both queues are bounded. A sender asks `full` first; a receiver drops what is too far ahead, and gets it again.

A pair of members is a pair of incarnations, so numbers never start over.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from octoloom.core.errors import ProtocolError
from octoloom.core.group_messages import Numbered, Reliable

UNACKED_MAX = 16_384
AHEAD_MAX = 4_096
RESENT_MAX = 32
"""How many are sent again at once: if they get through, acknowledgements call for the rest."""
BACKOFF_MAX = 8


@dataclass(frozen=True, slots=True)
class _Sent:
    at: int
    numbered: Numbered


class Unicast:
    """One member's side of one pair."""

    def __init__(self, retry_ms: int) -> None:
        self._retry_ms = retry_ms
        self._last = 0
        self._unacked: deque[_Sent] = deque()
        self._resend_at: int | None = None
        self._tries = 0
        self._next = 1
        self._ahead: dict[int, Reliable] = {}
        self.ack_due = False
        """Something came in since the last acknowledgement."""

    # Sending.

    @property
    def full(self) -> bool:
        return len(self._unacked) >= UNACKED_MAX

    @property
    def unacked_since(self) -> int | None:
        """When the oldest part without an acknowledgement was first sent."""
        return self._unacked[0].at if self._unacked else None

    def send(self, now: int, part: Reliable) -> Numbered:
        self._last += 1
        numbered = Numbered(self._last, part)
        self._unacked.append(_Sent(now, numbered))
        if self._resend_at is None:
            self._resend_at = now + self._retry_ms
        return numbered

    def on_acked(self, now: int, number: int) -> None:
        if number > self._last:
            raise ProtocolError("forged-sequence", f"{number} was acknowledged, {self._last} is the last that was sent")
        before = len(self._unacked)
        while self._unacked and self._unacked[0].numbered.number <= number:
            self._unacked.popleft()
        if len(self._unacked) < before:
            self._tries = 0
            self._resend_at = now + self._retry_ms if self._unacked else None

    def hurry(self, now: int) -> None:
        """The way to the other side is open again: send what is unacknowledged now."""
        if self._unacked:
            self._tries, self._resend_at = 0, now

    def deadline(self) -> int | None:
        return self._resend_at

    def due(self, now: int) -> list[Numbered]:
        """What is to be sent again now."""
        if self._resend_at is None or now < self._resend_at:
            return []
        self._tries += 1
        self._resend_at = now + self._retry_ms * min(2**self._tries, BACKOFF_MAX)
        return [self._unacked[at].numbered for at in range(min(RESENT_MAX, len(self._unacked)))]

    # Receiving.

    def ack(self) -> int:
        self.ack_due = False
        return self._next - 1

    def on_numbered(self, numbered: Numbered) -> list[Reliable]:
        """The parts whose turn it is, in order."""
        number = numbered.number
        if number < 1:
            raise ProtocolError("forged-sequence", f"parts are numbered from 1, not {number}")
        self.ack_due = True
        if number < self._next or number >= self._next + AHEAD_MAX:
            return []
        if number > self._next:
            self._ahead[number] = numbered.part
            return []
        parts = [numbered.part]
        self._next += 1
        while self._ahead and self._next in self._ahead:
            parts.append(self._ahead.pop(self._next))
            self._next += 1
        return parts
