"""Steps of members whose clocks differ, from files in any order: no effect stands before its cause."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.steps import BUFFERED, COUNT_INCREMENTED, DELIVERED, FORWARDED, ORDERED, RECEIVED, SENT, VIEW, Step
from octoloom.runtime.step_order import causal_order
from tests.runtime.lunch import lunch


def flat(steps: list[Step]) -> list[Step]:
    return [step for node in causal_order(steps) for step in node]


def position(steps: list[Step], name: str, member: str, sender: str, number: int) -> int:
    return next(
        place
        for place, step in enumerate(steps)
        if (step.name, step.member, step.sender, step.number) == (name, member, sender, number)
    )


def assert_causal(steps: list[Step]) -> None:
    for place, step in enumerate(steps):
        if step.name in (RECEIVED, BUFFERED, DELIVERED):
            assert position(steps, SENT, step.sender, step.sender, step.number) < place
        if step.name in (BUFFERED, DELIVERED):
            assert position(steps, RECEIVED, step.member, step.sender, step.number) < place


def test_clocks_that_agree_are_obeyed() -> None:
    steps = lunch("causal")
    assert flat(steps) == steps


def test_a_clock_that_is_ahead_does_not_put_a_delivery_before_its_send() -> None:
    steps = lunch("causal", skew_ms={"ada#1": 60_000, "cathy#1": -60_000})
    found = flat(steps)
    assert_causal(found)
    for member in ("ada#1", "bob#1", "cathy#1"):
        mine = [step for step in steps if step.member == member and step.name != VIEW]
        assert [step for step in found if step.member == member and step.name != VIEW] == mine


@given(st.randoms(use_true_random=False), st.lists(st.integers(-100, 100), min_size=3, max_size=3), st.booleans())
def test_any_order_of_the_lines_tells_the_same(dice: random.Random, skews: list[int], timed: bool) -> None:
    skew_ms = dict(zip(("ada#1", "bob#1", "cathy#1"), skews, strict=True))
    steps = lunch("causal", skew_ms=skew_ms, timed=timed)
    shuffled = steps.copy()
    dice.shuffle(shuffled)
    found = flat(shuffled)
    assert sorted(map(repr, found)) == sorted(map(repr, steps))
    assert_causal(found)
    # What a member knows only grows. Without times two lines of it may stand in an order that only others contradict.
    for member in skew_ms if timed else ():
        counts = [sum(step.vector.values()) for step in found if step.member == member and len(step.vector) == 3]
        assert counts == sorted(counts)


def test_a_clock_that_goes_back_does_not_put_a_delivery_before_its_arrival() -> None:
    steps = [Step(DELIVERED, "bob", "ada", 1, at_ms=4), Step(RECEIVED, "bob", "ada", 1, at_ms=5)]
    assert [step.name for step in flat(steps)] == [RECEIVED, DELIVERED]


def test_a_view_is_one_place_for_all() -> None:
    nodes = causal_order(lunch("causal", skew_ms={"cathy#1": 500}))
    views = [node for node in nodes if node[0].name == VIEW]
    assert [sorted(step.member for step in node) for node in views] == [["ada#1", "bob#1", "cathy#1"]]
    assert nodes.index(views[0]) == 0


def test_steps_of_one_moment_stay_as_they_were_written() -> None:
    steps = [
        step
        for number in range(1, 6)
        for step in (Step(RECEIVED, "bob", "ada", number), Step(DELIVERED, "bob", "ada", number))
    ]
    assert flat(steps) == steps


def test_what_is_ordered_for_others_comes_after_it_was_forwarded_and_before_it_is_delivered() -> None:
    steps = [
        Step(DELIVERED, "bob", "bob", 1, at_ms=1),
        Step(ORDERED, "ada", "bob", 1, at_ms=2),
        Step(FORWARDED, "bob", "bob", 1, at_ms=0),
        Step(FORWARDED, "bob", "bob", 1, at_ms=9),
        Step(DELIVERED, "ada", "bob", 1, at_ms=3),
    ]
    assert [(step.name, step.member, step.at_ms) for step in flat(steps)] == [
        (FORWARDED, "bob", 0),
        (ORDERED, "ada", 2),
        (DELIVERED, "bob", 1),
        (DELIVERED, "ada", 3),
        (FORWARDED, "bob", 9),
    ]


def test_a_view_stands_before_what_happens_in_it() -> None:
    steps = [
        Step(SENT, "ada", "ada", 1, epoch=3),
        Step(VIEW, "ada", members=["ada", "bob"], epoch=3),
        Step(SENT, "ada", "ada", 2, epoch=2),
    ]
    assert [(step.name, step.epoch) for step in flat(steps)] == [(SENT, 2), (VIEW, 3), (SENT, 3)]


def test_each_order_counts_by_itself() -> None:
    # Bob's first bundle in the total order of view 2 is not his first cast in the causal order of view 1.
    steps = [
        Step(ORDERED, "ada", "bob", 1, epoch=2, at_ms=8),
        Step(FORWARDED, "bob", "bob", 1, epoch=2, at_ms=7),
        Step(DELIVERED, "ada", "bob", 1, epoch=1, at_ms=5),
        Step(SENT, "bob", "bob", 1, epoch=1, at_ms=6),
        Step(DELIVERED, "ada", "bob", 1, epoch=2, at_ms=8),
    ]
    found = [(step.name, step.epoch) for step in flat(steps)]
    assert found == [(SENT, 1), (DELIVERED, 1), (FORWARDED, 2), (ORDERED, 2), (DELIVERED, 2)]


def test_what_is_forwarded_again_is_ordered_in_the_next_epoch() -> None:
    steps = [
        Step(ORDERED, "cathy", "bob", 1, epoch=3, at_ms=1),
        Step(FORWARDED, "bob", "bob", 1, epoch=2, at_ms=5),
        Step(FORWARDED, "bob", "bob", 1, epoch=3, at_ms=6),
    ]
    found = [(step.name, step.epoch) for step in flat(steps)]
    assert found.index((FORWARDED, 2)) < found.index((ORDERED, 3))


def test_a_trace_that_contradicts_itself_is_drawn_all_the_same() -> None:
    # Each has heard the other's message before it sent its own, if one believes the clocks.
    steps = [
        Step(DELIVERED, "ada", "bob", 1, at_ms=1),
        Step(SENT, "ada", "ada", 1, at_ms=2),
        Step(DELIVERED, "bob", "ada", 1, at_ms=1),
        Step(SENT, "bob", "bob", 1, at_ms=2),
    ]
    found = flat(steps)
    assert len(found) == 4
    for member in ("ada", "bob"):
        other = "bob" if member == "ada" else "ada"
        assert position(found, SENT, other, other, 1) < position(found, DELIVERED, member, other, 1)


def test_a_file_that_is_given_twice() -> None:
    steps = lunch("causal")
    assert len(flat(steps + steps)) == 2 * len(steps)


@pytest.mark.parametrize("count", [3000])
def test_many_steps_are_sorted_in_no_time(count: int) -> None:
    steps = [Step(COUNT_INCREMENTED, "ada", "ada", n, {"ada": n}) for n in range(1, count)]
    steps += [Step(RECEIVED, "bob", "ada", n, {"ada": n}) for n in range(1, count)]
    random.Random(1).shuffle(steps)
    assert len(flat(steps)) == len(steps)
