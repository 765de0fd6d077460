"""Steps put together to stays."""

from __future__ import annotations

from octoloom.core.steps import DELIVERED, FORWARDED, ORDERED, SENT, USER_ADDED, VECTOR_CREATED, VIEW, Step
from octoloom.core.traces import traces_of
from tests.runtime.lunch import ADA, BOB, CATHY, MEMBERS, lunch


def view(epoch: int, order: str = "causal", members: tuple[str, ...] = MEMBERS) -> Step:
    return Step(VIEW, ADA, members=list(members), epoch=epoch, text=order)


def test_a_stay_has_what_was_sent_and_delivered_in_order() -> None:
    traces = traces_of(lunch("causal"))
    assert list(traces) == list(MEMBERS)
    stay = traces[CATHY].stays[1]
    assert stay.delivered() == [(ADA, 1), (BOB, 1), (BOB, 2), (ADA, 2)]
    assert stay.sent() == list(stay.said()) == [(CATHY, 1)]
    assert len(stay.had()) == 5
    assert (stay.whole, stay.then, stay.begin) == (True, 0, dict.fromkeys(MEMBERS, 0))


def test_a_vector_belongs_to_the_view_that_it_is_made_for() -> None:
    """A running member makes the vector of a view before it says that it is there."""
    steps = [
        view(1),
        Step(VECTOR_CREATED, ADA),
        Step(USER_ADDED, ADA, BOB, vector={ADA: 4}),
        Step(USER_ADDED, ADA, BOB, vector={ADA: 4, BOB: 7}),
        view(2, members=(ADA, BOB)),
    ]
    stays = traces_of(steps)[ADA].stays
    assert (stays[1].begin, stays[2].begin) == ({}, {ADA: 4, BOB: 7})
    assert (stays[1].then, stays[2].then) == (2, 0)


def test_a_vector_that_is_missing_is_seen_from_the_first_step() -> None:
    steps = [view(1), Step(DELIVERED, ADA, BOB, 5, {ADA: 2, BOB: 5}, epoch=1)]
    assert traces_of(steps)[ADA].stays[1].begin == {ADA: 2, BOB: 4}


def test_a_trace_without_its_beginning_is_not_whole() -> None:
    stay = traces_of([Step(SENT, ADA, ADA, 3, epoch=7)])[ADA].stays[7]
    assert (stay.whole, stay.sent()) == (False, [(ADA, 3)])


def test_steps_of_another_view_are_put_where_they_belong_and_noted() -> None:
    late = Step(DELIVERED, ADA, BOB, 1, epoch=1)
    trace = traces_of([view(1), view(2), late])[ADA]
    assert trace.strays == [(late, 2)]
    assert trace.stays[1].delivered() == [(BOB, 1)]


def test_a_view_that_is_older_than_the_one_before_is_a_return() -> None:
    assert traces_of([view(3), view(2)])[ADA].returns == [(3, 2)]


def test_under_total_what_is_said_is_what_was_put_into_the_order() -> None:
    steps = [
        view(1, "total"),
        Step(FORWARDED, ADA, ADA, 1, epoch=1),
        Step(ORDERED, ADA, BOB, 4, epoch=1),
        Step(DELIVERED, ADA, BOB, 4, epoch=1),
    ]
    stay = traces_of(steps)[ADA].stays[1]
    assert list(stay.said()) == [(ADA, 1), (BOB, 4)]
    assert list(stay.had()) == [(BOB, 4)]
