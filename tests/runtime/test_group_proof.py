"""The proof must be able to fail: each way of breaking the order is planted in a good story, and found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from octoloom.runtime.group_lives import Ended, Life, Moved
from octoloom.runtime.group_proof import one_order_doubts, unsure_doubts
from tests.runtime.group_story import ADA, BOB, DAN, EVE, heard, total

Lives = list[Life]


def test_a_good_story_holds() -> None:
    assert list(one_order_doubts(total())) == []


def test_nobody_needs_to_die_or_come() -> None:
    lives = [Life(name, founded=True, to_send=1, lines=[heard(1, ADA, 1), heard(2, BOB, 1)]) for name in (ADA, BOB)]
    assert list(one_order_doubts(lives)) == []


def one_is_swapped(lives: Lives) -> None:
    lines = lives[2].lines
    lines[0], lines[1] = lines[1], lines[0]


def one_is_lost_at_one(lives: Lives) -> None:
    del lives[2].lines[-1]


def one_is_lost_at_all(lives: Lives) -> None:
    for life in lives[1:]:
        del life.lines[-1]


def one_is_lost_in_the_midst(lives: Lives) -> None:
    for life in lives[:3]:
        life.lines.remove(heard(10, ADA, 1))


def one_is_doubled_at_all(lives: Lives) -> None:
    for life in lives[1:]:
        life.lines.append(life.lines[-1])


def one_is_doubled_at_one(lives: Lives) -> None:
    lives[2].lines.append(lives[2].lines[-1])


def a_change_has_another_place(lives: Lives) -> None:
    lines = lives[2].lines
    lines[4:7] = [lines[6], lines[4], lines[5]]


def a_change_tells_of_others(lives: Lives) -> None:
    lives[2].lines[4] = Moved(50, "leave", "ada", ["eve", "bob", "dan"])


def the_newcomer_begins_too_late(lives: Lives) -> None:
    del lives[3].lines[0]


def the_newcomer_begins_too_early(lives: Lives) -> None:
    lives[3].lines.insert(0, heard(13, ADA, 2))


def nobody_saw_the_newcomer_come(lives: Lives) -> None:
    for life in lives[1:3]:
        life.lines = [line for line in life.lines if not (isinstance(line, Moved) and line.word == "join")]


def the_dead_had_another_order(lives: Lives) -> None:
    lines = lives[0].lines
    lines[0], lines[1] = lines[1], lines[0]


def the_dead_had_more_before_its_last_view(lives: Lives) -> None:
    lives[0].lines.insert(1, heard(10, EVE, 7))


def nobody_lived(lives: Lives) -> None:
    for life in lives:
        life.lived = False


def nobody_heard_anything(lives: Lives) -> None:
    for life in lives:
        life.lines, life.to_send = [], 0


PLANTED = [
    one_is_swapped, one_is_lost_at_one, one_is_lost_at_all, one_is_lost_in_the_midst, one_is_doubled_at_all,
    one_is_doubled_at_one, a_change_has_another_place, a_change_tells_of_others, the_newcomer_begins_too_late,
    the_newcomer_begins_too_early, nobody_saw_the_newcomer_come, the_dead_had_another_order,
    the_dead_had_more_before_its_last_view, nobody_lived, nobody_heard_anything,
]  # fmt: skip


@pytest.mark.parametrize("plant", PLANTED)
def test_whatever_is_wrong_is_found(plant: Callable[[Lives], None]) -> None:
    lives = total()
    plant(lives)
    assert list(one_order_doubts(lives)) != []


def test_the_dead_may_have_less() -> None:
    lives = total()
    del lives[0].lines[2:]
    assert list(one_order_doubts(lives)) == []


def test_two_who_come_at_once_begin_at_the_same_place() -> None:
    lives, names = total(), ["bob", "eve", "dan", "gus"]
    for life in lives[1:3]:
        life.lines[4:6] = [
            Moved(50, "leave", "ada", names),
            Moved(50, "join", "dan", names),
            Moved(50, "join", "gus", names),
        ]
    lives.append(Life("gus#3", founded=False, lines=[*lives[3].lines]))
    assert list(one_order_doubts(lives)) == []


def test_who_comes_again_under_its_name_begins_where_it_comes_again() -> None:
    lives, names = total(), ["bob", "eve", "dan"]
    for life in lives[1:3]:
        life.lines += [Moved(70, "leave", "dan", names[:2]), Moved(80, "join", "dan", names), heard(90, "dan#3", 1)]
    lives[3].lived = False
    lives.append(Life("dan#3", founded=False, to_send=1, lines=[heard(90, "dan#3", 1)]))
    assert list(one_order_doubts(lives)) == []
    lives[3].lines = [heard(90, "dan#3", 1)]
    assert list(one_order_doubts(lives)) != []


def test_who_is_expelled_is_told_what_is_in_doubt() -> None:
    lives = total()
    lives[0].lines.append(Ended(70, 4, [3, 4], "it was slow"))
    assert list(unsure_doubts(lives)) == []
    lives[0].lines[-1] = Ended(70, 4, [4], "it was slow")
    assert list(unsure_doubts(lives)) == [f"{ADA} is not told that number 3 of its 4 is in doubt"]


def test_a_doubt_says_what_is_where() -> None:
    lives = total()
    one_is_swapped(lives)
    assert list(one_order_doubts(lives)) == [f"{EVE} has ('{BOB}', 1) where {BOB} has ('{ADA}', 1)"]
    assert DAN not in str(list(one_order_doubts(lives)))
