"""The audit of groups: whatever the simulation does is clean, and each kind of damage is found and named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import msgspec
import pytest

from octoloom.core.findings import MEANINGS
from octoloom.core.group_audit import GroupVerdict, audit_group
from octoloom.core.steps import DELIVERED, ORDERED, SENT, VIEW, Step
from tests.core.group_steps import moved, places, simulated, swapped, without
from tests.runtime.lunch import ADA, BOB, CATHY, lunch

SEEDS = range(24)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_simulation_did_is_clean(seed: int) -> None:
    verdict = audit_group("room", simulated(seed))
    assert verdict.counts == {}
    assert verdict.delivered


def test_the_simulation_did_enough_to_be_judged() -> None:
    verdicts = [audit_group("room", simulated(seed)) for seed in SEEDS]
    assert {order for verdict in verdicts for order in verdict.orders} == {"none", "fifo", "causal", "total"}
    assert sum(verdict.views for verdict in verdicts) > 2 * len(verdicts)


def judged(steps: list[Step]) -> GroupVerdict:
    return audit_group("room", steps)


def test_the_lunch_is_clean_in_causal_order_only() -> None:
    assert judged(lunch("causal")).clean
    unordered = [msgspec.structs.replace(step, text="causal") if step.name == VIEW else step for step in lunch("none")]
    assert judged(unordered).counts["cause-missing"] == 1


def test_nothing_to_judge_by_is_not_clean() -> None:
    assert judged([]).counts == {"no-trace": 1}


# Damage of a real run, in the first run and at the first place that allows it.

Damage = Callable[[list[Step]], Iterator[list[Step]]]


def deliveries(steps: list[Step], order: str) -> Iterator[tuple[str, list[int]]]:
    """(member, where it has its deliveries) in each view of this order that it left together with another."""
    views: dict[str, list[Step]] = {}
    for step in steps:
        if step.name == VIEW:
            views.setdefault(step.member, []).append(step)
    onward = [(one.epoch, then.epoch) for mine in views.values() for one, then in pairwise(mine)]
    for member, mine in views.items():
        for one, then in pairwise(mine):
            key = DELIVERED, member, one.epoch
            found = [at for at, s in enumerate(steps) if (s.name, s.member, s.epoch) == key]
            if len(found) > 3 and one.text == order and onward.count((one.epoch, then.epoch)) > 1:
                yield member, found


def disagreeing_member(steps: list[Step]) -> Iterator[list[Step]]:
    """One member has two neighbours of the total order the other way round."""
    for _, found in deliveries(steps, "total"):
        for one, other in pairwise(found):
            if steps[one].sender != steps[other].sender:
                yield swapped(steps, one, other)


def broken_fifo(steps: list[Step]) -> Iterator[list[Step]]:
    for _, found in deliveries(steps, "fifo"):
        for one, other in pairwise(found):
            if steps[one].sender == steps[other].sender:
                yield swapped(steps, one, other)


def doubled_message(steps: list[Step]) -> Iterator[list[Step]]:
    for order in ("total", "causal", "none"):
        for _, found in deliveries(steps, order):
            yield [*steps[: found[-1] + 1], steps[found[0]], *steps[found[-1] + 1 :]]


def lost_message(steps: list[Step]) -> Iterator[list[Step]]:
    for order in ("total", "causal", "none"):
        for _, found in deliveries(steps, order):
            yield without(steps, found[1])


def message_from_nowhere(steps: list[Step]) -> Iterator[list[Step]]:
    for order in ("total", "causal", "fifo", "none"):
        for _, found in deliveries(steps, order):
            forged = msgspec.structs.replace(steps[found[-1]], number=steps[found[-1]].number + 1_000)
            yield [*steps[: found[-1] + 1], forged, *steps[found[-1] + 1 :]]


def view_at_another_place(steps: list[Step]) -> Iterator[list[Step]]:
    """One member enters its next view one delivery too early."""
    for order in ("total", "causal", "fifo"):
        for member, found in deliveries(steps, order):
            entered = next(
                at for at in range(found[-1], len(steps)) if steps[at].name == VIEW and steps[at].member == member
            )
            yield moved(steps, entered, found[-1])


def message_in_another_view(steps: list[Step]) -> Iterator[list[Step]]:
    """The same, by somebody who knows that a step names its view."""
    for member, found in deliveries(steps, "total"):
        views = [step for step in steps[found[-1] :] if step.name == VIEW and step.member == member]
        if views[0].text != "total":
            continue
        for damaged in view_at_another_place(steps):
            at = next((at for at, step in enumerate(damaged) if step is steps[found[-1]]), None)
            if at is not None and damaged[at - 1].name == VIEW:
                damaged[at] = msgspec.structs.replace(damaged[at], epoch=views[0].epoch)
                yield damaged


def other_members(steps: list[Step]) -> Iterator[list[Step]]:
    for at in places(steps, lambda step: step.name == VIEW and len(step.members) > 2):
        yield [*steps[:at], msgspec.structs.replace(steps[at], members=steps[at].members[:-1]), *steps[at + 1 :]]


def other_order(steps: list[Step]) -> Iterator[list[Step]]:
    for at in places(steps, lambda step: step.name == VIEW and len(step.members) > 2 and step.text != "none")[1:]:
        yield [*steps[:at], msgspec.structs.replace(steps[at], text="none"), *steps[at + 1 :]]


def back_to_an_older_view(steps: list[Step]) -> Iterator[list[Step]]:
    for at in places(steps, lambda step: step.name == VIEW):
        for again in places(steps[:at], lambda step: step.name == VIEW and step.member == steps[at].member):  # noqa: B023
            yield [*steps[: at + 1], steps[again], *steps[at + 1 :]]


def foreign_sender(steps: list[Step]) -> Iterator[list[Step]]:
    for order in ("total", "none"):
        for _, found in deliveries(steps, order):
            forged = msgspec.structs.replace(steps[found[0]], sender="mallory#1")
            yield [*steps[: found[0]], forged, *steps[found[0] + 1 :]]


def forged_order(steps: list[Step]) -> Iterator[list[Step]]:
    """The coordinator's own trace does not have what it ordered."""
    for at in places(steps, lambda step: step.name == ORDERED):
        yield without(steps, at)


