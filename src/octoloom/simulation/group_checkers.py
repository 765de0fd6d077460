"""What an ordered group promises, checked against full histories: who knew what when it said something.

A bundle's *past* is all that its sender had been given or had said in the view when it was cast; what lies before the
view is the same for all. That is the dumb twin of every vector timestamp: sets, kept in full. Promises are checked as
things happen, and once more when all has settled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from octoloom.core.group_effects import Deliver, InstallView
from octoloom.core.group_messages import Cast, Part
from octoloom.simulation.world import Broken

if TYPE_CHECKING:
    from octoloom.simulation.group_node import GroupNode
    from octoloom.simulation.group_world import GroupWorld


@dataclass(slots=True)
class Stay:
    """One member in one view: what it was given there, in order."""

    epoch: int
    given: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    lasts: dict[str, int] = field(default_factory=dict)
    """Of each sender, the last that was given."""
    void: bool = False
    """It went by before the member had the app's state, which covers it."""


@dataclass(slots=True)
class Life:
    """One incarnation of a member."""

    stays: list[Stay] = field(default_factory=list)
    given: dict[str, None] = field(default_factory=dict)
    here: dict[str, None] = field(default_factory=dict)
    """What it was given in order, or said, in the view that it is in."""
    has_state: bool = False


@dataclass(slots=True)
class Said:
    """One bundle."""

    sender: str
    plain: bool
    in_stay: int
    """In how many views its sender had been then."""
    epochs: list[int] = field(default_factory=list)
    """The views in which it was cast: more than one if a coordinator died with its cast."""
    past: frozenset[str] = frozenset()
    dropped: int = 0
    """The view that began without it, if its sender was told so."""
    under_total: bool = False
    """It was sent in a view with total order."""

    @property
    def epoch(self) -> int:
        return self.epochs[-1] if self.epochs else 0


