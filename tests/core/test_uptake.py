"""Answers about topics, and the brokers that they wait for."""

from __future__ import annotations

from octoloom.core.log_messages import AdminDone
from octoloom.core.uptake import NAMED_MAX, REQUEST_TIMED_OUT, Uptake, Waiting

DONE = AdminDone(1, 0, "")


def waiting(revision: int, deadline: int = 1000, done: AdminDone = DONE) -> Waiting:
    return Waiting("a#1", done, revision, deadline)


def test_an_answer_waits_for_the_last_broker_that_is_alive() -> None:
    uptake = Uptake()
    uptake.hold(waiting(5))
    assert uptake.release(0, ["a#1", "b#1"]) == []
    uptake.on_taken("a#1", 5)
    uptake.on_taken("b#1", 4)
    assert uptake.release(0, ["a#1", "b#1"]) == []
    uptake.on_taken("b#1", 6)
    assert uptake.release(0, ["a#1", "b#1"]) == [("a#1", DONE)]
    assert uptake.release(0, ["a#1", "b#1"]) == []


def test_who_is_given_up_is_waited_for_no_longer_and_where_nobody_is_left_nothing_waits() -> None:
    uptake = Uptake()
    uptake.hold(waiting(5))
    uptake.on_taken("a#1", 5)
    assert uptake.release(0, ["a#1"]) == [("a#1", DONE)]
    uptake.hold(waiting(6))
    assert uptake.release(0, []) == [("a#1", DONE)]


def test_what_is_taken_up_is_not_given_back_in_the_same_life_and_a_new_life_begins_with_nothing() -> None:
    uptake = Uptake()
    uptake.on_taken("b#1", 5)
    uptake.on_taken("b#1", 3)
    uptake.hold(waiting(5))
    assert uptake.release(0, ["b#2"]) == []
    uptake.on_taken("b#1", 5)
    assert uptake.release(0, ["b#1"]) == [("a#1", DONE)]


def test_whoever_waits_too_long_is_told_who_is_late_and_a_refusal_stays_one() -> None:
    uptake = Uptake()
    refused = AdminDone(2, 36, "it exists already")
    uptake.hold(waiting(5, 100))
    uptake.hold(waiting(5, 50, refused))
    uptake.on_taken("a#1", 5)
    assert uptake.deadline() == 50
    assert uptake.release(50, ["a#1", "b#1"]) == [("a#1", refused)]
    assert uptake.deadline() == 100
    text = "it is done, but not known everywhere yet: b#1 did not take it up in time"
    assert uptake.release(100, ["a#1", "b#1"]) == [("a#1", AdminDone(1, REQUEST_TIMED_OUT, text))]
    assert uptake.deadline() is None


def test_of_many_who_are_late_some_are_named() -> None:
    uptake = Uptake()
    uptake.hold(waiting(5, 100))
    [(_, done)] = uptake.release(100, [f"b{number}#1" for number in range(NAMED_MAX + 1)])
    assert "b0#1, b1#1, b2#1, b3#1, b4#1 and others did not" in done.detail
