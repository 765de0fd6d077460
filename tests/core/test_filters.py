"""The pipeline: filters joined to a chain, made by factories that are found by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from octoloom.core.errors import UsageError
from octoloom.core.filters import (
    FilterFactory,
    Forwarder,
    MessageFilters,
    ReceivedMessage,
    Registry,
    SentMessage,
    UnknownFilter,
    chain,
    orders,
)
from tests.core import order_world


class Doubler:
    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.processor: Callable[[str], None] = print

    def filter(self, message: str) -> None:
        self.processor(message + self.mark)
        self.processor(message + self.mark.upper())


def test_a_chain_passes_first_to_last() -> None:
    out: list[str] = []
    into = chain([Doubler("a"), Forwarder[str](), Doubler("b")], out.append)
    into("x")
    assert out == ["xab", "xaB", "xAb", "xAB"]


def test_a_chain_of_nothing_is_its_end() -> None:
    out: list[str] = []
    chain([], out.append)("x")
    assert out == ["x"]


def test_a_forwarder_without_a_processor_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="without a processor"):
        Forwarder[str]().filter("x")


def test_the_two_of_a_pair_share_state_through_their_factory() -> None:
    """Everything that a member sends is counted, and what it receives says how many of its own were out by then."""
    registry: Registry[FilterFactory] = Registry("filter")

    class Counting:
        def __init__(self) -> None:
            self.sent = 0
            self.out = Forwarder[SentMessage]()
            self.into = Forwarder[ReceivedMessage]()

    class Out(Forwarder[SentMessage]):
        def __init__(self, shared: Counting) -> None:
            super().__init__()
            self.shared = shared

        def filter(self, message: SentMessage) -> None:
            self.shared.sent += 1
            self.processor(message)

    class Into(Forwarder[ReceivedMessage]):
        def __init__(self, shared: Counting) -> None:
            super().__init__()
            self.shared = shared

        def filter(self, message: ReceivedMessage) -> None:
            self.processor(ReceivedMessage(message.sender, (message.body, self.shared.sent)))

    def counting(member: str) -> MessageFilters:
        shared = Counting()
        return MessageFilters(Out(shared), Into(shared))

    registry.add("counting", counting)
    pair, other = registry.find("counting")("ada"), registry.find("counting")("bob")
    received: list[ReceivedMessage] = []
    sent: list[SentMessage] = []
    pair.send.processor, pair.receive.processor = sent.append, received.append
    other.receive.processor = received.append
    pair.send.filter(SentMessage("x"))
    pair.send.filter(SentMessage("y"))
    pair.receive.filter(ReceivedMessage("bob", "z"))
    other.receive.filter(ReceivedMessage("ada", "x"))
    assert [message.body for message in received] == [("z", 2), ("x", 0)]
    assert [message.body for message in sent] == ["x", "y"]


def test_an_unknown_name_is_refused_with_those_that_there_are() -> None:
    registry: Registry[int] = Registry("order")
    registry.add("one", 1)
    registry.add("two", 2)
    assert list(registry) == ["one", "two"]
    with pytest.raises(UnknownFilter, match="there is no order called 'three': use one of one, two"):
        registry.find("three")


@pytest.mark.parametrize("name", ["one", ""])
def test_a_name_has_one_meaning(name: str) -> None:
    registry: Registry[int] = Registry("order")
    registry.add("one", 1)
    with pytest.raises(UsageError, match="choose another name"):
        registry.add(name, 2)
    assert registry.find("one") == 1


def test_the_orders_are_known_by_name() -> None:
    for name in ("none", "fifo", "causal", "history", "scalar", "last-sender"):
        assert order_world.Site(name, "a").order.held == 0
    assert {"none", "fifo", "causal"} <= set(orders)
