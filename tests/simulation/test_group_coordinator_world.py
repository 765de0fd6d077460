"""The search for a history that breaks a promise of consumer groups; and the proof that it would find one."""

from __future__ import annotations

import pytest

from octoloom.simulation.group_coordinator_world import simulate
from tests.simulation.planted_consumers import GROUP_PLANTS

HISTORIES = 500
SHARE = 100
BOUND = 600
"""Within so many seeds a planted bug must be found."""
FIRST = {
    "place_taken_in_the_middle_of_a_round": 255,
    "expiry_swallows_a_commit": 145,
    "assignment_told_before_it_is_stored": 136,
    "refused_record_is_forgotten": 136,
    "snapshot_without_what_is_on_its_way": 52,
    "assignment_of_an_abandoned_round": 25,
}
"""Some bugs need rare company: the search for these begins shortly before a history that shows them."""


@pytest.mark.parametrize("first", range(0, HISTORIES, SHARE))
def test_no_history_breaks_a_promise(first: int) -> None:
    for seed in range(first, first + SHARE):
        simulate(seed)


@pytest.mark.parametrize("name", GROUP_PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    first = FIRST.get(name, 0)
    with GROUP_PLANTS[name]():
        for seed in range(first, first + BOUND):
            try:
                simulate(seed)
            except Exception:  # A broken promise, or a core that fell over.
                return
    pytest.fail(f"{name} went unnoticed through {BOUND} histories")


def test_a_seed_is_a_history() -> None:
    first: list[str] = []
    second: list[str] = []
    simulate(11, first)
    simulate(11, second)
    assert first == second
    assert any("in generation" in line for line in first)