def broken_causality(steps: list[Step]) -> Iterator[list[Step]]:
    """A delivery stands before that of one of its causes."""
    for _, found in deliveries(steps, "causal"):
        for one, other in pairwise(found):
            sent = places(
                steps,
                lambda s: (s.name, s.sender, s.number) == (SENT, steps[other].sender, steps[other].number),  # noqa: B023
            )
            is_cause = bool(sent) and steps[sent[0]].vector.get(steps[one].sender, 0) >= steps[one].number
            if is_cause and steps[one].sender != steps[other].sender:
                yield swapped(steps, one, other)


def forged_vector(steps: list[Step]) -> Iterator[list[Step]]:
    counted = {step.epoch for step in steps if step.name == VIEW and step.text in ("fifo", "causal")}
    for at in places(steps, lambda step: step.name == SENT and len(step.vector) > 1 and step.epoch in counted):
        step = steps[at]
        other = next(name for name in step.vector if name != step.member)
        vector = {**step.vector, other: step.vector[other] + 1}
        yield [*steps[:at], msgspec.structs.replace(step, vector=vector), *steps[at + 1 :]]


DAMAGE: list[tuple[Damage, str]] = [
    (disagreeing_member, "order-differs"),
    (broken_fifo, "fifo-broken"),
    (broken_causality, "cause-missing"),
    (forged_vector, "vector-differs"),
    (doubled_message, "delivered-twice"),
    (lost_message, "lost-at-member"),
    (message_from_nowhere, "never-sent"),
    (forged_order, "never-sent"),
    (view_at_another_place, "view-misplaced"),
    (message_in_another_view, "view-misplaced"),
    (other_members, "view-differs"),
    (other_order, "view-differs"),
    (back_to_an_older_view, "view-back"),
    (foreign_sender, "not-a-member"),
]


@pytest.mark.parametrize(("damage", "name"), DAMAGE, ids=[damage.__name__ for damage, _ in DAMAGE])
def test_each_damage_is_found_and_named(damage: Damage, name: str) -> None:
    """In several runs, wherever they allow it."""
    tried = 0
    for seed in SEEDS:
        damaged = next(damage(list(simulated(seed))), None)
        if damaged is None:
            continue
        tried += 1
        verdict = judged(damaged)
        assert name in verdict.counts, f"seed {seed}: {verdict.counts}"
        found = next(each for each in verdict.findings if each.name == name)
        assert found.about == "room"
        assert found.device
        assert MEANINGS[name]
    assert tried


def test_a_trace_without_its_beginning_is_not_held_against_anybody() -> None:
    steps = lunch("causal")
    cut = [step for step in steps if step.member != ADA] + [step for step in steps if step.member == ADA][9:]
    assert judged(cut).clean
    assert judged([step for step in steps if step.member in (BOB, CATHY)]).clean
