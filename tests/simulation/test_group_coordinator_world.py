"""The search for a history that breaks a promise of consumer groups; and the proof that it would find one."""

from __future__ import annotations

import pytest

from octoloom.simulation.group_coordinator_world import simulate
from tests.simulation.planted_consumers import GROUP_PLANTS

HISTORIES = 500
SHARE = 100
BOUND = 600
"""Within so many seeds a planted bug must be found."""


@pytest.mark.parametrize("first", range(0, HISTORIES, SHARE))
def test_no_history_breaks_a_promise(first: int) -> None:
    for seed in range(first, first + SHARE):
        simulate(seed)


@pytest.mark.parametrize("name", GROUP_PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    with GROUP_PLANTS[name]():
        for seed in range(BOUND):
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
