"""Vectors against what they count: sets of (place, number)."""

from __future__ import annotations

from itertools import product

import pytest

from octoloom.core.errors import UsageError
from octoloom.core.vector_time import Relation, ahead, before, compare, concurrent, increment, merge, successor

VECTORS = [list(each) for each in product(range(3), repeat=3)]
PAIRS = list(product(VECTORS, VECTORS))


def counted(vector: list[int]) -> set[tuple[int, int]]:
    return {(place, number) for place, count in enumerate(vector) for number in range(1, count + 1)}


def test_a_vector_is_a_set_of_casts() -> None:
    for one, other in PAIRS:
        mine, theirs = counted(one), counted(other)
        assert before(one, other) is (mine < theirs)
        assert concurrent(one, other) is (not mine <= theirs and not theirs <= mine)
        assert (compare(one, other) is Relation.EQUAL) is (mine == theirs)
        assert (compare(one, other) is Relation.AFTER) is (mine > theirs)
        assert counted(merge(one, other)) == mine | theirs
        assert successor(one, other) is (theirs < mine and len(mine) == len(theirs) + 1)


def test_the_places_that_are_ahead() -> None:
    for one, other in PAIRS:
        places = [place for place in range(3) if one[place] > other[place]]
        for start in range(4):
            assert list(ahead(one, other, start)) == [place for place in places if place >= start]


def test_a_vector_has_a_successor_for_each_member() -> None:
    for vector in VECTORS:
        assert [other for other in VECTORS if successor(other, vector)] == sorted(
            increment(vector, place) for place in range(3) if vector[place] < 2
        )


def test_an_increment_is_a_copy() -> None:
    vector = [3, 1, 0]
    assert increment(vector, 1) == [3, 2, 0]
    assert vector == [3, 1, 0]
    merged = merge(vector, vector)
    assert merged == vector
    assert merged is not vector


@pytest.mark.parametrize("compared", [compare, before, concurrent, successor, merge])
def test_vectors_of_two_views_are_not_compared(compared: object) -> None:
    assert callable(compared)
    with pytest.raises(UsageError, match="vectors of 1 and of 2 members"):
        compared([1], [1, 2])
