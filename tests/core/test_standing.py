"""What a broker may say of topics, by its own clock."""

from __future__ import annotations

from octoloom.core.standing import DIAL_TRIES, TRIES_MAX, Standing

LEASE_MS = 1000
MINE_MS = 900
"""Less the margin."""


def heard(at: int = 0) -> Standing:
    standing = Standing()
    standing.on_heard(at, LEASE_MS)
    return standing


def test_who_has_heard_nothing_knows_nothing() -> None:
    assert not Standing().may_speak(0)
    standing = Standing()
    for now in range(0, 100_000, 100):
        standing.on_try(now)
    assert not standing.may_speak(100_000)


def test_the_lease_runs_from_the_beat_and_not_from_its_answer() -> None:
    standing = heard(100)
    assert standing.informed(100 + MINE_MS - 1)
    assert not standing.informed(100 + MINE_MS)
    assert not standing.may_speak(100 + MINE_MS)


def test_an_older_answer_takes_nothing_back() -> None:
    standing = heard(500)
    standing.on_heard(100, LEASE_MS)
    assert standing.informed(500 + MINE_MS - 1)


def test_when_the_connection_ends_it_is_not_informed_until_it_is_heard_again() -> None:
    standing = heard()
    standing.on_lost()
    assert not standing.may_speak(1)
    standing.on_heard(20, LEASE_MS)
    assert standing.may_speak(21)


def test_who_tries_again_and_again_in_vain_is_alone_and_speaks_for_a_lease() -> None:
    standing = heard()
    standing.on_lost()
    for now in range(TRIES_MAX):
        standing.on_try(now)
        assert not standing.may_speak(now)
    standing.on_try(TRIES_MAX)
    assert standing.may_speak(TRIES_MAX)
    assert not standing.informed(TRIES_MAX)
    assert standing.may_speak(TRIES_MAX + MINE_MS - 1)
    assert not standing.may_speak(TRIES_MAX + MINE_MS)


def test_dials_count_for_more() -> None:
    standing = heard()
    standing.on_lost()
    for now in range(TRIES_MAX // DIAL_TRIES + 1):
        assert not standing.may_speak(now)
        standing.on_try(now, DIAL_TRIES)
    assert standing.may_speak(TRIES_MAX)


def test_who_was_alone_and_is_heard_is_informed_and_no_more_than_that() -> None:
    standing = heard()
    for now in range(TRIES_MAX + 1):
        standing.on_try(now)
    standing.on_heard(TRIES_MAX, LEASE_MS)
    standing.on_lost()
    assert not standing.may_speak(TRIES_MAX + 1)


def test_who_slept_begins_to_try_anew() -> None:
    standing = heard()
    for now in range(TRIES_MAX + 1):
        standing.on_try(now)
    woken = 100_000
    assert not standing.may_speak(woken)
    standing.on_try(woken)
    assert not standing.may_speak(woken)
