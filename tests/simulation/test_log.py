"""The search for a history of the log that breaks a promise, in short; and the proof that it would find one.

`make simulate` is the long form.
"""

from __future__ import annotations

import pytest

from octoloom.simulation.search import transcript, try_seeds
from tests.simulation.planted_log import PLANTS

HISTORIES = 500
SHARE = 100
BOUND = 600
"""Within so many seeds a planted bug must be found."""
FIRST = {
    "old_leaders_are_heard": 3350,
    "joins_at_the_watermark": 1750,
    "damage_held_against_it": 1000,
    "anyone_may_join": 930,
    "stale_frames_acknowledged": 650,
    "version_not_compared": 200,
    "damage_not_heard": 60,
    "cut_at_the_watermark": 40,
    "empty_disk_is_trusted": 30,
    "dead_members_stay": 25,
}
"""Some bugs need rare company: the search for these begins shortly before a history that shows them."""


@pytest.mark.parametrize("first", range(0, HISTORIES, SHARE))
def test_no_history_breaks_a_promise(first: int) -> None:
    tried, found = try_seeds("log", range(first, first + SHARE))
    assert found is None
    assert tried == SHARE


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    first = FIRST.get(name, 0)
    with PLANTS[name]():
        _, found = try_seeds("log", range(first, first + BOUND))
    assert found is not None, f"{name} went unnoticed through {BOUND} histories"


def test_a_seed_is_a_history() -> None:
    assert transcript("log", 7) == transcript("log", 7)


def test_a_transcript_is_readable() -> None:
    lines, promise = transcript("log", 3)
    assert promise == ""
    assert any("leads ('moves', 0) in epoch 1" in line for line in lines)
    assert lines[-1].startswith(f"{lines[-1].split()[0]:>7} ms")
