"""The parts of total order: the coordinator's casts in sequence, what it admits, and what a sender keeps."""

from __future__ import annotations

import random

import pytest

from octoloom.core import sequencer
from octoloom.core.errors import ProtocolError
from octoloom.core.filters import HELD_MAX, OrderContext, TooManyHeld, orders
from octoloom.core.group_messages import Bundle, Cast
from octoloom.core.sequencer import Admission, CoordinatorFirst, ForwardTable


def cast(number: int, sender: str = "A", plain: bool = False) -> Cast:
    return Cast(1, sender, number, [], plain=plain)


def first(count: int = 0) -> tuple[CoordinatorFirst, list[int]]:
    order = CoordinatorFirst("A", count)
    delivered: list[int] = []
    order.processor = lambda delivery: delivered.append(delivery.cast.number)
    return order, delivered


def bundle(number: int, origin: str = "B", payload: bytes = b"x") -> Bundle:
    return Bundle(origin, number, 1, payload)


def test_the_coordinators_casts_come_in_sequence_and_as_soon_as_they_may() -> None:
    for seed in range(200):
        dice = random.Random(seed)
        begin = dice.choice([0, 7])
        order, delivered = first(begin)
        numbers = [begin + 1 + at for at in range(20)]
        arrived: set[int] = set()
        for number in dice.sample(numbers, len(numbers)):
            order.filter(cast(number))
            arrived.add(number)
            ready = next(at for at in range(21) if begin + 1 + at not in arrived)
            assert delivered == numbers[:ready]
            assert order.held == len(arrived) - ready
            assert order.waits_for() == (("A", begin + 1 + ready) if order.held else None)
        assert delivered == numbers


def test_other_members_cast_what_is_plain_and_nothing_else() -> None:
    order, delivered = first()
    order.filter(cast(5, "B", plain=True))
    assert delivered == [5]
    with pytest.raises(ProtocolError, match="not-coordinator: B casts, A is coordinator"):
        order.filter(cast(1, "B"))
    assert delivered == [5]
    assert order.held == 0


def test_what_was_delivered_does_not_come_again() -> None:
    order, delivered = first(3)
    order.filter(cast(4))
    for number in (4, 3, 0, -1):
        with pytest.raises(ProtocolError, match="old-number"):
            order.filter(cast(number))
    assert delivered == [4]


def test_it_holds_only_so_many_and_the_one_that_they_wait_for_always_gets_in() -> None:
    order, delivered = first()
    for number in range(2, HELD_MAX + 2):
        order.filter(cast(number))
    with pytest.raises(TooManyHeld, match="wait for A:1"):
        order.filter(cast(HELD_MAX + 2))
    assert order.held == HELD_MAX
    order.filter(cast(1))
    assert order.held == 0
    assert len(delivered) == HELD_MAX + 1


def test_the_order_begins_at_the_coordinators_count() -> None:
    assert "total" in orders
    pair = sequencer.TotalOrder(OrderContext("B", ["A", "B"], {"A": 4, "B": 9}))
    delivered: list[int] = []
    pair.receive.processor = lambda delivery: delivered.append(delivery.cast.number)
    pair.receive.filter(cast(6))
    assert (pair.held, pair.waits_for()) == (1, ("A", 5))
    pair.receive.filter(cast(5))
    assert delivered == [5, 6]


# Admission.


def test_an_origins_bundles_are_admitted_once_and_in_sequence() -> None:
    for seed in range(100):
        dice = random.Random(seed)
        begin = dice.choice([0, 3])
        admission = Admission({"B": begin})
        admitted: list[int] = []
        while len(admitted) < 20:
            # A sender that sends again begins anywhere before what is next, and has no gap.
            start = dice.randint(1, begin + len(admitted) + 1)
            numbers = range(start, start + dice.randint(1, 8))
            admitted += [each.number for each in admission.admit("B", [bundle(number) for number in numbers])]
            assert admitted == list(range(begin + 1, begin + 1 + len(admitted)))


def test_origins_do_not_touch_each_other() -> None:
    admission = Admission({"B": 2, "C": 0})
    assert admission.admit("C", [bundle(1, "C")]) == [bundle(1, "C")]
    assert admission.admit("B", [bundle(2), bundle(3)]) == [bundle(3)]
    assert admission.admit("D", [bundle(1, "D")]) == [bundle(1, "D")], "nobody has heard of it yet"


@pytest.mark.parametrize(
    "bundles",
    [[bundle(3)], [bundle(2), bundle(4)], [bundle(2), bundle(2)], [bundle(2, "C")], [bundle(2), bundle(3, "C")]],
)
def test_a_gap_or_a_foreign_origin_and_none_is_taken(bundles: list[Bundle]) -> None:
    admission = Admission({"B": 1})
    with pytest.raises(ProtocolError, match="forged-sequence: B forwarded"):
        admission.admit("B", bundles)
    assert admission.admit("B", [bundle(2)]) == [bundle(2)]


def test_the_received_table_that_it_begins_with_is_not_shared() -> None:
    received = {"B": 1}
    Admission(received).admit("B", [bundle(2)])
    assert received == {"B": 1}


# The forward-table.


def test_the_forward_table_keeps_what_has_not_come_back_in_order() -> None:
    table = ForwardTable()
    for number in range(1, 6):
        table.add(bundle(number, payload=b"x" * number))
    table.remove(2)
    table.remove(2)
    table.remove(99)
    assert [each.number for each in table.bundles()] == [1, 3, 4, 5]
    assert (len(table), table.size) == (4, 13)
    assert [each.number for each in table.take_all()] == [1, 3, 4, 5]
    assert (len(table), table.size, table.bundles()) == (0, 0, [])
