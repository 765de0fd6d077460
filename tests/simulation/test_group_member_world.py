"""The search for a history in which a member of a consumer group breaks a promise; and the proof that it finds one."""

from __future__ import annotations

import pytest

from octoloom.simulation.group_member_world import simulate
from tests.simulation.planted_members import MEMBER_PLANTS

HISTORIES = 150
SHARE = 50
BOUND = 300
"""Within so many seeds a planted bug must be found."""


@pytest.mark.parametrize("first", range(0, HISTORIES, SHARE))
def test_no_history_breaks_a_promise(first: int) -> None:
    for seed in range(first, first + SHARE):
        simulate(seed)


@pytest.mark.parametrize("name", MEMBER_PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    with MEMBER_PLANTS[name]():
        for seed in range(BOUND):
            try:
                simulate(seed)
            except Exception:  # A broken promise, or a core that fell over.
                return
    pytest.fail(f"{name} went unnoticed through {BOUND} histories")


def test_histories_have_what_makes_them_hard() -> None:
    """Records that are done twice, commits that are refused: without these nothing is shown."""
    worlds = [simulate(seed) for seed in range(30)]
    assert sum(world.again for world in worlds) > 100
    assert sum(world.refused for world in worlds) > 10
    assert {world.start_at for world in worlds} == {"beginning", "end"}


def test_a_seed_is_a_history() -> None:
    first: list[str] = []
    second: list[str] = []
    simulate(11, first)
    simulate(11, second)
    assert first == second
    assert any("in generation" in line for line in first)
