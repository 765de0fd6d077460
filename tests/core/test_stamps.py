"""The simpler stamps: that they work, and where each of them fails."""

from __future__ import annotations

import pytest

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.group_messages import Cast
from octoloom.core.stamps import HISTORY_MAX
from octoloom.core.steps import Step
from tests.core.order_world import Run, Site, id_of, sites

SIMPLE = ["history", "scalar", "last-sender"]


@pytest.mark.parametrize("order", SIMPLE)
def test_each_keeps_the_lunch_example(order: str) -> None:
    alice, bob, cathy = sites(order)
    done = alice.send()
    bob.take(done)
    lunch = bob.send()
    assert cathy.take(lunch) == []
    assert cathy.order.waits_for() == (("anybody", 1) if order == "scalar" else ("a", 1))
    assert cathy.take(done) == ["a1", "b1"]
    yes_no = cathy.send()
    assert yes_no.stamp == {"history": [0, 1, 1, 1], "scalar": [3], "last-sender": [1, 1]}[order]
    assert alice.take(yes_no) == []
    assert alice.take(lunch) == ["b1", "c1"]


@pytest.mark.parametrize("order", SIMPLE)
def test_each_keeps_any_chain(order: str) -> None:
    """While nothing is concurrent, all three are causal."""
    for seed in range(200):
        run = Run(seed, order)
        casts: list[Cast] = []
        for _ in range(20):
            sender = run.dice.choice(run.sites[:-1])
            sender.take(*[cast for cast in casts if cast.sender != sender.me and id_of(cast) not in sender.ids()])
            casts.append(sender.send())
        reader = run.sites[-1]
        reader.take(*run.dice.sample(casts, len(casts)))
        assert reader.ids() == [id_of(cast) for cast in casts]
        assert all(not delivery.concurrent for delivery in reader.delivered)


def causes_came_late(site: Site, run: Run) -> bool:
    past = set(map(id_of, site.sent))
    for cast in site.ids():
        if not run.causes[cast] <= past:
            return True
        past.add(cast)
    return False


def misorders(order: str) -> int:
    """In how many of 200 random runs some cast came before one of its causes."""
    wrong = 0
    for seed in range(200):
        run = Run(seed, order)
        run.to_the_end()
        assert all(site.order.held == 0 for site in run.sites)
        wrong += any(causes_came_late(site, run) for site in run.sites)
    return wrong


def test_history_and_vectors_never_fail_and_the_others_do() -> None:
    found = {order: misorders(order) for order in ("causal", "history", "scalar", "last-sender", "fifo")}
    assert found["causal"] == found["history"] == 0
    assert found["fifo"] > found["last-sender"] > 20
    assert found["scalar"] > 20


# History: exact, but long.


def test_a_history_grows_where_a_vector_does_not() -> None:
    a, b, _ = sites("history")
    c, d, _ = sites("causal")
    lengths = []
    for _ in range(100):
        b.take(a.send())
        d.take(c.send())
        a.take(b.send())
        c.take(d.send())
        lengths.append((len(a.sent[-1].stamp), len(c.sent[-1].stamp)))
    assert lengths[0] == (0, 3)
    assert lengths[99] == (2 * 198, 3)


