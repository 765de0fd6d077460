"""The steps of a group's members, put together: who was in which view, and what it sent and got there.

Every member's steps are taken as they stand. A *stay* is one member in one view. A stay is *whole* if the trace has its
beginning, and *closed* if the member went on to another view: then it has all that it will ever have of this one.

The vector with which a stay begins comes from the steps that make it, or, if a trace has none, from the first step that
shows one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from octoloom.core import steps as names
from octoloom.core.steps import Step

Message = tuple[str, int]
"""(sender, number)"""
TOTAL, CAUSAL, HISTORY, NONE = "total", "causal", "history", "none"
KEPT = (names.SENT, names.DELIVERED, names.FORWARDED, names.ORDERED)


@dataclass(slots=True)
class Stay:
    member: str
    epoch: int
    members: list[str] = field(default_factory=list)
    order: str = ""
    begin: dict[str, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    """What was sent and delivered, in order."""
    ordered: dict[Message, None] = field(default_factory=dict)
    """What this member put into the total order, or asked to be put there."""
    whole: bool = False
    then: int = 0
    """The epoch that the member went on to."""

    @property
    def is_total(self) -> bool:
        return self.order == TOTAL

    def delivered(self) -> list[Message]:
        return [(step.sender, step.number) for step in self.steps if step.name == names.DELIVERED]

    def sent(self) -> list[Message]:
        return [(step.sender, step.number) for step in self.steps if step.name == names.SENT]

    def said(self) -> dict[Message, None]:
        """What was sent; under `total`, what was put into the order or asked to be put there."""
        return self.ordered if self.is_total else dict.fromkeys(self.sent())

    def had(self) -> dict[Message, None]:
        """What was there when the view ended: without a total order one's own messages, too."""
        return dict.fromkeys([*self.delivered(), *([] if self.is_total else self.sent())])


@dataclass(slots=True)
class MemberTrace:
    member: str
    stays: dict[int, Stay] = field(default_factory=dict)
    """By epoch, in the order in which the member came to them."""
    strays: list[tuple[Step, int]] = field(default_factory=list)
    """Steps of one view that stand in another, with the epoch of that."""
    returns: list[tuple[int, int]] = field(default_factory=list)
    """(from, to): views that were installed after a newer one."""
    _now: Stay | None = None
    _vector: dict[str, int] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        if step.name == names.VIEW:
            self._enter(step)
        elif step.name == names.VECTOR_CREATED:
            self._vector = {}
        elif step.name == names.USER_ADDED:
            self._vector = step.vector
        elif step.name in KEPT:
            self._keep(step)

    def _enter(self, step: Step) -> None:
        before, self._now = self._now, Stay(self.member, step.epoch, list(step.members), step.text, whole=True)
        if before is not None and before.epoch >= step.epoch:
            self.returns.append((before.epoch, step.epoch))
        elif before is not None:
            before.then = step.epoch
        self._take_vector(self._now)
        self.stays[step.epoch] = self._now

    def _take_vector(self, stay: Stay) -> None:
        if self._vector and (not stay.members or sorted(self._vector) == sorted(stay.members)):
            stay.begin, self._vector = dict(self._vector), {}

    def _keep(self, step: Step) -> None:
        stay = self._now
        if stay is None or (step.epoch and step.epoch != stay.epoch):
            if stay is not None:
                self.strays.append((step, stay.epoch))
            stay = self.stays.setdefault(step.epoch, Stay(self.member, step.epoch))
        if step.name in (names.FORWARDED, names.ORDERED):
            stay.ordered[step.sender, step.number] = None
            return
        if not stay.begin and not stay.steps:
            self._take_vector(stay)
            if not stay.begin and step.vector:
                stay.begin = {**step.vector, step.sender: step.vector.get(step.sender, 1) - 1}
        stay.steps.append(step)


def traces_of(steps: Iterable[Step]) -> dict[str, MemberTrace]:
    """By member, in the order in which the first step of each stands."""
    found: dict[str, MemberTrace] = {}
    for step in steps:
        trace = found.get(step.member)
        if trace is None:
            trace = found[step.member] = MemberTrace(step.member)
        trace.add(step)
    return found
