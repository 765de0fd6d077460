"""The proof must be able to fail: each way of breaking the order is planted in a good story, and found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from octoloom.runtime.causal_proof import Chat, causal_doubts, chat_doubts
from octoloom.runtime.group_lives import Life
from tests.runtime.group_story import ADA, BOB, causal, heard

Lives = list[Life]


def test_a_good_story_holds() -> None:
    assert list(causal_doubts(causal())) == []


def an_answer_comes_before_its_question(lives: Lives) -> None:
    lines = lives[2].lines
    lines[0], lines[1] = lines[1], lines[0]


def a_message_comes_twice(lives: Lives) -> None:
    lives[1].lines.append(lives[1].lines[-1])


def a_message_is_missing_at_one(lives: Lives) -> None:
    del lives[1].lines[-1]


def the_dead_read_too_early(lives: Lives) -> None:
    lives[0].lines = [heard(11, BOB, 1, eve=1)]


def the_newcomer_reads_too_early(lives: Lives) -> None:
    lives[3].lines.reverse()
    lives[3].lines[0] = heard(62, BOB, 2, eve=2)


def the_newcomer_lacks_the_first(lives: Lives) -> None:
    del lives[3].lines[0]


def a_change_has_another_place(lives: Lives) -> None:
    """One of Ada's came after she had left, to one of the two."""
    lines = lives[1].lines
    lines[2:5] = [lines[3], lines[4], lines[2]]


def a_change_was_not_seen_by_one(lives: Lives) -> None:
    del lives[1].lines[3]


def nobody_saw_the_newcomer_come(lives: Lives) -> None:
    for life in lives[1:3]:
        del life.lines[4]


def only_one_lived(lives: Lives) -> None:
    lives[1].lived = False


PLANTED = [
    an_answer_comes_before_its_question, a_message_comes_twice, a_message_is_missing_at_one, the_dead_read_too_early,
    the_newcomer_reads_too_early, the_newcomer_lacks_the_first, a_change_has_another_place,
    a_change_was_not_seen_by_one, nobody_saw_the_newcomer_come, only_one_lived,
]  # fmt: skip


@pytest.mark.parametrize("plant", PLANTED)
def test_whatever_is_wrong_is_found(plant: Callable[[Lives], None]) -> None:
    lives = causal()
    plant(lives)
    assert list(causal_doubts(lives)) != []


def test_a_doubt_says_what_came_before_what() -> None:
    lives = causal()
    an_answer_comes_before_its_question(lives)
    assert list(causal_doubts(lives)) == [f"eve#1 has number 1 of {BOB} before number 1 of {ADA}"]


ORDERED = Chat("causal", "cathy", "ada", 800, ["a", "b", "c"], ["a", "b", "c"])
UNORDERED = Chat("none", "cathy", "ada", 800, ["a", "b", "c"], ["b", "a", "c"])


def test_a_chat_must_differ_without_an_order() -> None:
    assert UNORDERED.too_early == ["b"]
    assert list(chat_doubts(ORDERED, UNORDERED)) == []
    assert list(chat_doubts(ORDERED, replace(UNORDERED, read=ORDERED.read))) == [
        "cathy was not slow, so nothing is proved"
    ]


def test_a_chat_must_be_in_order_and_whole() -> None:
    assert list(chat_doubts(replace(ORDERED, read=["a", "c", "b"]), UNORDERED)) == [
        "cathy read 'c' before what it answers, with causal"
    ]
    assert list(chat_doubts(replace(ORDERED, read=["a", "b"]), UNORDERED)) == ["cathy read 2 words of 3 with causal"]
    assert list(chat_doubts(replace(ORDERED, read=["a", "b", "c", "c"]), UNORDERED)) != []