def test_a_long_history_is_compressed_and_stays_exact() -> None:
    a, b, c = sites("history")
    casts = []
    for _ in range(HISTORY_MAX):
        casts.append(a.send())
        b.take(casts[-1])
        casts.append(b.send())
        a.take(casts[-1])
    lengths = [len(cast.stamp) // 2 for cast in casts]
    assert HISTORY_MAX - 2 <= max(lengths) <= HISTORY_MAX
    # It was compressed to two, twice at least at each of them.
    assert sum(later < earlier for earlier, later in zip(lengths[::2], lengths[2::2], strict=False)) >= 1
    for start in range(0, len(casts), 64):
        c.take(*casts[start : start + 64][::-1])
    assert c.ids() == [id_of(cast) for cast in casts]
    assert all(not delivery.concurrent for delivery in c.delivered)


def test_a_history_names_what_is_concurrent() -> None:
    told: list[Step] = []
    a, b, _ = sites("history")
    c = Site("history", "c", step=told.append)
    mine = c.send()
    c.take(a.send(), a.send(), b.send())
    assert [delivery.concurrent for delivery in c.delivered] == [
        (("c", 1, 1),),
        (("c", 1, 1),),
        (("a", 1, 2), ("c", 1, 1)),
    ]
    assert sum(step.name == "ConcurrentVectorTimeStampedMessageDetected" for step in told) == 3
    assert mine.stamp == []


# Scalar: a time for everybody, which two may use at once.


def test_by_the_letter_a_clock_holds_concurrent_messages_for_ever() -> None:
    a, b, _ = sites("scalar")
    c = Site("scalar", "c", late="hold")
    one, other = a.send(), b.send()
    assert one.stamp == other.stamp == [1]
    assert c.take(one, other, a.send()) == ["a1", "a2"]
    assert (c.order.held, c.order.waits_for()) == (1, ("anybody", 0))


def test_a_clock_lets_an_answer_pass_one_of_its_causes() -> None:
    a, b, c = sites("scalar")
    d = Site("scalar", "a")
    one, other = b.send(), c.send()
    a.take(one, other)
    answer = a.send()
    assert answer.stamp == [2]
    reader = Site("scalar", "d", "abcd")
    assert reader.take(other, answer) == ["c1", "a1"]
    assert reader.take(one) == ["b1"]
    # It does see that something was concurrent, not with what: c1 is, a1 is not.
    assert reader.delivered[-1].concurrent == (("a", 1, 1), ("c", 1, 1))
    assert d.take(one, other) == ["b1", "c1"]


def test_a_send_moves_the_clock_for_those_who_wait() -> None:
    told: list[Step] = []
    a, b = Site("scalar", "a", "ab"), Site("scalar", "b", "ab", step=told.append)
    first = b.send()
    a.take(first)
    answer = a.send()
    other = Site("scalar", "b", "ab")
    assert other.take(answer) == []
    other.send()
    assert other.texts() == ["a1"]
    assert b.take(answer) == ["a1"]
    late = Site("scalar", "a", "ab").send()
    b = Site("scalar", "b", "ab", step=told.append)
    b.send()
    b.take(late)
    assert told[-2].name == "ConcurrentVectorTimeStampedMessageDetected"
    assert b.delivered[0].concurrent == (("b", 1, 1),)


# Last sender: one cause of many.


def test_the_last_sender_is_only_one_of_several_causes() -> None:
    a, b, c = sites("last-sender")
    one, other = a.send(), b.send()
    c.take(one, other)
    answer = c.send()
    assert answer.stamp == [1, 1]
    reader = Site("last-sender", "d", "abcd")
    assert reader.take(other, answer) == ["b1", "c1"]
    assert reader.take(one) == ["a1"]
    vectors = sites("causal", "abcd")
    causes = [vectors[0].send(), vectors[1].send()]
    vectors[2].take(*causes)
    assert vectors[3].take(causes[1], vectors[2].send()) == ["b1"]


# Bad stamps.


@pytest.mark.parametrize(
    ("order", "stamps"),
    [
        ("history", [[0], [9, 1], [-1, 1], [1, 2], [1, 0], [2, 4], [0, 4], [0, 5], [1, 3] * (HISTORY_MAX + 1)]),
        ("scalar", [[], [1, 2], [0], [-4]]),
        ("last-sender", [[1], [1, 3, 1], [9, 1], [-1, 1], [1, 2], [2, 4], [0, 4]]),
    ],
)
def test_stamps_that_cannot_be_change_nothing(order: str, stamps: list[list[int]]) -> None:
    counts = {"a": 3, "b": 2, "c": 3}
    a, c = Site(order, "a", counts=counts), Site(order, "c", counts=counts)
    for stamp in stamps:
        with pytest.raises(ProtocolError, match="bad-stamp"):
            c.take(Cast(1, "a", 4, [], stamp))
        assert (c.order.held, c.delivered) == (0, [])
    assert c.take(a.send()) == ["a4"]


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(UsageError, match="use deliver or hold"):
        Site("scalar", "a", late="drop")
