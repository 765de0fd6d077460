from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from octoloom.core.errors import OctoloomError
from tests.waiting import async_until, until, until_answered


@pytest.fixture
def later() -> Iterator[int]:
    return iter([0, 0, 7, 8])


def test_all_forms_return_the_first_true_value(later: Iterator[int]) -> None:
    async def answer() -> int:
        return next(later)

    assert until(lambda: next(later), pause_s=0) == 7
    assert asyncio.run(async_until(lambda: next(later))) == 8
    later = iter([0, 9])
    assert asyncio.run(until_answered(answer, pause_s=0)) == 9


def test_the_error_says_what_was_waited_for_and_what_was_seen() -> None:
    seen = ["ada", "bob"]
    with pytest.raises(AssertionError, match=r"waited 0\.01 s for a third; last: False\n  seen = \['ada', 'bob'\]"):
        until(lambda: len(seen) == 3, "a third", limit_s=0.01)


def test_without_words_the_line_itself_is_shown() -> None:
    nobody: list[str] = []
    with pytest.raises(AssertionError, match=r"for `asyncio\.run\(async_until\(lambda: nobody, .*last: \[\]"):
        asyncio.run(async_until(lambda: nobody, limit_s=0.01))


def test_our_own_errors_are_no_answer_yet_and_are_shown_in_the_end() -> None:
    async def fail() -> bool:
        raise OctoloomError("nobody is there")

    with pytest.raises(AssertionError, match=r"for somebody; last: OctoloomError.*nobody is there"):
        asyncio.run(until_answered(fail, "somebody", limit_s=0.01))
