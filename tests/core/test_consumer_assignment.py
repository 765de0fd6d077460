"""Partitions divided among the members of a consumer group."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.consumer_assignment import STRATEGIES, Strategy, ranges, round_robin

each_strategy = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
topics = st.sampled_from(["a", "b", "c"])
members = st.dictionaries(st.text(min_size=1, max_size=3), st.lists(topics, max_size=4), min_size=1, max_size=6)
sizes = st.dictionaries(topics, st.integers(0, 12))


def test_neighbours_stay_together() -> None:
    assert ranges({"eve": ["a"], "ada": ["a"]}, {"a": 5}) == {"ada": {"a": [0, 1, 2]}, "eve": {"a": [3, 4]}}
    assert ranges({"eve": ["a", "b"], "ada": ["b"]}, {"a": 2, "b": 1}) == {"eve": {"a": [0, 1]}, "ada": {"b": [0]}}


def test_partitions_are_dealt_out_in_turn_over_all_topics() -> None:
    assert round_robin({"eve": ["a", "b"], "ada": ["b", "a"]}, {"a": 3, "b": 3}) == {
        "ada": {"a": [0, 2], "b": [1]},
        "eve": {"a": [1], "b": [0, 2]},
    }
    assert round_robin({"eve": ["b"], "ada": ["a"]}, {"a": 2, "b": 1}) == {"ada": {"a": [0, 1]}, "eve": {"b": [0]}}


@each_strategy
@given(members, sizes)
def test_every_partition_that_somebody_wants_goes_to_one_who_wants_it(
    strategy: Strategy, members: dict[str, list[str]], sizes: dict[str, int]
) -> None:
    assigned = strategy(members, sizes)
    assert assigned.keys() == members.keys()
    given_out = [(topic, number) for places in assigned.values() for topic in places for number in places[topic]]
    wanted = {topic for names in members.values() for topic in names}
    assert sorted(given_out) == [(topic, number) for topic in sorted(wanted) for number in range(sizes.get(topic, 0))]
    for member, places in assigned.items():
        assert places.keys() <= set(members[member])
        assert all(places.values())


@each_strategy
@given(st.sets(st.text(min_size=1, max_size=3), min_size=1, max_size=6), sizes)
def test_who_wants_the_same_gets_as_much(strategy: Strategy, members: set[str], sizes: dict[str, int]) -> None:
    assigned = strategy(dict.fromkeys(members, sizes), sizes)
    for topic in sizes:
        shares = [len(places.get(topic, [])) for places in assigned.values()]
        assert max(shares) - min(shares) <= 1
