"""What all orders do alike: count, hold, wake and refuse."""

from __future__ import annotations

import pytest

from octoloom.core.errors import ProtocolError
from octoloom.core.fifo import Fifo
from octoloom.core.filters import HELD_MAX, OrderContext, TooManyHeld
from octoloom.core.group_messages import Cast
from octoloom.core.steps import Step
from tests.core.order_world import Site, sites

ORDERS = ["none", "fifo", "causal", "history", "scalar", "last-sender"]
HOLDING = [order for order in ORDERS if order != "none"]


@pytest.mark.parametrize("order", ORDERS)
def test_who_is_no_member_and_what_is_old_is_refused_and_changes_nothing(order: str) -> None:
    a, b, c = sites(order, counts={"a": 4, "b": 2, "c": 9})
    first, second = a.send(), a.send()
    own = c.send()
    stranger = Cast(1, "x", 1, [], first.stamp)
    for cast, code in [
        (stranger, "not-a-member"),
        (Cast(1, "a", 4, [], first.stamp), "old-number"),
        (Cast(1, "b", 0, [], first.stamp), "old-number"),
        (Cast(1, "b", -1, [], first.stamp), "old-number"),
        (own, "old-number"),
        (Cast(1, "c", 11, [], own.stamp), "own-cast"),
    ]:
        with pytest.raises(ProtocolError) as caught:
            c.take(cast)
        assert caught.value.code == code
        assert (c.order.held, c.order.waits_for(), c.delivered) == (0, None, [])
    assert sorted(c.take(second, first)) == ["a5", "a6"]
    for cast in (first, second):
        with pytest.raises(ProtocolError, match="old-number"):
            c.take(cast)
    assert len(c.delivered) == 2
    assert b.take(first, second) == ["a5", "a6"]


@pytest.mark.parametrize("order", HOLDING)
def test_what_is_held_already_is_old_too(order: str) -> None:
    a, b, _ = sites(order)
    first, second = a.send(), a.send()
    assert b.take(second) == []
    with pytest.raises(ProtocolError, match="old-number"):
        b.take(second)
    assert b.order.held == 1
    assert b.take(first) == ["a1", "a2"]


@pytest.mark.parametrize("order", HOLDING)
def test_a_full_buffer_says_what_it_waits_for_and_takes_what_is_next(order: str) -> None:
    a, b, c = sites(order, held_max=3)
    casts = [a.send() for _ in range(6)]
    assert c.take(*casts[1:4]) == []
    with pytest.raises(TooManyHeld, match=r"3 casts are held back: the oldest waits for cast 1 of (a|anybody)"):
        c.take(casts[4])
    # A refusal leaves no trace: once there is room, the same cast is taken.
    assert c.order.held == 3
    assert c.take(casts[0]) == ["a1", "a2", "a3", "a4"]
    assert c.take(casts[5], casts[4]) == ["a5", "a6"]
    assert b.take(*casts) == [f"a{number}" for number in range(1, 7)]


def test_the_bound_and_a_chain_as_long_as_it() -> None:
    """So many are woken one by another without recursion."""
    a, b, _ = sites("fifo")
    casts = [a.send() for _ in range(HELD_MAX + 2)]
    assert b.take(*casts[-1:1:-1]) == []
    assert b.order.held == HELD_MAX
    with pytest.raises(TooManyHeld):
        b.take(casts[1])
    assert len(b.take(casts[0])) == 1
    assert len(b.take(casts[1])) == HELD_MAX + 1
    assert b.order.held == 0


@pytest.mark.parametrize("order", HOLDING)
def test_the_oldest_held_is_the_one_that_counts(order: str) -> None:
    a, b, c = sites(order)
    one, two = a.send(), a.send()
    other, another = b.send(), b.send()
    c.take(another, two)
    assert c.order.waits_for() == (("anybody", 1) if order == "scalar" else ("b", 1))
    c.take(other)
    assert c.order.waits_for() == ("a", 1)
    c.take(one)
    assert c.order.waits_for() is None
    assert (c.order.held, len(c.delivered)) == (0, 4)