class GroupChecker:
    def __init__(self, cluster: GroupWorld) -> None:
        self._cluster = cluster
        self.lives: dict[str, Life] = {}
        self.said: dict[str, Said] = {}
        self.views: dict[int, tuple[list[str], str]] = {}
        self._casts: dict[tuple[int, str, int], list[str]] = {}
        """By epoch, sender and number: the bundles of a cast."""
        self.unsure: dict[str, dict[str, None]] = {}
        """Of those that were expelled: what they were told to be in doubt."""
        self._directs: dict[tuple[str, str], list[str]] = {}
        self._got: dict[tuple[str, str], int] = {}

    def _life(self, name: str) -> Life:
        return self.lives.setdefault(name, Life())

    # What happens.

    def on_app_sent(self, node: GroupNode, payload: str, plain: bool) -> None:
        core = node.core
        is_total = core.casting is not None and core.casting.is_total
        under_total = is_total and not (core.frozen or core.newcomer.waits)
        self.said[payload] = Said(node.name, plain, len(self._life(node.name).stays), under_total=under_total)
        self._cluster.world.tell(node.name, "says {}{}", payload, " (plain)" if plain else "")

    def on_said(self, node: GroupNode, part: Part) -> None:
        """A cast leaves its sender: here its past ends."""
        if not isinstance(part, Cast) or (part.epoch, part.sender, part.number) in self._casts:
            return
        life = self._life(node.name)
        payloads = [bundle.payload.decode() for bundle in part.bundles]
        self._casts[part.epoch, part.sender, part.number] = payloads
        for payload in payloads:
            said = self.said[payload]
            if said.epochs and (said.plain or not self._is_total(said.epoch)):
                raise Broken(f"once: {payload} was cast in views {said.epoch} and {part.epoch}")
            said.epochs.append(part.epoch)
            if said.sender == node.name and (said.plain or not self._is_total(part.epoch)):
                node.state.append(payload)
            if said.sender == node.name and not self._is_total(part.epoch) and not said.plain:
                said.past = frozenset(life.here)
                life.here[payload] = None

    def on_installed(self, node: GroupNode, installed: InstallView) -> None:
        view = installed.view
        known = self.views.setdefault(view.epoch, (view.names, view.order))
        if known != (view.names, view.order):
            raise Broken(f"views: view {view.epoch} is {known} and {(view.names, view.order)}")
        life = self._life(node.name)
        if life.stays and life.stays[-1].epoch >= view.epoch:
            raise Broken(f"views: {node.name} goes from view {life.stays[-1].epoch} to {view.epoch}")
        life.stays.append(Stay(view.epoch))
        life.here.clear()

    def on_state(self, node: GroupNode) -> None:
        life = self._life(node.name)
        life.has_state = True
        life.given.update(dict.fromkeys(node.state))
        for stay in life.stays[:-1]:
            stay.void = True

    def on_delivered(self, node: GroupNode, deliver: Deliver) -> None:
        payload, life = deliver.bundle.payload.decode(), self._life(node.name)
        said = self.said[payload]
        stay = life.stays[-1]
        self._cluster.world.tell(node.name, "is given {}{}", payload, " ‖" if deliver.concurrent else "")
        if self.views[stay.epoch][0] == [node.name]:
            said.epochs.append(stay.epoch)  # alone it casts to nobody
        # Whoever the group has left behind, and does not know it yet, may still be given what the others drop.
        if payload in life.given or 0 < said.dropped <= stay.epoch:
            raise Broken(f"once: {node.name} is given {payload} twice, or after it was dropped")
        if stay.epoch not in said.epochs:
            raise Broken(f"views: {node.name} is given {payload} of views {said.epochs} in view {stay.epoch}")
        life.given[payload] = None
        if said.sender == node.name and not self._is_total(stay.epoch):
            self._check_own(node.name, life, payload, said)
            return
        node.state.append(payload)
        if said.plain:
            stay.plain.append(payload)
            return
        order = self.views[stay.epoch][1]
        if order == "causal":
            self._check_causes(node.name, life, payload, said)
            self._check_flags(node.name, life, payload, said, deliver)
        if order != "none":
            self._check_fifo(node.name, life, payload, said)
        stay.given.append(payload)
        life.here[payload] = None

    def _check_own(self, name: str, life: Life, payload: str, said: Said) -> None:
        """What was on its way under total order comes back, even if another order casts it; nothing else does."""
        was_total = any(self._is_total(stay.epoch) for stay in life.stays[:-1])
        if said.plain or not was_total or said.in_stay == len(life.stays):
            raise Broken(f"others: {name} is given its own {payload}")

    def _check_causes(self, name: str, life: Life, payload: str, said: Said) -> None:
        for cause in said.past:
            if cause not in life.here:
                raise Broken(f"causes: {name} is given {payload} before its cause {cause}")

    def _was_in(self, name: str, payload: str) -> bool:
        """Whether the member was in the view in which this was cast."""
        epoch = self.said[payload].epoch
        return any(stay.epoch == epoch and not stay.void for stay in self.lives[name].stays)

    def _check_flags(self, name: str, life: Life, payload: str, said: Said, deliver: Deliver) -> None:
        epoch = life.stays[-1].epoch
        told: set[str] = set()
        for member, first, last in deliver.concurrent:
            for number in range(first, last + 1):
                told.update(self._casts.get((epoch, member, number), []))
        told = {other for other in told if not self.said[other].plain}
        true = {other for other in life.here if other not in said.past and self.said[other].sender != said.sender}
        if told != true:
            raise Broken(f"flags: {payload} at {name} is concurrent with {sorted(true)}, told {sorted(told)}")

    def _check_fifo(self, name: str, life: Life, payload: str, said: Said) -> None:
        """In one view a sender's bundles come in the order they were said."""
        lasts, number = life.stays[-1].lasts, _number(payload)
        if lasts.get(said.sender, 0) >= number:
            raise Broken(f"fifo: {name} is given {payload} after {said.sender}:{lasts[said.sender]}")
        lasts[said.sender] = number

    def on_dropped(self, node: GroupNode, payloads: list[str]) -> None:
        for payload in payloads:
            self.said[payload].dropped = self._life(node.name).stays[-1].epoch

    def on_expelled(self, node: GroupNode, unsure: list[str]) -> None:
        self.unsure[node.name] = dict.fromkeys(unsure)

    def on_direct_sent(self, sender: str, to: str, payload: str) -> None:
        self._directs.setdefault((sender, to), []).append(payload)

    def on_direct(self, sender: str, to: str, payload: str) -> None:
        got = self._got.get((sender, to), 0)
        sent = self._directs.get((sender, to), [])
        if got >= len(sent) or sent[got] != payload:
            raise Broken(f"direct: {to} is told {payload} by {sender} in place of {sent[got : got + 1]}")
        self._got[sender, to] = got + 1

    def _is_total(self, epoch: int) -> bool:
        return epoch in self.views and self.views[epoch][1] == "total"

    # When all has settled.

    def check_history(self) -> None:
        waiting = self._cluster.settings.wants_state  # whoever has no state yet was not given anything
        names = [name for name, life in self.lives.items() if life.has_state or not waiting]
        for at, name in enumerate(names):
            for other in names[at + 1 :]:
                self._check_pair(name, other)

    def _check_pair(self, name: str, other: str) -> None:
        """Two that go on from one view to the next together have had the same before it."""
        mine = {stay.epoch: stay for stay in self.lives[name].stays if not stay.void}
        theirs = {stay.epoch: stay for stay in self.lives[other].stays if not stay.void}
        common = [epoch for epoch in mine if epoch in theirs]
        for epoch, following in pairwise(common):
            for who, stays in ((name, mine), (other, theirs)):
                if between := [each for each in stays if epoch < each < following]:
                    raise Broken(f"views: {who} goes from {epoch} to {following} by {between}, not so all with it")
            self._check_same(epoch, (name, mine[epoch]), (other, theirs[epoch]))
        for epoch in common:
            if self._is_total(epoch):
                self._check_prefix(epoch, (name, mine[epoch]), (other, theirs[epoch]))

    @staticmethod
    def _check_prefix(epoch: int, one: tuple[str, Stay], other: tuple[str, Stay]) -> None:
        length = min(len(one[1].given), len(other[1].given))
        if one[1].given[:length] != other[1].given[:length]:
            raise Broken(f"total: in view {epoch} {one[0]} has {one[1].given}, {other[0]} {other[1].given}")

    def _check_same(self, epoch: int, one: tuple[str, Stay], other: tuple[str, Stay]) -> None:
        """Two that went on from a view were given the same in it, or said it themselves."""
        for (name, _), (_, theirs) in ((one, other), (other, one)):
            for payload in [*theirs.given, *theirs.plain]:
                if payload not in self.lives[name].given and self.said[payload].sender != name:
                    raise Broken(
                        f"same: in view {epoch} {name} was not given {payload}, {other[0]} and {one[0]} differ"
                    )
        if self._is_total(epoch) and one[1].given != other[1].given:
            raise Broken(f"total: in view {epoch} {one[0]} has {one[1].given}, {other[0]} {other[1].given}")

    def check_settled(self, nodes: list[GroupNode]) -> None:
        """Faults are over: one view of all who live, and nothing that one of them said is lost."""
        names = sorted(node.name for node in nodes)
        for node in nodes:
            view = node.core.view
            stays = self._life(node.name).stays
            if view is None or node.core.frozen or sorted(view.names) != names or not stays:
                raise Broken(f"settled: {node.name} is in {view}, those who live are {names}")
        epoch = nodes[0].core.view.epoch if nodes and nodes[0].core.view else 0
        if any(node.core.view is None or node.core.view.epoch != epoch for node in nodes):
            raise Broken("settled: those who live are in different views")
        last = [(node.name, self.lives[node.name].stays[-1]) for node in nodes]
        for one, other in pairwise(last):
            self._check_same(epoch, one, other)
        for node in nodes:
            self._check_sent(node, nodes)
        for name, unsure in self.unsure.items():
            self._check_doubts(name, unsure, nodes)
        self._check_state(nodes)

    def _check_doubts(self, name: str, unsure: dict[str, None], nodes: list[GroupNode]) -> None:
        """Who was expelled was told of all that those who went on from its last view do not have."""
        stays = self.lives[name].stays if name in self.lives else []
        last = stays[-1].epoch if stays else 0
        others = [self.lives[node.name] for node in nodes]
        others = [life for life in others if any(stay.epoch == last and not stay.void for stay in life.stays)]
        for payload, said in self.said.items():
            if said.sender != name or said.dropped or payload in unsure or (not said.epoch and self._said_alone(name)):
                continue
            if said.epoch in (0, last) and others and not any(payload in life.given for life in others):
                raise Broken(f"doubt: {name} is not told that nobody has {payload}")

    def _check_sent(self, node: GroupNode, nodes: list[GroupNode]) -> None:
        for payload, said in self.said.items():
            if said.sender != node.name or said.dropped:
                continue
            if not said.epoch:
                if len(nodes) > 1 and not self._said_alone(node.name):
                    raise Broken(f"lost: {payload} never left {node.name}")
                continue
            for other in nodes:
                is_own = other is node and (said.plain or not (self._is_total(said.epoch) or said.under_total))
                if self._was_in(other.name, payload) and not is_own and payload not in self.lives[other.name].given:
                    raise Broken(f"lost: {payload} did not reach {other.name}")
        for other in nodes:
            got, sent = self._got.get((node.name, other.name), 0), self._directs.get((node.name, other.name), [])
            if got < len(sent):
                raise Broken(f"direct: {sent[got]} did not reach {other.name}")

    def _said_alone(self, name: str) -> bool:
        """A member that is alone in a view says what it says to nobody."""
        return any(self.views[stay.epoch][0] == [name] for stay in self.lives[name].stays)

    def _check_state(self, nodes: list[GroupNode]) -> None:
        if not self._cluster.settings.wants_state:
            return
        for node in nodes:
            if not self.lives[node.name].has_state:
                raise Broken(f"state: {node.name} never got one")
            if sorted(node.state) != sorted(nodes[0].state):
                differ = sorted(set(node.state) ^ set(nodes[0].state))
                raise Broken(f"state: {node.name} and {nodes[0].name} differ in {differ}")


def _number(payload: str) -> int:
    return int(payload.rpartition(":")[2])
