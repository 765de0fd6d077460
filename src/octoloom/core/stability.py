"""Which casts all members have, and who has fallen silent.

Every member tells the coordinator how far it has each sender's casts, soon after that changed and now and then anyway.
What it holds back it does not count: a cause that dies with its sender takes with it what waited for it.
The coordinator tells all what the least of it is: so much is *stable*, and need not be kept. It also tells the last
number that anybody knows of each sender, so that who lacks the end of a stream notices.

These words double as a sign of life, in both directions. Each can get lost: the next one says all of it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from octoloom.core.errors import ProtocolError
from octoloom.core.group_messages import Have, Stable


class Stability:
    def __init__(self, now: int, epoch: int, me: str, counts: dict[str, int], gossip_ms: int, idle_ms: int) -> None:
        self._epoch = epoch
        self._me = me
        self._members = list(counts)
        self._index = {member: at for at, member in enumerate(self._members)}
        self._gossip_ms = gossip_ms
        self._idle_ms = idle_ms
        self._heard_at = dict.fromkeys(self._members, now)
        self._known = {member: list(counts.values()) for member in self._members}
        """How far each member has got, as the coordinator knows it."""
        self._told: Have | Stable | None = None
        self._told_at = now
        self._changed = False

    @property
    def leads(self) -> bool:
        return self._members[0] == self._me

    def touch(self) -> None:
        """Something came that may be worth telling."""
        self._changed = True

    def on_have(self, now: int, member: str, counts: Sequence[int]) -> None:
        if not self.leads or len(counts) != len(self._members):
            raise ProtocolError(
                "bad-counts", f"{len(counts)} counts came from {member}, {self._me} leads: {self.leads}"
            )
        self._heard_at[member] = now
        self._known[member] = list(map(max, self._known[member], counts))
        self._changed = True

    def on_stable(self, now: int, member: str, counts: Sequence[int], lasts: Sequence[int]) -> None:
        if member != self._members[0] or not len(counts) == len(lasts) == len(self._members):
            raise ProtocolError("bad-counts", f"{member} is not the coordinator, or does not count {self._members}")
        self._heard_at[member] = now

    def due_at(self) -> int:
        return self._told_at + (self._gossip_ms if self._changed else self._idle_ms)

    def word(self, now: int, counts: list[int], lasts: list[int]) -> Have | Stable | None:
        """What is to be told now: to the coordinator, or to all."""
        if now < self.due_at():
            return None
        self._told_at, self._changed = now, False
        if not self.leads:
            return Have(self._epoch, counts)
        self._known[self._me] = counts
        known = list(self._known.values())
        # A member's own count is the last that it has sent.
        return Stable(self._epoch, list(map(min, *known, counts)), list(map(max, *known, lasts)))

    def silent(self, now: int, patience_ms: int) -> list[str]:
        """Who should have been heard of: everybody by the coordinator, the coordinator by everybody."""
        watched = self._members[1:] if self.leads else self._members[:1]
        return [member for member in watched if now - self._heard_at[member] > patience_ms]

    def forgive(self, now: int) -> None:
        """This member itself did not run for a while: nobody was silent but it."""
        for member in self._heard_at:
            self._heard_at[member] = now
