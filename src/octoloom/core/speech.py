"""What one member says to single others so that it must arrive: a `Unicast` for each of them."""

from __future__ import annotations

from collections.abc import Callable, Container

from octoloom.core.errors import UsageError
from octoloom.core.group_effects import ToMembers
from octoloom.core.group_messages import Acked, Numbered, Reliable
from octoloom.core.unicast import Unicast


class Speech:
    def __init__(self, retry_ms: int, emit: Callable[[ToMembers], None]) -> None:
        self._retry_ms = retry_ms
        self._emit = emit
        self._unicasts: dict[str, Unicast] = {}

    def _with(self, member: str) -> Unicast:
        if member not in self._unicasts:
            self._unicasts[member] = Unicast(self._retry_ms)
        return self._unicasts[member]

    def keep(self, members: Container[str]) -> None:
        """The others are gone; what was said to them is void."""
        self._unicasts = {member: unicast for member, unicast in self._unicasts.items() if member in members}

    def say(self, now: int, member: str, part: Reliable) -> None:
        self._emit(ToMembers([member], self._with(member).send(now, part)))

    def check_room(self, member: str) -> None:
        if self._with(member).full:
            raise UsageError(f"{member} does not take what it was sent: wait before you send more")

    def on_numbered(self, member: str, numbered: Numbered) -> list[Reliable]:
        return self._with(member).on_numbered(numbered)

    def on_acked(self, now: int, member: str, number: int) -> None:
        self._with(member).on_acked(now, number)

    def hurry(self, now: int, member: str) -> None:
        if member in self._unicasts:
            self._unicasts[member].hurry(now)

    def acknowledge(self) -> None:
        for member, unicast in self._unicasts.items():
            if unicast.ack_due:
                self._emit(ToMembers([member], Acked(unicast.ack())))

    def resend(self, now: int) -> int:
        """Sends again what waits too long for an acknowledgement; answers how much that was."""
        count = 0
        for member, unicast in self._unicasts.items():
            for numbered in unicast.due(now):
                self._emit(ToMembers([member], numbered))
                count += 1
        return count

    def unreachable(self, now: int, patience_ms: int) -> list[str]:
        """Who has not acknowledged anything for too long."""
        return [
            member
            for member, unicast in self._unicasts.items()
            if unicast.unacked_since is not None and now - unicast.unacked_since > patience_ms
        ]

    def deadline(self) -> int | None:
        return min(
            (time for unicast in self._unicasts.values() if (time := unicast.deadline()) is not None), default=None
        )
