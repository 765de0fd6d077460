"""Casts that arrive lost, doubled and turned round, against a dumb twin that keeps every number in a set."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from octoloom.core.errors import ProtocolError
from octoloom.core.group_messages import Bundle, Cast, Nak
from octoloom.core.nakack import ASKED_MAX, RANGES_MAX, RESENT_BYTES_MAX, SENDER_TRIES, SPARSE_MAX, Nakack

BIG = 1_000_000


def cast(sender: str, number: int, size: int = 1) -> Cast:
    return Cast(1, sender, number, [Bundle(sender, number, 1, b"x" * size)])


def nakack(kept_bytes_max: int = BIG, **counts: int) -> Nakack:
    return Nakack(1, "C", {"A": 0, "B": 0, "C": 0} | counts, 10, kept_bytes_max)


def test_it_has_what_arrived_and_asks_for_what_did_not() -> None:
    for seed in range(200):
        dice = random.Random(seed)
        begins = {"A": dice.choice([0, 5]), "B": 0}
        member = nakack(**begins)
        twin: dict[str, set[int]] = {"A": set(), "B": set()}
        for now in range(60):
            sender = dice.choice("AB")
            number = begins[sender] + 1 + int(dice.random() ** 2 * 30)
            is_new = number not in twin[sender]
            assert member.has(sender, number) is not is_new
            if is_new:
                member.add(now, cast(sender, number))
                twin[sender].add(number)
        last = {sender: max(numbers, default=begins[sender]) for sender, numbers in twin.items()}
        lacking = {
            (sender, number)
            for sender in twin
            for number in range(begins[sender] + 1, last[sender] + 1)
            if number not in twin[sender]
        }
        asked = [missing for _, nak in member.ask(1_000) for missing in nak.missing]
        assert {(sender, n) for sender, first, end in asked for n in range(first, end + 1)} == lacking
        assert all(first <= end for _, first, end in asked)
        assert member.lasts() == [last["A"], last["B"], 0]
        assert member.kept_bytes == sum(map(len, twin.values()))
        # It can give all that it has, and has no more once the gaps are closed.
        everything = [(sender, 1, 1_000) for sender in twin]
        assert {(each.sender, each.number) for each in member.find(everything)} == {
            (sender, number) for sender in twin for number in twin[sender]
        }
        for sender, number in sorted(lacking):
            member.add(2_000, cast(sender, number))
        assert member.counts() == [last["A"], last["B"], 0]
        assert member.ask(10_000) == []
        assert member.deadline() is None


def test_a_gap_is_asked_for_after_a_while_for_casts_overtake_each_other() -> None:
    member = nakack()
    member.add(0, cast("A", 2))
    assert member.deadline() == 10
    assert member.ask(9) == []
    assert member.ask(10) == [("A", Nak(1, [("A", 1, 1)]))]
    assert member.ask(11) == []
    member.add(12, cast("A", 1))
    assert member.deadline() is None


def test_first_the_sender_is_asked_then_the_others_in_turn_with_growing_patience() -> None:
    member = nakack(D=0)
    member.add(0, cast("A", 2))
    asked: list[str] = []
    times: list[int] = []
    while len(asked) < SENDER_TRIES + 5:
        now = member.deadline()
        assert now is not None
        times.append(now)
        asked += [whom for whom, _ in member.ask(now)]
    assert asked == ["A"] * SENDER_TRIES + ["B", "D", "A", "B", "D"]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == [20, 30, 40, 50, 60, 70]


def test_who_gets_further_asks_the_sender_again() -> None:
    member = nakack()
    member.add(0, cast("A", 5))
    for _ in range(SENDER_TRIES + 1):
        (asked,) = member.ask(member.deadline() or 0)
    assert asked[0] == "B"
    member.add(0, cast("A", 1))
    (asked,) = member.ask(member.deadline() or 0)
    assert asked == ("A", Nak(1, [("A", 2, 4)]))


def test_the_end_of_a_stream_is_known_from_others() -> None:
    member = nakack()
    member.on_stable(0, [0, 0, 0], [2, 0, 9])
    assert member.unstable
    assert member.ask(10) == [("A", Nak(1, [("A", 1, 2)]))], "and nobody tells it the end of its own"
    assert member.next_number() == 1


def test_what_all_have_is_not_kept() -> None:
    member = nakack()
    for number in (1, 2, 3, 5):
        member.add(0, cast("A", number, size=10))
    member.on_stable(1, [2, 0, 0], [5, 0, 0])
    assert member.kept_bytes == 20
    assert [each.number for each in member.find([("A", 1, 5)])] == [3, 5]
    member.on_stable(2, [5, 0, 0], [5, 0, 0])
    assert [each.number for each in member.find([("A", 1, 5)])] == [5], "beyond its own gap nothing is believed"
    member.add(3, cast("A", 4))
    member.on_stable(4, [5, 0, 0], [5, 0, 0])
    assert member.kept_bytes == 0
    assert not member.unstable
    member.on_stable(5, [1, 0, 0], [1, 0, 0])
    assert member.counts() == [5, 0, 0]


def test_beyond_the_bytes_that_may_be_kept_only_a_gap_is_filled() -> None:
    member = nakack(kept_bytes_max=10)
    member.add(0, cast("A", 2, size=10))
    assert member.takes(cast("A", 3)), "it holds as much as it may, not more"
    member.add(0, cast("A", 3))
    assert member.congested
    assert not member.takes(cast("A", 4))
    assert not member.takes(cast("B", 2))
    assert member.takes(cast("A", 1))
    assert member.takes(cast("B", 1))


def test_only_so_far_ahead_of_a_gap() -> None:
    member = nakack()
    assert member.takes(cast("A", SPARSE_MAX))
    assert not member.takes(cast("A", SPARSE_MAX + 1))


def test_only_so_much_is_asked_for_and_answered_at_once() -> None:
    member = nakack()
    member.on_stable(0, [0, 0, 0], [10**12, 0, 0])
    assert member.ask(10) == [("A", Nak(1, [("A", 1, ASKED_MAX)]))]
    gappy = nakack()
    for number in range(2, 4 * RANGES_MAX, 2):
        gappy.add(0, cast("A", number))
    ((_, nak),) = gappy.ask(10)
    assert len(nak.missing) == RANGES_MAX
    full = nakack()
    for number in range(1, 2 * ASKED_MAX):
        full.add(0, cast("A", number))
    assert len(full.find([("A", 1, 10**12)] * 3)) == ASKED_MAX
    assert full.find([("A", -(10**12), 10**12), ("X", 1, 5), ("A", 9, 3), ("B", 1, 10**12)]) == []
    heavy = nakack(1 << 40)
    for number, size in enumerate([2 * RESENT_BYTES_MAX, RESENT_BYTES_MAX // 2, RESENT_BYTES_MAX // 2, 1], 1):
        heavy.add(0, cast("A", number, size))
    assert [each.number for each in heavy.find([("A", 1, 9)])] == [1]
    assert [each.number for each in heavy.find([("A", 2, 9)])] == [2, 3]


def test_only_so_many_bytes_are_sent_again_at_once_and_one_cast_at_least() -> None:
    member = nakack(kept_bytes_max=10 * RESENT_BYTES_MAX)
    for number, size in enumerate([2 * RESENT_BYTES_MAX, RESENT_BYTES_MAX // 2, RESENT_BYTES_MAX // 2, 1], 1):
        member.add(0, cast("A", number, size))
    assert [each.number for each in member.find([("A", 1, 9)])] == [1]
    assert [each.number for each in member.find([("A", 2, 9)])] == [2, 3]
    assert [each.number for each in member.find([("A", 4, 9)])] == [4]


def test_what_it_does_not_keep_cannot_be_got() -> None:
    member = nakack()
    member.add(0, cast("A", 1))
    assert [each.number for each in member.get([("A", 1)])] == [1]
    for wanted in (("A", 2), ("X", 1)):
        with pytest.raises(ProtocolError, match="bad-fetch"):
            member.get([("A", 1), wanted])


def test_what_it_holds_of_a_union() -> None:
    member = nakack()
    for number in (1, 2, 4):
        member.add(0, cast("A", number))
    assert member.snapshot() == {"A": (2, [4]), "B": (0, []), "C": (0, [])}
    assert member.holds({})
    assert member.holds({"A": (2, [4]), "B": (0, [])})
    assert member.holds({"A": (1, [])})
    assert not member.holds({"A": (3, [])})
    assert not member.holds({"A": (2, [4, 5])})
    assert not member.holds({"A": (0, []), "X": (0, [])})


def test_a_cast_is_new_once() -> None:
    member = nakack()
    member.add(0, cast("A", 1))
    with pytest.raises(AssertionError, match="added again"):
        member.add(0, cast("A", 1))
