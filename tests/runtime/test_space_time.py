"""What the marks of a diagram tell, from the steps of the real filters."""

from __future__ import annotations

import pytest

from octoloom.core.errors import UsageError
from octoloom.core.steps import BUFFERED, DELIVERED, FORWARDED, ORDERED, RECEIVED, SENT, VECTOR_CREATED, VIEW, Step
from octoloom.runtime import space_time as module
from octoloom.runtime.space_time import Kind, Mark, SpaceTime, space_time
from tests.runtime.lunch import ADA, BOB, CATHY, lunch


def at(diagram: SpaceTime, kind: Kind, member: str, sender: str, number: int) -> Mark:
    [found] = [
        mark
        for mark in diagram.marks
        if (mark.kind, mark.member) == (kind, member) and mark.message == (sender, number)
    ]
    return found


def test_lifelines_stand_in_the_order_of_the_view() -> None:
    diagram = space_time([Step(VECTOR_CREATED, CATHY), *lunch("causal")])  # whatever is the first step
    assert diagram.members == [ADA, BOB, CATHY]
    assert diagram.names == {ADA: "ada", BOB: "bob", CATHY: "cathy"}
    assert diagram.name((BOB, 7)) == "bob:7"
    assert diagram.name(("anybody", 7)) == "anybody:7"


def test_without_a_view_who_speaks_comes_first() -> None:
    assert space_time([Step(DELIVERED, BOB, CATHY, 1), Step(SENT, ADA, ADA, 1)]).members == [CATHY, BOB, ADA]


def test_a_view_begins_when_the_first_member_has_it() -> None:
    steps = [Step(VIEW, member, members=[ADA, BOB], epoch=1, at_ms=at_ms) for member, at_ms in ((ADA, 7), (BOB, 4))]
    [view] = space_time(steps).marks
    assert view.step.at_ms == 4


def test_in_causal_order_the_answer_waits_for_the_question() -> None:
    diagram = space_time(lunch("causal"))
    held, delivered = at(diagram, Kind.HELD, CATHY, BOB, 1), at(diagram, Kind.DELIVERED, CATHY, BOB, 1)
    assert held.step.waits_for == (ADA, 1)
    assert (held.text, delivered.text) == ("Lunch?", "Lunch?")
    assert (held.held_ms, delivered.held_ms) == (None, 1170)
    assert at(diagram, Kind.DELIVERED, CATHY, ADA, 1).held_ms is None
    # It arrives where it is held, and is there already when it is delivered.
    assert held.source == BOB
    assert held.origin == diagram.marks.index(at(diagram, Kind.SENT, BOB, BOB, 1))
    assert (delivered.source, delivered.origin) == ("", None)
    assert all(mark.overtakes is None for mark in diagram.marks)


def test_without_an_order_the_answer_overtakes_the_question() -> None:
    diagram = space_time(lunch("none"))
    overtaking = {(mark.member, mark.message): mark.overtakes for mark in diagram.marks if mark.overtakes}
    assert overtaking == {(CATHY, (BOB, 1)): (ADA, 1)}


def test_who_spoke_at_once_is_named() -> None:
    diagram = space_time(lunch("causal"))
    concurrent = {(mark.member, mark.message): mark.concurrent for mark in diagram.marks if mark.concurrent is not None}
    assert concurrent == {
        (BOB, (ADA, 2)): ((BOB, 2, 2),),
        (ADA, (BOB, 2)): ((ADA, 2, 2),),
        (CATHY, (ADA, 2)): ((BOB, 2, 2),),
    }


def test_without_its_send_nobody_knows_with_what_a_message_is_concurrent() -> None:
    diagram = space_time([step for step in lunch("causal") if step.member == CATHY])
    assert at(diagram, Kind.DELIVERED, CATHY, ADA, 2).concurrent == ()
    arrival = at(diagram, Kind.DELIVERED, CATHY, ADA, 1)
    assert (arrival.source, arrival.origin) == (ADA, None)
    assert diagram.members == [ADA, BOB, CATHY]  # the view has them, and arrows come from them


def test_every_step() -> None:
    steps = lunch("causal")
    diagram = space_time(steps, every_step=True)
    assert len(diagram.marks) == len(steps) - 2  # three install one view
    received = at(diagram, Kind.RECEIVED, CATHY, BOB, 1)
    assert received.source == BOB
    assert at(diagram, Kind.HELD, CATHY, BOB, 1).source == ""


def test_the_last_marks_and_what_was_before_them() -> None:
    whole, end = space_time(lunch("causal")), space_time(lunch("causal"), last=4)
    assert [mark.step for mark in end.marks] == [mark.step for mark in whole.marks[-4:]]
    assert end.left_out == len(whole.marks) - 4
    assert end.begin_ms == whole.begin_ms
    # ada:2 and bob:2 were sent before.
    assert [(mark.source, mark.origin) for mark in end.marks] == [(ADA, None), (BOB, None), (BOB, None), (ADA, None)]
    assert space_time(lunch("causal"), last=5).marks[2].origin == 0


