"""The register's part for ordered groups: it makes their views, and nobody else does.

A group is there as long as it has a member. Its first member's order is the group's, until one says `SetOrder`. What
happens between two calls of `flush` makes one view: joins, deaths, leaves, another order. Invariants:

1. each view has an epoch of its own: all groups take them from one counter, which never falls, not even when a group
   was forgotten or the register restarted;
2. `Persist` comes before what is told about it;
3. a member that was given up is in no view again (`registered_group.py`);
4. nobody is given up for the time in which the register itself did not run.

What a driver owes is the same as for `register.py`, and that it calls `flush` after the inputs of a tick: inputs only
answer refusals, all else comes out there. `deadline()` holds after `flush` and after `on_time`.
"""

from __future__ import annotations

from dataclasses import dataclass

from octoloom.core.errors import UsageError
from octoloom.core.group_messages import EnlistMember, GroupView, MemberAddress, SetOrder, SuspectMember
from octoloom.core.group_saved import Decline, GroupEffect, GroupsSaved, Persist, SavedGroup
from octoloom.core.registered_group import RegisteredGroup
from octoloom.core.roster import NAME_MAX, Roster, incarnation_of

LATE_MS = 50
ORDER_MAX = 100
PEER_MAX = 300
TRANSPORTS = ("tcp", "udp")


@dataclass(frozen=True, slots=True)
class GroupRegisterConfig:
    beat_ms: int = 50
    lease_ms: int = 2000
    closed_grace_ms: int = 150
    suspect_ms: int = 400
    members_max: int = 256
    """Per group."""
    groups_max: int = 1000

    def __post_init__(self) -> None:
        if self.members_max < 1 or self.groups_max < 1:
            raise UsageError("a register of groups needs room for one group with one member at least")


