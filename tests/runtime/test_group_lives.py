from __future__ import annotations

import pytest

from octoloom.runtime.group_lives import Ended, Life, longest_pause_ms
from tests.runtime.group_story import ADA, BOB, heard, total


def test_a_stream_is_all_that_others_must_have_too() -> None:
    bob, eve = total()[1:3]
    assert bob.stream() == eve.stream()
    assert len(bob.stream()) == 9
    times = [(index, line.at_ms) for index, line in enumerate(bob.lines)]
    assert bob.stream()[0] == (ADA, 1), times
    bob.lines.append(Ended(99, 2, [], "it was slow"))
    assert bob.stream() == eve.stream()
    assert len(bob.heard) == 7


@pytest.mark.parametrize(("since", "until", "pause"), [(0, 100, 47), (0, 20, 1), (30, 40, 47), (62, 100, 0)])
def test_a_pause_belongs_to_the_time_that_its_middle_lies_in(since: float, until: float, pause: float) -> None:
    """There is a message at 13 and the next at 60: the middle is between 36 and 37."""
    assert longest_pause_ms(total()[1:3], since, until) == pause


def test_the_longest_pause_of_anybody_counts() -> None:
    slow = Life(BOB, founded=True, lines=[heard(0, ADA, 1), heard(90, ADA, 2)])
    assert longest_pause_ms([*total(), slow], 0, 100) == 90
    assert longest_pause_ms([], 0, 100) == 0