def test_marks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MARKS_MAX", 3)
    diagram = space_time(lunch("causal"), last=100)
    assert (len(diagram.marks), diagram.left_out) == (3, 14)


def test_chosen_members() -> None:
    diagram = space_time(lunch("causal"), members=["cathy", BOB])
    assert diagram.members == [BOB, CATHY]
    assert [mark.member for mark in diagram.marks if mark.member == ADA] == []
    arrival = at(diagram, Kind.DELIVERED, CATHY, ADA, 1)
    assert (arrival.source, arrival.origin) == (ADA, None)
    with pytest.raises(UsageError, match="nobody in this trace is called 'zoe': use some of ada, bob, cathy"):
        space_time(lunch("causal"), members=["ada", "zoe"])


def test_who_came_back_is_somebody_new() -> None:
    steps = [
        Step(VIEW, "ada#1", members=["ada#1", "bob#1"], epoch=1),
        Step(VIEW, "ada#2", members=["bob#1", "ada#2"], epoch=2),
    ]
    assert space_time(steps).names == {"ada#1": "ada#1", "bob#1": "bob", "ada#2": "ada#2"}
    assert space_time(steps, members=["ada"]).members == ["ada#1", "ada#2"]


def test_in_total_order_messages_come_from_the_coordinator() -> None:
    steps = [
        Step(FORWARDED, BOB, BOB, 1, text="hi"),
        Step(ORDERED, ADA, BOB, 1),
        *(Step(DELIVERED, member, BOB, 1) for member in (ADA, BOB, CATHY)),
    ]
    marks = space_time(steps).marks
    assert [(mark.member, mark.source, mark.origin) for mark in marks] == [
        (BOB, "", None),
        (ADA, BOB, 0),
        (ADA, "", None),
        (BOB, ADA, 1),
        (CATHY, ADA, 1),
    ]
    assert {mark.text for mark in marks} == {"hi"}


def test_a_number_that_is_used_in_two_epochs_means_two_messages() -> None:
    steps = [
        Step(SENT, BOB, BOB, 1, epoch=1, text="cast"),
        Step(DELIVERED, ADA, BOB, 1, epoch=1),
        Step(FORWARDED, BOB, BOB, 1, epoch=2, text="forward"),
        Step(ORDERED, ADA, BOB, 1, epoch=3),
        Step(DELIVERED, ADA, BOB, 1, epoch=3),
        Step(DELIVERED, CATHY, BOB, 1, epoch=3),
        Step(SENT, BOB, BOB, 1, epoch=4),
        Step(DELIVERED, ADA, BOB, 1, epoch=4),
    ]
    marks = space_time(steps).marks
    assert [mark.text for mark in marks] == ["cast", "cast", "forward", "forward", "forward", "forward", "", ""]
    assert [mark.origin for mark in marks] == [None, 0, None, 2, None, 3, None, 6]


def test_who_forwards_once_more_does_not_take_a_message_from_the_coordinator() -> None:
    steps = [
        Step(FORWARDED, BOB, BOB, 1, epoch=2, at_ms=1),
        Step(ORDERED, ADA, BOB, 1, epoch=2, at_ms=2),
        Step(FORWARDED, BOB, BOB, 1, epoch=2, at_ms=3),
        Step(DELIVERED, CATHY, BOB, 1, epoch=2, at_ms=4),
    ]
    assert [mark.origin for mark in space_time(steps).marks] == [None, 0, None, 1]


def test_a_message_that_is_held_for_one_reason_and_then_another() -> None:
    steps = [
        Step(SENT, ADA, ADA, 3, at_ms=1),
        Step(RECEIVED, BOB, ADA, 3, at_ms=2),
        Step(BUFFERED, BOB, ADA, 3, waits_for=(ADA, 2), at_ms=2),
        Step(BUFFERED, BOB, ADA, 3, waits_for=(CATHY, 1), at_ms=5),
        Step(DELIVERED, BOB, ADA, 3, at_ms=9),
    ]
    [_, first, second, delivered] = space_time(steps).marks
    assert (first.source, second.source) == (ADA, "")
    assert delivered.held_ms == 7


def test_what_would_move_a_cursor_is_shown_as_a_sign() -> None:
    [mark] = space_time([Step(SENT, "a\x1b[2J#1", "a\x1b[2J#1", 1, text="x\r\n\x9b2J")]).marks
    diagram = space_time([mark.step])
    assert mark.text.isprintable()
    assert all(name.isprintable() for name in diagram.names.values())


def test_an_unknown_step_is_drawn_if_every_step_is() -> None:
    steps = [Step("SomethingNew", ADA)]
    assert space_time(steps).marks == []
    assert [mark.kind for mark in space_time(steps, every_step=True).marks] == [Kind.OTHER]


def test_nothing() -> None:
    assert space_time([]) == SpaceTime([], {}, [])
