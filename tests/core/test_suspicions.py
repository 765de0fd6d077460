"""Suspicions: who is named first, and which complaints count."""

from __future__ import annotations

from octoloom.core.suspicions import Suspicions

LINKS = ["a#1", "b#1", "c#1"]


def heard(*pairs: str, last_at: int = 200) -> Suspicions:
    suspicions = Suspicions(400)
    for now in (0, last_at):
        for pair in pairs:
            suspicions.add(now, f"{pair[0]}#1", f"{pair[1]}#1")
    return suspicions


def test_nobody_is_named_before_both_sides_could_be_heard() -> None:
    suspicions = heard("ab")
    assert suspicions.decide_at == 400
    assert suspicions.weigh(399, LINKS) == []
    assert suspicions.weigh(400, LINKS) == ["b#1", "a#1"]


def test_the_most_accused_comes_first_then_the_nearest_to_the_tail() -> None:
    assert heard("ab", "ba", "cb", "bc").weigh(400, LINKS) == ["b#1", "c#1", "a#1"]
    assert heard("bc", "cb").weigh(400, LINKS) == ["c#1", "b#1"]
    assert heard("ba").weigh(400, LINKS) == ["a#1", "b#1"]


def test_a_complaint_made_once_is_weighed_again_and_then_forgotten() -> None:
    suspicions = heard("ab", last_at=0)
    for now in (400, 800):
        assert suspicions.weigh(now, LINKS) == []
        assert suspicions.decide_at == now + 400
    assert suspicions.weigh(1200, LINKS) == []
    assert suspicions.decide_at is None


def test_a_delay_puts_everything_off() -> None:
    suspicions = heard("ab")
    suspicions.delay(5000)
    assert suspicions.decide_at == 5400
    assert suspicions.weigh(5400, LINKS) == ["b#1", "a#1"]


def test_a_new_epoch_begins_without_complaints() -> None:
    suspicions = heard("ab")
    suspicions.clear()
    assert suspicions.decide_at is None
    assert suspicions.weigh(9999, LINKS) == []
