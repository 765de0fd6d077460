"""Pauses that grow up to a limit, each a little different."""

from __future__ import annotations

from octoloom.runtime.backoff import Backoff


def test_pauses_double_up_to_the_limit_and_start_again() -> None:
    backoff = Backoff(first_ms=10, max_ms=50)
    for limit_ms in (10, 20, 40, 50, 50):
        assert limit_ms / 2 <= backoff.next_s() * 1000 <= limit_ms
    backoff.reset()
    assert backoff.next_s() * 1000 <= 10


def test_no_two_wait_in_step() -> None:
    assert len({Backoff().next_s() for _ in range(20)}) > 10
