"""The least that all have, the most that anybody knows of, and who is silent: against a table of all that was said."""

from __future__ import annotations

import random

import pytest

from octoloom.core.errors import ProtocolError
from octoloom.core.group_messages import Have, Stable
from octoloom.core.stability import Stability


def stability(me: str, members: str = "ABC", begin: int = 0) -> Stability:
    return Stability(0, 1, me, dict.fromkeys(members, begin), gossip_ms=20, idle_ms=300)


def test_stable_is_the_least_of_all_and_last_the_most() -> None:
    for seed in range(100):
        dice = random.Random(seed)
        members = "ABCDE"[: dice.randint(1, 5)]
        begin = dice.choice([0, 4])
        leader = stability("A", members, begin)
        told = {member: [begin] * len(members) for member in members}
        for now in range(1, 20):
            if len(members) > 1:
                member = dice.choice(members[1:])
                counts = [dice.randint(0, 12) for _ in members]
                leader.on_have(now, member, counts)
                # Words overtake each other, and counts only grow.
                told[member] = [max(pair) for pair in zip(told[member], counts, strict=True)]
        own = [dice.randint(begin, 12) for _ in members]
        lasts = [count + dice.randint(0, 2) for count in own]
        told["A"] = own
        word = leader.word(1_000, own, lasts)
        columns = list(zip(*told.values(), strict=True))
        most = [max(*column, last) for column, last in zip(columns, lasts, strict=True)]
        assert word == Stable(1, [min(column) for column in columns], most)


def test_a_member_tells_its_counts_soon_after_they_changed_and_now_and_then_anyway() -> None:
    member = stability("B")
    assert member.due_at() == 300
    member.touch()
    assert member.due_at() == 20
    assert member.word(19, [1, 0, 0], [1, 0, 0]) is None
    assert member.word(20, [1, 0, 0], [9, 0, 0]) == Have(1, [1, 0, 0])
    assert member.due_at() == 320
    assert member.word(320, [1, 0, 0], [1, 0, 0]) == Have(1, [1, 0, 0])


def test_the_coordinator_hears_of_all_and_the_others_of_it() -> None:
    leader, member = stability("A"), stability("B")
    leader.on_have(50, "B", [0, 0, 0])
    assert leader.silent(100, 100) == []
    assert leader.silent(101, 100) == ["C"]
    assert leader.silent(151, 100) == ["B", "C"]
    assert member.silent(101, 100) == ["A"]
    member.on_stable(50, "A", [0, 0, 0], [0, 0, 0])
    assert member.silent(150, 100) == []


def test_who_did_not_run_itself_forgives_all() -> None:
    leader = stability("A")
    leader.forgive(5_000)
    assert leader.silent(5_100, 100) == []
    assert leader.silent(5_101, 100) == ["B", "C"]


def test_counts_that_are_not_of_this_view() -> None:
    leader, member = stability("A"), stability("B")
    for counts in ([], [1, 1], [1, 1, 1, 1]):
        with pytest.raises(ProtocolError, match="bad-counts"):
            leader.on_have(9, "B", counts)
        with pytest.raises(ProtocolError, match="bad-counts"):
            member.on_stable(9, "A", counts, [1, 1, 1])
        with pytest.raises(ProtocolError, match="bad-counts"):
            member.on_stable(9, "A", [1, 1, 1], counts)
    with pytest.raises(ProtocolError, match="bad-counts"):
        member.on_have(9, "C", [1, 1, 1])
    with pytest.raises(ProtocolError, match="C is not the coordinator"):
        member.on_stable(9, "C", [1, 1, 1], [1, 1, 1])
    assert leader.silent(101, 100) == ["B", "C"]
    assert leader.word(300, [5, 5, 5], [5, 5, 5]) == Stable(1, [0, 0, 0], [5, 5, 5])
