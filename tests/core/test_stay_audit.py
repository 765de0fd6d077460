"""Causes by counts, against causes by sets of all that anybody ever knew."""

from __future__ import annotations

import random

import pytest

from octoloom.core.stay_audit import cause_wrongs, double_wrongs, origin_wrongs, own_wrongs, pasts_of, sequence_wrongs
from octoloom.core.steps import DELIVERED, SENT, Step
from octoloom.core.traces import MemberTrace, Message, Stay

NAMES = ["ada#1", "bob#1", "cyd#1", "dan#1"]


def played(seed: int, careless: bool) -> tuple[dict[str, Stay], dict[Message, frozenset[Message]]]:
    """Members that send and deliver at random, and the full past of each message.

    Each sender's messages come in sequence; if `careless`, nobody looks at other causes.
    """
    dice = random.Random(seed)
    stays = {name: Stay(name, 1, NAMES, "causal", dict.fromkeys(NAMES, 0), whole=True) for name in NAMES}
    had: dict[str, dict[Message, None]] = {name: {} for name in NAMES}
    pasts: dict[Message, frozenset[Message]] = {}
    counts = {name: dict.fromkeys(NAMES, 0) for name in NAMES}
    for _ in range(120):
        name = dice.choice(NAMES)
        if dice.random() < 0.3:
            counts[name][name] += 1
            message = name, counts[name][name]
            pasts[message] = frozenset(had[name])
            step = SENT
        else:
            sender = dice.choice([each for each in NAMES if each != name])
            message = sender, counts[name][sender] + 1
            if message not in pasts or not (careless or pasts[message] <= set(had[name])):
                continue
            counts[name][sender] += 1
            step = DELIVERED
        had[name][message] = None
        stays[name].steps.append(Step(step, name, *message, dict(counts[name]), epoch=1))
    return stays, pasts


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("careless", [False, True])
def test_causes_by_counts_are_causes_by_sets(seed: int, careless: bool) -> None:
    stays, pasts = played(seed, careless)
    counted = {message: past for stay in stays.values() for message, past in pasts_of(stay).items()}
    for stay in stays.values():
        found = [wrong[2] for wrong in cause_wrongs(stay, counted)]
        seen: dict[Message, None] = {}
        expected = []
        for step in stay.steps:
            message = step.sender, step.number
            if step.name == DELIVERED and not pasts[message] <= set(seen):
                expected.append(message)
            seen[message] = None
        assert found == expected
        assert list(sequence_wrongs(stay)) == []
    assert careless or all(not list(cause_wrongs(stay, counted)) for stay in stays.values())


def test_carelessness_breaks_causes_now_and_then() -> None:
    """Otherwise the test above proves little."""
    broken = 0
    for seed in range(30):
        stays, _ = played(seed, careless=True)
        counted = {message: past for stay in stays.values() for message, past in pasts_of(stay).items()}
        broken += any(list(cause_wrongs(stay, counted)) for stay in stays.values())
    assert broken > 15


def stay_of(*messages: Message, order: str = "fifo", epoch: int = 1) -> Stay:
    steps = [Step(DELIVERED, NAMES[0], *message, epoch=epoch) for message in messages]
    return Stay(NAMES[0], epoch, NAMES, order, dict.fromkeys(NAMES, 0), steps, whole=True)


@pytest.mark.parametrize(
    ("numbers", "names"),
    [
        ([1, 2, 3], []),
        ([1, 3, 2], ["fifo-broken", "fifo-broken"]),
        ([1, 3], ["lost-at-member"]),
        ([2], ["lost-at-member"]),
        ([1, 1], ["fifo-broken"]),
    ],
)
def test_a_senders_messages_come_in_sequence(numbers: list[int], names: list[str]) -> None:
    stay = stay_of(*((NAMES[1], number) for number in numbers))
    assert [wrong[0] for wrong in sequence_wrongs(stay)] == names
    stay.order = "none"
    assert list(sequence_wrongs(stay)) == []


def test_what_was_delivered_was_sent_in_this_view() -> None:
    message = NAMES[1], 1
    stay = stay_of(message, epoch=2)
    sends = {(2, NAMES[1]): {message: None}}
    assert list(origin_wrongs(stay, sends)) == []
    assert list(origin_wrongs(stay, {})) == []  # nobody knows what it sent
    assert [wrong[0] for wrong in origin_wrongs(stay, {(2, NAMES[1]): {}})] == ["never-sent"]
    assert [w[0] for w in origin_wrongs(stay, {(1, NAMES[1]): {message: None}, (2, NAMES[1]): {}})] == [
        "view-misplaced"
    ]


def test_a_coordinator_has_what_it_ordered() -> None:
    stay = stay_of((NAMES[1], 1), order="total")
    stay.ordered, stay.then = {(NAMES[1], 1): None, (NAMES[2], 1): None}, 2
    assert [wrong[0] for wrong in own_wrongs(stay)] == ["lost-at-member"]
    stay.then = 0  # it may have died before it came
    assert list(own_wrongs(stay)) == []


def test_twice_is_twice_in_any_view_but_each_order_counts_by_itself() -> None:
    message = NAMES[1], 1
    trace = MemberTrace(NAMES[0], {1: stay_of(message), 2: stay_of(message, epoch=2)})
    assert [(epoch, wrong[0]) for epoch, wrong in double_wrongs(trace)] == [(2, "delivered-twice")]
    trace.stays[2].order = "total"
    assert list(double_wrongs(trace)) == []
