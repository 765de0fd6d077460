"""The audit of an ordered group, from the steps of its members: did all of them see what the order promises?

Each member is judged by itself first (`stay_audit.py`). Then against the others:

1. a view is the same to all who were in it, and they come to it from the same view;
2. those who go from one view to the next together have had the same messages before it, under `total` in the same
   order; who dies in a view may have more or less, but under `total` never in another order;
3. nobody sees a message twice, nor one that was never sent.

What cannot be seen is not held against anybody: the beginning of a trace that was cut, or what a member sent that left
no trace at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from octoloom.core.findings import Finding, Findings
from octoloom.core.stay_audit import (
    Pasts,
    Wrong,
    cause_wrongs,
    double_wrongs,
    origin_wrongs,
    own_wrongs,
    pasts_of,
    sequence_wrongs,
)
from octoloom.core.steps import Step
from octoloom.core.traces import MemberTrace, Message, Stay, traces_of


class GroupVerdict(msgspec.Struct):
    """What is known of one group."""

    group: str
    members: int = 0
    views: int = 0
    sent: int = 0
    delivered: int = 0
    orders: list[str] = []
    counts: dict[str, int] = {}
    findings: list[Finding] = []

    @property
    def clean(self) -> bool:
        return not self.counts


def audit_group(group: str, steps: Iterable[Step]) -> GroupVerdict:
    """All steps of a group, each member's in the order in which it made them."""
    return GroupAudit(group, traces_of(steps)).verdict()