@pytest.mark.parametrize("order", HOLDING)
def test_plain_casts_are_counted_in_their_turn(order: str) -> None:
    a, b, _ = sites(order)
    plain, answer = a.send(plain=True), a.send()
    assert b.take(answer) == []
    assert b.take(plain) == ["a1", "a2"]
    assert [delivery.cast.plain for delivery in b.delivered] == [True, False]


@pytest.mark.parametrize("order", ORDERS)
def test_a_member_alone(order: str) -> None:
    alone = Site(order, "a", "a")
    assert [alone.send().number for _ in range(3)] == [1, 2, 3]
    assert alone.delivered == []


@pytest.mark.parametrize("order", ORDERS)
def test_one_s_own_casts_come_in_sequence(order: str) -> None:
    a = Site(order, "a")
    for wrong in (Cast(1, "a", 2, []), Cast(1, "b", 1, [])):
        with pytest.raises(AssertionError, match="in sequence"):
            a.order.send.filter(wrong)
    assert a.send().number == 1


def test_a_filter_that_leads_nowhere_is_noticed() -> None:
    alone = Fifo(OrderContext("a", ["a"], {}))
    with pytest.raises(AssertionError, match="a filter without a processor hands on Cast"):
        alone.send.filter(Cast(1, "a", 1, []))


@pytest.mark.parametrize("order", HOLDING)
def test_the_steps_of_a_cast_that_waits(order: str) -> None:
    told: list[Step] = []
    a, b = Site(order, "a", "ab", {"b": 7}), Site(order, "b", "ab", {"b": 7}, told.append)
    first, second = a.send(), a.send()
    b.take(second, first)
    b.send()
    names = [step.name for step in told]
    assert names == [
        "VectorTimeStampCreated",
        "UserAddedToVectorTimeStamp",
        "UserAddedToVectorTimeStamp",
        "VectorTimeStampedMessageReceived",
        "VectorTimeStampedMessageBuffered",
        "VectorTimeStampedMessageReceived",
        "VectorTimeStampedMessageDelivered",
        "VectorTimeStampedMessageRemovedFromBuffer",
        "VectorTimeStampedMessageDelivered",
        "LocalCountIncrementedInSiteVectorTimeStamp",
        "VectorTimeStampedMessageSent",
    ]
    assert [(step.sender, step.vector) for step in told[1:3]] == [("a", {"a": 0}), ("b", {"a": 0, "b": 7})]
    assert told[4].waits_for == (("anybody", 1) if order == "scalar" else ("a", 1))
    assert [(step.sender, step.number, step.vector) for step in told[6:]] == [
        ("a", 1, {"a": 1, "b": 7}),
        ("a", 2, {"a": 1, "b": 7}),
        ("a", 2, {"a": 2, "b": 7}),
        ("b", 8, {"a": 2, "b": 8}),
        ("b", 8, {"a": 2, "b": 8}),
    ]


@pytest.mark.parametrize("order", ["fifo", "causal"])
def test_an_order_goes_on_from_its_snapshot(order: str) -> None:
    a, b, _ = sites(order)
    casts = [a.send() for _ in range(3)]
    b.take(*casts)
    casts += [b.send(), b.send()]
    arrival = [casts[4], casts[2], casts[0], casts[3], casts[1]]
    for cut in range(len(arrival) + 1):
        first, second = Site(order, "c"), Site(order, "c")
        first.take(*arrival[:cut])
        snapshot = first.order.snapshot()  # type: ignore[attr-defined]
        second.order.restore(*snapshot)  # type: ignore[attr-defined]
        assert second.order.snapshot() == snapshot  # type: ignore[attr-defined]
        assert second.order.waits_for() == first.order.waits_for()
        second.take(*arrival[cut:])
        assert first.delivered + second.delivered == _delivered(order, arrival)


def _delivered(order: str, arrival: list[Cast]) -> list[object]:
    site = Site(order, "c")
    site.take(*arrival)
    return list(site.delivered)
