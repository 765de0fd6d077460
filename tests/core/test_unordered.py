"""Without an order, what comes first is shown first."""

from __future__ import annotations

import random

import pytest

from octoloom.core.errors import ProtocolError
from octoloom.core.filters import TooManyHeld
from octoloom.core.steps import Step
from tests.core.order_world import Site, sites


def test_the_answer_shows_before_the_question() -> None:
    a, b, c = sites("none")
    question = a.send()
    b.take(question)
    answer = b.send()
    assert c.take(answer) == ["b1"]
    assert c.take(question) == ["a1"]
    assert answer.stamp == []


def test_every_cast_once_in_the_sequence_of_arrival() -> None:
    for seed in range(50):
        dice = random.Random(seed)
        a, b, c = sites("none", counts={"a": 5})
        casts = [dice.choice([a, b]).send() for _ in range(40)]
        dice.shuffle(casts)
        assert c.take(*casts) == [f"{cast.sender}{cast.number}" for cast in casts]
        for cast in casts:
            with pytest.raises(ProtocolError, match="old-number"):
                c.take(cast)
        assert len(c.delivered) == len(casts)
        assert (c.order.held, c.order.waits_for()) == (0, None)


def test_what_must_be_remembered_is_bounded() -> None:
    a = Site("none", "a")
    b = Site("none", "b", held_max=2)
    casts = [a.send() for _ in range(6)]
    assert b.take(casts[2], casts[4]) == ["a3", "a5"]
    with pytest.raises(TooManyHeld, match="a's cast 1 is missing"):
        b.take(casts[5])
    assert b.take(casts[0], casts[1], casts[5], casts[3]) == ["a1", "a2", "a6", "a4"]
    # The hole is closed, so there is room again.
    more = [a.send() for _ in range(3)]
    assert b.take(more[2], more[1], more[0]) == ["a9", "a8", "a7"]


def test_the_steps() -> None:
    told: list[Step] = []
    a, b = Site("none", "a"), Site("none", "b", step=told.append)
    first, second = a.send(), a.send()
    b.take(second, first)
    assert [
        (step.name.removeprefix("VectorTimeStampedMessage"), step.number, step.vector["a"]) for step in told[4:]
    ] == [
        ("Received", 2, 0),
        ("Delivered", 2, 0),
        ("Received", 1, 0),
        ("Delivered", 1, 2),
    ]
