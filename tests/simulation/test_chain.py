"""The search for a history that breaks a promise, in short; and the proof that it would find one.

`make simulate` is the long form.
"""

from __future__ import annotations

import pytest

from octoloom.simulation.search import transcript, try_seeds
from tests.simulation.planted import PLANTS

HISTORIES = 500
"""Of the 100,000 of `make simulate`. Most of what they find, they find among the first."""
SHARE = 100
BOUND = 600
"""Within so many seeds a planted bug must be found."""
FIRST = {
    "busy_overtakes_the_welcome": 31_001_030,
    "snapshot_drops_newer_events": 3600,
    "generation_begins_without_a_start": 970,
    "epoch_not_checked": 620,
    "no_way_back": 510,
    "newcomer_lacks_consumed_events": 340,
    "left_out_links_forget_too_soon": 258,
    "view_serves_before_it_is_in_force": 190,
    "deferred_events_not_restored": 192,
    "fenced_at_the_end_of_the_turn": 82,
    "sketch_less_than": 55,
    "told_before_it_is_journaled": 97,
    "outcomes_told_early": 97,
    "lagging_device_loses_outcomes": 90,
    "zombie_serves_the_past": 56,
    "kills_before_events": 46,
    "reused_number_reported_as_resent": 35,
    "older_copy_sends_its_queue": 33,
    "learner_counts_as_whole": 26,
}
"""Some bugs need rare company: the search for these begins shortly before a history that shows them."""


@pytest.mark.parametrize("first", range(0, HISTORIES, SHARE))
def test_no_history_breaks_a_promise(first: int) -> None:
    tried, found = try_seeds("chain", range(first, first + SHARE))
    assert found is None
    assert tried == SHARE


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    first = FIRST.get(name, 0)
    with PLANTS[name]():
        _, found = try_seeds("chain", range(first, first + BOUND))
    assert found is not None, f"{name} went unnoticed through {BOUND} histories"


def test_a_seed_is_a_history() -> None:
    assert transcript("chain", 7) == transcript("chain", 7)


def test_a_transcript_is_readable() -> None:
    lines, promise = transcript("chain", 3)
    assert promise == ""
    assert any("epoch 1" in line for line in lines)
    assert lines[-1].startswith(f"{lines[-1].split()[0]:>7} ms")