class GroupAudit:
    def __init__(self, group: str, traces: dict[str, MemberTrace]) -> None:
        self._traces = traces
        self._stays: dict[int, list[Stay]] = {}
        for trace in traces.values():
            for stay in trace.stays.values():
                self._stays.setdefault(stay.epoch, []).append(stay)
        self._findings = Findings(group)

    def verdict(self) -> GroupVerdict:
        findings, stays = self._findings, [stay for each in self._stays.values() for stay in each]
        if not stays:
            findings.add("no-trace", "no member has told of a view or of a message")
        self._check_views()
        self._check_members(stays)
        for epoch in sorted(self._stays):
            self._check_together(self._stays[epoch])
        return GroupVerdict(
            findings.about,
            len(self._traces),
            len(self._stays),
            len({(stay.is_total, message) for stay in stays for message in stay.said()}),
            sum(len(stay.delivered()) for stay in stays),
            sorted({stay.order for stay in stays if stay.order}),
            findings.counts,
            findings.kept,
        )

    def _add(self, member: str, epoch: int, wrong: tuple[str, str, Message | None]) -> None:
        name, text, message = wrong
        number = message[1] if message is not None else 0
        self._findings.add(name, f"{member}: {text}", version=epoch, device=member, sequencer=number)

    # Views.

    def _check_views(self) -> None:
        for trace in self._traces.values():
            for left, entered in trace.returns:
                self._add(trace.member, entered, ("view-back", f"it goes from view {left} to view {entered}", None))
            for step, epoch in trace.strays[:1]:
                text = f"{step.sender}:{step.number} of view {step.epoch} stands in view {epoch}"
                self._add(trace.member, epoch, ("view-misplaced", text, (step.sender, step.number)))
        for epoch, stays in self._stays.items():
            first = next((stay for stay in stays if stay.whole), None)
            for stay in stays:
                self._check_view(epoch, stay, first)

    def _check_view(self, epoch: int, stay: Stay, first: Stay | None) -> None:
        if first is None or not stay.whole:
            return
        if (stay.members, stay.order) != (first.members, first.order):
            text = f"view {epoch} is {_view(stay)}, and at {first.member} {_view(first)}"
            self._add(stay.member, epoch, ("view-differs", text, None))
        elif stay.members and stay.member not in stay.members:
            self._add(stay.member, epoch, ("not-a-member", f"it is not in its view {epoch}", None))
        for other in self._stays.get(stay.then, []):
            trace = self._traces[other.member]
            between = [each for each in trace.stays if epoch < each < stay.then] if epoch in trace.stays else []
            if between:
                text = f"it goes from view {epoch} to {stay.then}, and {other.member} by way of {between[0]}"
                self._add(stay.member, epoch, ("view-differs", text, None))

    # Each by itself.

    def _check_members(self, stays: list[Stay]) -> None:
        pasts: dict[int, Pasts] = {stay.epoch: {} for stay in stays}
        sends: dict[tuple[int, str], Mapping[Message, None]] = {}
        for stay in stays:
            pasts[stay.epoch].update(pasts_of(stay))
            if stay.whole:
                sends[stay.epoch, stay.member] = stay.said()
        for stay in stays:
            for wrong in self._wrongs(stay, pasts[stay.epoch], sends):
                self._add(stay.member, stay.epoch, wrong)
        for trace in self._traces.values():
            for epoch, wrong in double_wrongs(trace):
                self._add(trace.member, epoch, wrong)

    @staticmethod
    def _wrongs(
        stay: Stay,
        pasts: Mapping[Message, dict[str, int]],
        sends: Mapping[tuple[int, str], Mapping[Message, None]],
    ) -> Iterator[Wrong]:
        yield from sequence_wrongs(stay)
        yield from cause_wrongs(stay, pasts)
        yield from origin_wrongs(stay, sends)
        yield from own_wrongs(stay)

    # All together.

    def _check_together(self, stays: list[Stay]) -> None:
        whole = [stay for stay in stays if stay.whole]
        if whole and whole[0].is_total:
            self._check_total(whole)
        for then in sorted({stay.then for stay in whole if stay.then}):
            self._check_same([stay for stay in whole if stay.then == then])

    def _check_same(self, stays: list[Stay]) -> None:
        """They went on together, so they have had the same."""
        had = {stay.member: stay.had() for stay in stays}
        union: dict[Message, str] = {}
        for member, messages in had.items():
            for message in messages:
                union.setdefault(message, member)
        for stay in stays:
            mine = had[stay.member]
            if len(mine) == len(union):
                continue
            elsewhere = self._had_elsewhere(stay)
            for message in [each for each in union if each not in mine]:
                text = f"{message[0]}:{message[1]} came to {union[message]} in view {stay.epoch}"
                if message in elsewhere:
                    wrong = ("view-misplaced", f"{text}, and here in view {elsewhere[message]}", message)
                else:
                    wrong = ("lost-at-member", f"{text}, and not here", message)
                self._add(stay.member, stay.epoch, wrong)

    def _had_elsewhere(self, stay: Stay) -> dict[Message, int]:
        others = [each for each in self._traces[stay.member].stays.values() if each is not stay]
        return {message: each.epoch for each in others if each.is_total == stay.is_total for message in each.had()}

    def _check_total(self, stays: list[Stay]) -> None:
        """One sequence, of which each has a beginning."""
        longest = max(stays, key=lambda stay: len(stay.steps))
        right = longest.delivered()
        for stay in stays:
            mine = stay.delivered()
            differs = next((at for at, pair in enumerate(zip(mine, right, strict=False)) if pair[0] != pair[1]), None)
            if differs is None:
                continue
            here, there = mine[differs], right[differs]
            text = f"as the {differs + 1}. of view {stay.epoch} it has {here[0]}:{here[1]}"
            text = f"{text}, and {longest.member} has {there[0]}:{there[1]}"
            if here in right[differs:] and there in mine[differs:]:
                self._add(stay.member, stay.epoch, ("order-differs", text, here))
            elif there not in mine and not any(
                each.then == stay.then for each in stays if each is not stay and stay.then
            ):
                self._add(stay.member, stay.epoch, ("lost-at-member", text, there))


def _view(stay: Stay) -> str:
    return f"{stay.order or 'no order'} of {', '.join(stay.members) or 'nobody'}"
