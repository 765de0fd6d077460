"""One ordered group as the register sees it: who is in its view, who waits to join, and who has gone for good.

The roster knows who is alive, the suspicions who cannot be reached. A view is made from the last one by `settle`: the
dead go, those who came are added at the end, in the order in which they came. Invariants:

1. members of a view are distinct, of one transport, and never more than `members_max`; of each name there is one;
2. an incarnation that was in a view and is not any more never comes back: its peers went on without it, and what they
   remember of it is not what it remembers of them. `departed` is the proof, and where it was forgotten (`DEPARTED_MAX`,
   or the group was), the epoch that the member itself knows;
3. a newcomer whose connection closed before it was in a view was never there.
"""

from __future__ import annotations

from octoloom.core.group_messages import EnlistMember, GroupView, MemberAddress, SuspectMember
from octoloom.core.group_saved import Announce, Decline, GroupEffect, SavedGroup, Tell
from octoloom.core.roster import Roster, incarnation_of, name_of
from octoloom.core.suspicions import Suspicions

DEPARTED_MAX = 1000
"""How many names that have gone are remembered; the longest gone is forgotten first."""
DEFAULT_ORDER = "fifo"
AGAIN = "join again with a higher number, as a new incarnation"


class RegisteredGroup:
    def __init__(self, name: str, saved: SavedGroup | None, roster: Roster[MemberAddress], suspect_ms: int) -> None:
        """`roster` is this group's own, and knows the members of the saved view already."""
        self.name = name
        self.view = saved.view if saved else GroupView(name, 0, "", [])
        self.order = self.view.order
        """What the next view will have."""
        self.roster = roster
        self.suspicions = Suspicions(suspect_ms)
        self._departed = dict(saved.departed) if saved else {}
        self._joining: list[str] = []
        self._returned: list[str] = []
        self._leavers: list[str] = []
        self._expelled: list[tuple[str, str]] = []

    # Questions.

    def saved(self) -> SavedGroup:
        return SavedGroup(self.view, dict(self._departed))

    def alive(self) -> list[str]:
        """Those of the view and those who wait for the next, without the dead."""
        return [member for member in (*self.view.names, *self._joining) if not self.roster.dead(member)]

    def refusal(self, message: EnlistMember, members_max: int) -> tuple[str, str] | None:
        """Why this member may not enlist."""
        address, alive = message.address, self.alive()
        name, number = name_of(address.member), incarnation_of(address.member)
        if self.roster.superseded(address.member) or self._departed.get(name, -1) > number:
            return "outdated", f"a newer incarnation of {name} was or is in {self.name}: {AGAIN}"
        if address.member not in alive:
            gone = self._departed.get(name, -1) == number or address.member in self.view.names or message.epoch > 0
            if gone:
                return "expelled", f"{self.name} has gone on without {address.member}: {AGAIN}"
            if len([each for each in alive if name_of(each) != name]) >= members_max:
                return "full", f"{self.name} has {members_max} members already: wait until one leaves"
        if alive and message.order not in ("", self.order):
            detail = f"{self.name} delivers in the order {self.order}, not {message.order}"
            return "other-order", f"{detail}: join without naming an order, then switch it for all (SetOrder)"
        transport = self.roster.addresses()[alive[0]].transport if alive else address.transport
        if address.transport != transport:
            return "other-transport", f"the members of {self.name} speak {transport}: join with transport={transport}"
        return None

    def goes(self, member: str) -> bool:
        """It is out, and will be told by the next `settle`."""
        return member in self._leavers or any(member == expelled for expelled, _ in self._expelled)

    def restless(self) -> bool:
        """Somebody of the view is dead: there has to be another one."""
        return any(self.roster.dead(member) for member in self.view.names)

    def deadline(self, now: int) -> int | None:
        times = [self.roster.deadline(now), self.suspicions.decide_at]
        return min((time for time in times if time is not None), default=None)

    # Inputs. The next `settle` acts on them.

    def enlist(self, now: int, message: EnlistMember) -> str:
        """Takes in a member that is not refused. Answers the older incarnation that has to go for it, if any."""
        member, alive = message.address.member, self.alive()
        if not alive:
            self.order = message.order or DEFAULT_ORDER
        older = self.roster.enlist(now, member, message.address)
        self._joining = [each for each in self._joining if each != older]
        if member in alive:
            self._returned.append(member)
        else:
            self._joining.append(member)
        return older

    def leave(self, member: str) -> None:
        self.roster.give_up(member)
        self._leavers.append(member)

    def expire(self, now: int, lease_ms: int) -> None:
        detail = f"nothing was heard from it for {lease_ms} ms: {AGAIN}"
        self._expelled += [(member, detail) for member in self.roster.expire(now)]

    def suspect(self, now: int, accuser: str, message: SuspectMember) -> None:
        """What is said of another epoch, or by or of somebody else, is no complaint: it may only be late."""
        names = self.view.names
        known = accuser in names and message.member in names and accuser != message.member
        if known and message.epoch == self.view.epoch:
            self.suspicions.add(now, accuser, message.member)

    def weigh(self, now: int) -> None:
        """Has the most accused go; among equals the youngest, and never the last that is there for certain."""
        involved = self.suspicions.weigh(now, self.view.names)
        present = [member for member in self.view.names if self.roster.present(member)]
        spared = [member for member in involved if not self.roster.dead(member) and present not in ([], [member])]
        if spared:
            self.roster.give_up(spared[0])
            self._expelled.append((spared[0], f"others in {self.name} cannot reach it: {AGAIN}"))

    def delay(self, late_ms: int) -> None:
        self.roster.delay(late_ms)
        self.suspicions.delay(late_ms)

    # The next view.

    def settle(self, epoch: int) -> list[GroupEffect]:
        """Makes a view with this epoch, if there is anything to change."""
        members = self._members()
        changed = members != self.view.members or (members != [] and self.order != self.view.order)
        if changed:
            self._replace(GroupView(self.name, epoch, self.order, members))
        self.roster.forget(self.view.names)
        told = [*self._leavers, *(member for member in self._returned if not changed and self.roster.present(member))]
        effects: list[GroupEffect] = [Announce(self.view)] if changed and members else []
        effects += [Tell(self.name, member, self.view) for member in dict.fromkeys(told)]
        effects += [Decline(self.name, member, "expelled", detail) for member, detail in self._expelled]
        self._joining, self._returned, self._leavers, self._expelled = [], [], [], []
        return effects

    def _members(self) -> list[MemberAddress]:
        for member in self._joining:
            if not self.roster.present(member):
                self.roster.give_up(member)
        addresses = self.roster.addresses()
        return [addresses[member] for member in self.alive()]

    def _replace(self, view: GroupView) -> None:
        kept = frozenset(view.names)
        for member in [member for member in self.view.names if member not in kept]:
            name = name_of(member)
            self._departed[name] = max(self._departed.pop(name, -1), incarnation_of(member))
        while len(self._departed) > DEPARTED_MAX:
            del self._departed[next(iter(self._departed))]
        self.view = view
        self.suspicions.clear()
