"""Causal order on what two people really typed: 26,078 transactions, more than a hundred thousand concurrent pairs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from octoloom.core.causal import Causal
from octoloom.core.filters import Delivery, OrderContext
from octoloom.core.group_messages import Cast
from tests.typing_trace import HOSTILE, READER, TYPISTS, trace

MEMBERS = [*TYPISTS, READER]


@cache
def concurrent_pairs() -> frozenset[tuple[int, int]]:
    """By the parents alone: (lower index, higher index) of all of which neither is an ancestor of the other.

    The ancestors of a transaction are the bits of a number. Parents stand before their children in the file.
    """
    ancestors: list[int] = []
    pairs = []
    for index, transaction in enumerate(trace().transactions):
        mine = 0
        for parent in transaction.parents:
            mine |= ancestors[parent] | 1 << parent
        ancestors.append(mine)
        others = ~mine & ((1 << index) - 1)
        while others:
            lowest = others & -others
            pairs.append((lowest.bit_length() - 1, index))
            others ^= lowest
    return frozenset(pairs)


@cache
def casts() -> list[Cast]:
    return [
        Cast(1, TYPISTS[transaction.agent], vector[transaction.agent], [], [*vector, 0])
        for transaction, vector in zip(trace().transactions, trace().vectors, strict=True)
    ]


def index_of(member: str, number: int) -> int:
    return trace().by_number[TYPISTS.index(member), number]


def filters(me: str, deliver: Callable[[Delivery], None], send: Callable[[Cast], None] = print) -> Causal:
    order = Causal(OrderContext(me, MEMBERS, {}))
    order.receive.processor, order.send.processor = deliver, send
    return order


def test_the_trace_is_what_it_is_said_to_be() -> None:
    assert len(casts()) == 26_078
    assert len(concurrent_pairs()) == 129_331


@pytest.mark.parametrize("hostile", HOSTILE)
def test_the_trace_arrives_in_causal_order_with_exactly_its_concurrent_pairs(
    hostile: Callable[[list[Cast]], list[Cast]],
) -> None:
    deliveries: list[Delivery] = []
    order = filters(READER, deliveries.append)
    held_most = 0
    for cast in hostile(casts()):
        order.receive.filter(cast)
        held_most = max(held_most, order.held)
    assert held_most > 100, "this was no hostile sequence"
    assert (order.held, order.waits_for(), len(deliveries)) == (0, None, 26_078)

    arrived = bytearray(26_078)
    reported: list[tuple[int, int]] = []
    for delivery in deliveries:
        index = index_of(delivery.cast.sender, delivery.cast.number)
        assert all(arrived[parent] for parent in trace().transactions[index].parents)
        assert not arrived[index]
        arrived[index] = True
        for member, first, last in delivery.concurrent:
            others = [index_of(member, number) for number in range(first, last + 1)]
            reported += [(min(index, other), max(index, other)) for other in others]
    assert len(reported) == len(concurrent_pairs()), "no pair is reported twice"
    assert set(reported) == concurrent_pairs()


def test_the_typists_own_filters_give_the_stamps_that_the_parents_imply() -> None:
    """And each typist is told of what it typed itself without having seen the other's: these are all the pairs."""
    sent: list[Cast] = []
    deliveries: list[list[Delivery]] = [[], []]
    typists = [filters(me, deliveries[agent].append, sent.append) for agent, me in enumerate(TYPISTS)]
    seen = [0, 0]
    for transaction, vector in zip(trace().transactions, trace().vectors, strict=True):
        me, other = transaction.agent, 1 - transaction.agent
        catch_up(typists[me], other, seen[me], vector[other])
        seen[me] = vector[other]
        typists[me].send.filter(Cast(1, TYPISTS[me], vector[me], []))
    assert [cast.stamp for cast in sent] == [cast.stamp for cast in casts()]
    for me, other in ((0, 1), (1, 0)):
        total = sum(transaction.agent == other for transaction in trace().transactions)
        catch_up(typists[me], other, seen[me], total)
        pairs = [
            tuple(sorted((index_of(each.cast.sender, each.cast.number), index_of(member, number))))
            for each in deliveries[me]
            for member, first, last in each.concurrent
            for number in range(first, last + 1)
        ]
        assert len(pairs) == len(concurrent_pairs())
        assert set(pairs) == concurrent_pairs()


def catch_up(typist: Causal, other: int, start: int, end: int) -> None:
    for number in range(start + 1, end + 1):
        typist.receive.filter(casts()[trace().by_number[other, number]])