class GroupRegister:
    def __init__(self, config: GroupRegisterConfig, saved: GroupsSaved | None, now: int) -> None:
        self._config = config
        saved = saved or GroupsSaved()
        self._epoch = saved.epoch
        self._groups = {name: self._group(now, name, group) for name, group in saved.groups.items()}
        self._due: dict[str, int] = {}
        """When each group wants to be looked at, at the earliest: beats only put it off."""
        for name, group in self._groups.items():
            self._note(now, name, group)
        self._dirty: dict[str, None] = {}
        self._deadline: int | None = None
        self._reckon(now)

    # Questions.

    def views(self) -> list[GroupView]:
        """Every group that there is, by name. They are durable if all that `flush` answered is."""
        return [self._groups[name].view for name in sorted(self._groups) if self._groups[name].view.epoch]

    def snapshot(self) -> GroupsSaved:
        """All that outlives a restart."""
        return GroupsSaved(self._epoch, {name: g.saved() for name, g in self._groups.items() if g.view.epoch})

    def deadline(self) -> int | None:
        return self._deadline

    @property
    def restless(self) -> bool:
        """There is something for `flush` to do."""
        return bool(self._dirty)

    # Members.

    def on_enlist(self, now: int, message: EnlistMember) -> list[Decline]:
        self._awake(now)
        name, member = message.group, message.address.member
        if refusal := _malformed(message) or self._refusal(message):
            return [Decline(name, member, *refusal)]
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = self._group(now, name, None)
        older = group.enlist(now, message)
        self._dirty[name] = None
        if not older:
            return []
        return [Decline(name, older, "outdated", f"{member} has taken the place of {older}")]

    def _refusal(self, message: EnlistMember) -> tuple[str, str] | None:
        if message.epoch > self._epoch:
            detail = f"epoch {message.epoch} is unknown here: start the register with the data it had"
            return "lost-register", detail
        if message.group not in self._groups and len(self._groups) >= self._config.groups_max:
            return "full", f"the register knows {self._config.groups_max} groups already: wait until one is empty"
        group = self._groups.get(message.group) or self._group(0, message.group, None)
        return group.refusal(message, self._config.members_max)

    def on_beat(self, now: int, group: str, member: str) -> list[Decline]:
        return self._hear(now, group, member)

    def on_closed(self, now: int, group: str, member: str) -> list[Decline]:
        self._awake(now)
        if found := self._groups.get(group):
            found.roster.close(now, member)
            self._dirty[group] = None
        return []

    def on_leave(self, now: int, group: str, member: str) -> list[Decline]:
        if refused := self._hear(now, group, member):
            return refused
        self._groups[group].leave(member)
        self._dirty[group] = None
        return []

    def on_set_order(self, now: int, group: str, member: str, message: SetOrder) -> list[Decline]:
        if refused := self._hear(now, group, member):
            return refused
        if not 0 < len(message.order) <= ORDER_MAX:
            detail = f"an order's name has 1 to {ORDER_MAX} characters: name another"
            return [Decline(group, member, "bad-switch", detail, ends=False)]
        self._groups[group].order = message.order
        self._dirty[group] = None
        return []

    def on_suspect(self, now: int, group: str, member: str, message: SuspectMember) -> list[Decline]:
        if refused := self._hear(now, group, member):
            return refused
        self._groups[group].suspect(now, member, message)
        self._dirty[group] = None
        return []

    def on_time(self, now: int) -> list[Decline]:
        self._awake(now)
        for name in [name for name, due in self._due.items() if due <= now]:
            group = self._groups[name]
            group.expire(now, self._config.lease_ms)
            group.weigh(now)
            self._note(now, name, group)
            if group.restless():
                self._dirty[name] = None
        self._reckon(now)
        return []

    def _hear(self, now: int, group: str, member: str) -> list[Decline]:
        self._awake(now)
        found = self._groups.get(group)
        if found is not None and (found.roster.hear(now, member) or found.goes(member)):
            return []
        return [Decline(group, member, "unknown", "enlist first")]

    # What follows from it.

    def flush(self, now: int) -> list[GroupEffect]:
        """Makes the views of all groups in which something happened."""
        changed: dict[str, SavedGroup | None] = {}
        effects: list[GroupEffect] = []
        for name in self._dirty:
            group = self._groups[name]
            effects += group.settle(self._epoch + 1)
            if group.view.epoch > self._epoch:
                self._epoch = group.view.epoch
                changed[name] = group.saved() if group.view.members else None
            self._note(now, name, group)
            if not group.view.members:
                del self._groups[name]
                self._due.pop(name, None)
        self._dirty.clear()
        self._reckon(now)
        return [Persist(self._epoch, changed), *effects] if changed else effects

    def _group(self, now: int, name: str, saved: SavedGroup | None) -> RegisteredGroup:
        config = self._config
        roster: Roster[MemberAddress] = Roster(config.lease_ms, config.closed_grace_ms, config.members_max)
        if saved is not None:
            roster.restore(now, {address.member: address for address in saved.view.members})
        return RegisteredGroup(name, saved, roster, config.suspect_ms)

    def _awake(self, now: int) -> None:
        """Gives back the time in which the register did not run (invariant 4)."""
        if self._deadline is None or now - self._deadline <= LATE_MS:
            return
        for group in self._groups.values():
            group.delay(now - self._deadline)
        self._deadline = now

    def _note(self, now: int, name: str, group: RegisteredGroup) -> None:
        due = group.deadline(now)
        if due is None:
            self._due.pop(name, None)
        else:
            self._due[name] = due

    def _reckon(self, now: int) -> None:
        """Looks in at every beat while there are members, so that a pause of its own is noticed."""
        self._deadline = min([now + self._config.beat_ms, *self._due.values()]) if self._due else None


def _malformed(message: EnlistMember) -> tuple[str, str] | None:
    address = message.address
    if not 0 < len(message.group) <= NAME_MAX or "\0" in message.group:
        return "bad-group", f"a group's name has 1 to {NAME_MAX} characters: name another"
    if incarnation_of(address.member) < 0:
        return "bad-member", f"a member is called name#incarnation, its name at most {NAME_MAX} characters long"
    if address.transport not in TRANSPORTS or not 0 < len(address.peer) <= PEER_MAX:
        return "bad-address", f"a member says where it listens (host:port) and for what: {' or '.join(TRANSPORTS)}"
    if len(message.order) > ORDER_MAX:
        return "bad-order", f"an order's name has at most {ORDER_MAX} characters: name another"
    return None
