"""Each sender in its own sequence, and no more than that."""

from __future__ import annotations

import random

from tests.core.order_world import sites


def test_the_casts_of_each_sender_come_in_sequence_and_as_soon_as_they_may() -> None:
    for seed in range(300):
        dice = random.Random(seed)
        a, b, c = sites("fifo", counts={"b": 3})
        casts = [dice.choice([a, b]).send() for _ in range(30)]
        dice.shuffle(casts)
        arrived: list[tuple[str, int]] = []
        for cast in casts:
            arrived.append((cast.sender, cast.number))
            c.take(cast)
            for sender, begin in (("a", 0), ("b", 3)):
                numbers = [number for member, number in c.ids() if member == sender]
                assert numbers == list(range(begin + 1, begin + 1 + len(numbers)))
                # The next one, if it is not there, has not arrived.
                assert (sender, begin + 1 + len(numbers)) not in arrived
            assert c.order.held == len(arrived) - len(c.delivered)
        assert len(c.delivered) == 30


def test_an_answer_may_come_before_its_question() -> None:
    a, b, c = sites("fifo")
    question = a.send()
    b.take(question)
    assert c.take(b.send(), question) == ["b1", "a1"]
    assert question.stamp == []
