"""From one view to the next, at one member: what it says and waits for, as a member and as the new coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octoloom.core.errors import ProtocolError
from octoloom.core.filters import orders
from octoloom.core.gathering import Gathering, in_fills, is_whole
from octoloom.core.group_messages import Cut, Fetch, Fill, GroupView, Install, Ready, Report

if TYPE_CHECKING:
    from octoloom.core.group import GroupMember


class Transition:
    def __init__(self, now: int, view: GroupView, member: GroupMember) -> None:
        self.view = view
        self.members = dict.fromkeys(view.names)
        self.coordinator = view.names[0]
        self._member = member
        self._since = now
        self._gathering = Gathering(view) if self.coordinator == member.me else None
        self._spread = False

    def start(self, now: int, early: dict[str, Report]) -> None:
        """`early` are reports for this view that came before the view itself."""
        if self._gathering is not None:
            for member, report in early.items():
                if report.epoch == self.view.epoch and self._gathering.is_sound(member, report):
                    self._gathering.reports[member] = report
        self.report(now)

    def silent(self, now: int, patience_ms: int) -> list[str]:
        if self._gathering is None or now - self._since <= patience_ms:
            return []
        return [member for member in self._gathering.silent() if member != self._member.me]

    # As a member.

    def report(self, now: int) -> None:
        member = self._member
        have = member.casting.nakack.snapshot() if member.casting is not None else {}
        report = Report(self.view.epoch, member.installed, have, member.newcomer.lacks_state)
        if self._gathering is not None:
            self._gathering.reports[member.me] = report
            self._gather(now)
        else:
            member.speech.say(now, self.coordinator, report)

    def on_part(self, now: int, peer: str, part: Report | Fetch | Fill | Cut | Ready | Install) -> None:
        if isinstance(part, Install):
            self._on_install(now, peer, part)
        elif part.epoch == self.view.epoch:
            if isinstance(part, Report | Ready):
                self._on_answer(now, peer, part)
            else:
                self._on_demand(now, peer, part)

    def _on_demand(self, now: int, peer: str, part: Fetch | Fill | Cut) -> None:
        member = self._member
        if isinstance(part, Fetch):
            self._fill(now, peer, part.wanted)
        elif isinstance(part, Fill):
            if member.casting is not None:
                member.casting.fill(now, part.casts)
            if self._gathering is not None:
                self._spread_out(now)
        elif peer == self.coordinator:
            if member.casting is None or not member.casting.nakack.holds(part.union):
                raise ProtocolError("bad-cut", f"{peer} says that {member.me} holds what it does not hold")
            member.speech.say(now, peer, Ready(self.view.epoch))

    def _on_install(self, now: int, peer: str, install: Install) -> None:
        """The decision about this view; or about the one before, which this view's coordinator found to be missed."""
        installed = self._member.installed
        epoch = installed.view.epoch if installed is not None else 0
        is_next = install.previous == epoch or installed is None
        if peer == self.coordinator and epoch < install.view.epoch <= self.view.epoch and is_next:
            self._check(install)
            self._member.install(now, install)

    def _check(self, install: Install) -> None:
        """What is installed is what the register has announced."""
        view, mine = install.view, self.view
        is_mine = view.epoch < mine.epoch or (view.names, view.order) == (mine.names, mine.order)
        if not is_mine or self._member.me not in view.names or view.order not in orders or not is_whole(install):
            raise ProtocolError("bad-install", f"view {view.epoch} is not the one that {self._member.me} waits for")

    # As the coordinator.

    def _on_answer(self, now: int, peer: str, part: Report | Ready) -> None:
        gathering = self._gathering
        if gathering is None:
            raise ProtocolError("not-coordinator", f"{self._member.me} does not lead view {self.view.epoch}")
        if isinstance(part, Ready):
            gathering.ready[peer] = None
            self._decide(now)
        elif not gathering.is_sound(peer, part):
            raise ProtocolError("bad-report", f"{peer} cannot have what it reports for view {self.view.epoch}")
        elif gathering.union is None:
            gathering.reports[peer] = part
            self._gather(now)

    def _gather(self, now: int) -> None:
        gathering, me = self._gathering, self._member.me
        assert gathering is not None
        if gathering.silent():
            return
        newest, behind = gathering.newest(), gathering.behind()
        if behind:
            assert newest is not None
            for other in behind:
                del gathering.reports[other]
            for other in behind:
                if other == me:
                    self._member.install(now, newest)
                else:
                    self._member.speech.say(now, other, newest)
            return
        gathering.unite()
        wanted: dict[str, list[tuple[str, int]]] = {}
        for sender, number in self._lacking():
            wanted.setdefault(gathering.holder(sender, number), []).append((sender, number))
        for holder, numbers in wanted.items():
            self._member.speech.say(now, holder, Fetch(self.view.epoch, numbers))
        self._spread_out(now)

    def _lacking(self) -> list[tuple[str, int]]:
        """What the coordinator itself lacks of the union."""
        assert self._gathering is not None
        casting = self._member.casting
        return self._gathering.lacks(casting.nakack.snapshot()) if casting is not None else []

    def _spread_out(self, now: int) -> None:
        """Once the coordinator has all, it fills in what the others lack."""
        gathering, me = self._gathering, self._member.me
        assert gathering is not None
        if self._spread or gathering.union is None or self._lacking():
            return
        self._spread = True
        for other in gathering.elders():
            if other == me:
                gathering.ready[me] = None
                continue
            self._fill(now, other, gathering.lacks(gathering.reports[other].have))
            self._member.speech.say(now, other, Cut(self.view.epoch, gathering.union))
        self._decide(now)

    def _fill(self, now: int, other: str, wanted: list[tuple[str, int]]) -> None:
        casting = self._member.casting
        if casting is None or not wanted:
            return
        for fill in in_fills(casting.nakack.get(wanted)):
            self._member.speech.say(now, other, Fill(self.view.epoch, fill))

    def _decide(self, now: int) -> None:
        gathering, member = self._gathering, self._member
        assert gathering is not None
        if not self._spread or gathering.silent():
            return
        newest, union = gathering.newest(), gathering.union
        assert union is not None
        vector = dict.fromkeys(self.view.names, (0, 0))
        for elder in gathering.elders():
            watermark, above = union[elder]
            assert not above, f"{elder} lacks casts of its own"
            vector[elder] = watermark, member.received(elder)
        previous = newest.view.epoch if newest is not None else 0
        install = Install(self.view, previous, union, vector, gathering.newcomers())
        for name in self.view.names:
            if name != member.me:
                member.speech.say(now, name, install)
        member.install(now, install)
