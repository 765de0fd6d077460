"""Vector time: how many casts of each member lie in the past of a moment.

A vector has one count for each member of a view, in the view's order. The vector of a cast counts the cast itself and
all that its sender had delivered or sent before; so one vector lies before another exactly if the one cast is among the
causes of the other, and if neither lies before the other then they are concurrent. This is a partial order: a vector
says nothing about which of two concurrent casts came first, because nobody could know.

The loops over members run in C (`map`, `compress`): a group may have hundreds of members and each cast is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import compress
from operator import gt

from octoloom.core.errors import UsageError

Vector = Sequence[int]


class Relation(Enum):
    EQUAL = "equal"
    BEFORE = "before"
    AFTER = "after"
    CONCURRENT = "concurrent"


def ahead(one: Vector, other: Vector, start: int = 0) -> Iterator[int]:
    """The places from `start` on where `one` counts more than `other`. Both have the same size: see `same_size`."""
    if start:
        return compress(range(start, len(one)), map(gt, one[start:], other[start:]))
    return compress(range(len(one)), map(gt, one, other))


def compare(one: Vector, other: Vector) -> Relation:
    same_size(one, other)
    more, less = any(map(gt, one, other)), any(map(gt, other, one))
    if more and less:
        return Relation.CONCURRENT
    if more or less:
        return Relation.AFTER if more else Relation.BEFORE
    return Relation.EQUAL


def before(one: Vector, other: Vector) -> bool:
    """Is all that `one` counts in `other` too, and more?"""
    return compare(one, other) is Relation.BEFORE


def concurrent(one: Vector, other: Vector) -> bool:
    return compare(one, other) is Relation.CONCURRENT


def successor(one: Vector, other: Vector) -> bool:
    """Is `one` the same as `other` but for a single cast more? A vector has one successor for each member.

    As a test for delivery it is too strict: the vector of a cast whose sender had not seen all that was delivered here
    never becomes a successor, so that the cast would be held for ever.
    """
    same_size(one, other)
    places = list(ahead(one, other))
    return len(places) == 1 and one[places[0]] == other[places[0]] + 1 and sum(one) == sum(other) + 1


def increment(vector: Vector, place: int) -> list[int]:
    """A copy with one cast more of the member at `place`."""
    return [*vector[:place], vector[place] + 1, *vector[place + 1 :]]


def merge(one: Vector, other: Vector) -> list[int]:
    """The smallest vector that counts all that either counts."""
    same_size(one, other)
    return list(map(max, one, other))


def same_size(one: Vector, other: Vector) -> None:
    if len(one) != len(other):
        raise UsageError(f"vectors of {len(one)} and of {len(other)} members: compare only vectors of one view")
