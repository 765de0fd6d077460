"""Placement: stable, even, and moving little."""

from __future__ import annotations

from collections import Counter

import pytest

from octoloom.core.errors import UsageError
from octoloom.core.placement import place

SPACES = [f"space-{i}" for i in range(4000)]


def test_the_answer_does_not_depend_on_the_order_of_the_chains() -> None:
    assert all(place(space, ["a", "b", "c"]) == place(space, ["c", "a", "b"]) for space in SPACES[:200])


def test_the_answer_is_the_same_in_every_process_and_version() -> None:
    assert [place(space, ["a", "b", "c"]) for space in ("lobby", "arena", "résumé", "")] == ["a", "b", "a", "b"]


def test_spaces_are_spread_evenly() -> None:
    counts = Counter(place(space, ["a", "b", "c", "d"]) for space in SPACES)
    assert all(850 <= counts[chain] <= 1150 for chain in "abcd")


def test_a_new_chain_takes_its_share_and_nothing_else_moves() -> None:
    before = {space: place(space, ["a", "b", "c"]) for space in SPACES}
    after = {space: place(space, ["a", "b", "c", "d"]) for space in SPACES}
    moved = [space for space in SPACES if before[space] != after[space]]
    assert all(after[space] == "d" for space in moved)
    assert 850 <= len(moved) <= 1150


def test_without_a_chain_there_is_no_place() -> None:
    with pytest.raises(UsageError, match="no chain"):
        place("lobby", [])
