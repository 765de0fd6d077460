"""The words at a mark."""

from __future__ import annotations

import pytest

from octoloom.core.steps import CONCURRENT, DELIVERED, ORDERED, PATH_CREATED, SENT, USER_ADDED, VIEW, Step
from octoloom.runtime.mark_words import Words, concurrent_text, duration, sign_of, style_of, view_text, words_of
from octoloom.runtime.space_time import Kind, SpaceTime, space_time
from tests.runtime.lunch import ADA, BOB, CATHY, lunch

LUNCH = space_time(lunch("causal"))


def words(step: Step) -> Words:
    diagram = space_time([step], every_step=True)
    return words_of(diagram, diagram.marks[0])


def told(diagram: SpaceTime, kind: Kind, member: str, message: tuple[str, int]) -> Words:
    [mark] = [mark for mark in diagram.marks if (mark.kind, mark.member, mark.message) == (kind, member, message)]
    return words_of(diagram, mark)


def test_what_became_of_a_message() -> None:
    assert told(LUNCH, Kind.SENT, BOB, (BOB, 1)) == Words("bob:1", '"Lunch?"', [], "(1,1,0)")
    assert told(LUNCH, Kind.HELD, CATHY, (BOB, 1)) == Words("bob:1", '"Lunch?"', [("waits for ada:1", "held")], "")
    assert told(LUNCH, Kind.DELIVERED, CATHY, (BOB, 1)).notes == [("held 1.2 s", "held")]
    assert told(LUNCH, Kind.DELIVERED, CATHY, (ADA, 2)).notes == [("‖ bob:2", "concurrent")]
    overtaking = told(space_time(lunch("none")), Kind.DELIVERED, CATHY, (BOB, 1))
    assert overtaking.notes == [("before its cause ada:1!", "early")]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Step(SENT, ADA, ADA, 1), Words("ada:1", "", [], "")),
        (Step(ORDERED, ADA, BOB, 1, text="hi"), Words("bob:1", '"hi" ordered', [], "")),
        (Step(USER_ADDED, ADA, BOB, vector={ADA: 0, BOB: 3}), Words("bob", "added", [], "(0,3)")),
        (Step(PATH_CREATED, ADA, BOB, 2, text="path 2"), Words("bob:2", "", [("path 2", "")], "")),
        (Step(CONCURRENT, ADA, BOB, 2, text="with 3"), Words("bob:2", "", [("‖ concurrent", "concurrent")], "")),
        (Step("Some\nthing", ADA), Words("", "", [("Some\N{REPLACEMENT CHARACTER}thing", "")], "")),
    ],
    ids=lambda value: value.name if isinstance(value, Step) else "",
)
def test_other_steps(step: Step, expected: Words) -> None:
    assert words(step) == expected


def test_the_vector_of_a_crowd_is_short() -> None:
    vector = {f"m{number}#1": number % 4 // 3 for number in range(9)}
    assert words(Step(DELIVERED, "m3#1", "m7#1", 1, vector)).vector == "(m3:1 m7:1)"


def test_ranges_of_concurrent_messages() -> None:
    assert concurrent_text(LUNCH, [(ADA, 2, 2), (BOB, 4, 6)]) == "‖ ada:2, bob:4-6"
    assert concurrent_text(LUNCH, [(ADA, 1, 1)] * 4) == "‖ ada:1, ada:1, ada:1 …"


def test_durations() -> None:
    assert [duration(ms) for ms in (0, 999, 1000, 61_234)] == ["0 ms", "999 ms", "1.0 s", "61.2 s"]


def test_views_say_who_comes_and_goes() -> None:
    diagram = space_time([Step(VIEW, ADA, members=[ADA, BOB], epoch=7, text="total")])
    [mark] = diagram.marks
    assert view_text(diagram, mark, None) == "view 7, total: ada, bob"
    assert view_text(diagram, mark, [ADA, BOB]) == "view 7, total: ada, bob"
    assert view_text(diagram, mark, [CATHY, ADA]) == "view 7, total: ada, bob  (+ bob, − cathy#1)"
    bare = space_time([Step(VIEW, ADA, epoch=7)])
    assert view_text(bare, bare.marks[0], [ADA]) == "view 7"


def test_signs_and_styles() -> None:
    by_kind = {mark.kind: (sign_of(mark), style_of(mark)) for mark in LUNCH.marks if mark.concurrent is None}
    assert by_kind[Kind.SENT] == ("●", "sent")
    assert by_kind[Kind.HELD] == ("○", "held")
    assert by_kind[Kind.DELIVERED] == ("▶", "delivered")
    assert {style_of(mark) for mark in LUNCH.marks if mark.concurrent is not None} == {"concurrent"}
