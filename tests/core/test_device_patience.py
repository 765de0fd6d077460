"""How long a device waits before it pings, gives up, or goes on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.core.device_effects import Limits
from octoloom.core.device_patience import Due, Patience

LIMITS = Limits(ping_ms=1000, dead_ms=2500, welcome_ms=5000, retry_ms_max=30_000)


def connected(now: int = 0) -> Patience:
    patience = Patience(LIMITS)
    patience.on_connected(now)
    return patience


def test_a_ping_goes_out_into_silence_and_once() -> None:
    patience = connected()
    assert patience.deadline() == 1000
    assert patience.due(999) == []
    assert patience.due(1000) == [Due.PING]
    assert patience.due(1001) == []
    assert patience.deadline() == 2500


def test_silence_after_the_ping_is_death() -> None:
    patience = connected()
    patience.due(1000)
    assert patience.due(2499) == []
    assert patience.due(2500) == [Due.DEAD]


def test_any_word_is_a_sign_of_life() -> None:
    patience = connected()
    patience.due(1000)
    patience.on_heard(2400)
    assert patience.due(3399) == []
    assert patience.due(3400) == [Due.PING]


def test_a_pause_of_our_own_process_kills_no_connection() -> None:
    patience = connected()
    assert patience.due(60_000) == [Due.PING], "who is declared dead was pinged first"
    assert patience.due(61_499) == []
    assert patience.due(61_500) == [Due.DEAD]


def test_the_answer_to_a_bootstrap_has_its_own_time() -> None:
    patience = connected()
    patience.on_asked(0)
    for now in (900, 1800, 2700, 3600, 4500):
        patience.on_heard(now)
    assert patience.deadline() == 5000
    assert patience.due(4999) == []
    assert patience.due(5000) == [Due.UNANSWERED]
    patience.on_answered()
    assert patience.due(5000) == []


def test_a_wait_that_the_link_asked_for_suspends_only_that() -> None:
    patience = connected()
    patience.on_asked(0)
    patience.on_heard(4000)
    patience.on_wait(4000, 20_000)
    assert patience.waiting
    assert patience.due(5000) == [Due.PING], "the link must stay alive meanwhile"
    assert patience.due(6500) == [Due.DEAD]


def test_after_the_wait_the_device_goes_on() -> None:
    patience = connected()
    patience.on_wait(0, 50)
    assert patience.deadline() == 50
    assert patience.due(49) == []
    assert patience.due(50) == [Due.RESUME]
    assert not patience.waiting
    assert patience.due(51) == []


@pytest.mark.parametrize(("asked", "until"), [(-5, 1), (0, 1), (200, 200), (10**9, 30_000)])
def test_a_wait_has_a_least_and_a_most(asked: int, until: int) -> None:
    patience = connected()
    patience.on_wait(0, asked)
    for now in range(500, until, 500):
        patience.on_heard(now)
        assert patience.due(now) == []
    patience.on_heard(until - 1)
    assert patience.due(until - 1) == []
    assert patience.due(until) == [Due.RESUME]


def test_a_new_connection_starts_without_the_old_ones_waits() -> None:
    patience = connected()
    patience.on_asked(0)
    patience.on_wait(0, 20_000)
    patience.on_connected(100)
    assert not patience.waiting
    assert patience.due(1099) == []
    assert patience.due(1100) == [Due.PING]


words = st.sampled_from(["heard", "asked", "answered", "wait", "connected", "nothing"])


@settings(deadline=None)
@given(st.lists(st.tuples(words, st.integers(0, 3000)), max_size=30))
def test_nothing_is_ever_due_before_the_deadline(script: list[tuple[str, int]]) -> None:
    patience, now = connected(), 0
    for word, passed in script:
        deadline = patience.deadline()
        early = min(now + passed, deadline - 1)
        if early >= now:
            assert patience.due(early) == []
            now = early
        now = max(now, deadline)
        assert patience.due(now) != []
        if word == "wait":
            patience.on_wait(now, passed)
        elif word == "answered":
            patience.on_answered()
        elif word != "nothing":
            getattr(patience, f"on_{word}")(now)
        else:
            patience.on_connected(now)
