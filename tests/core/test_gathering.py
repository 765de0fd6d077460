"""What survivors hold together, and who has it: against sets."""

from __future__ import annotations

import random
from itertools import pairwise

from octoloom.core.gathering import FILL_BYTES_MAX, Gathering, Holdings, in_fills
from octoloom.core.group_messages import Bundle, Cast, Install, Report
from octoloom.core.tags import Seen
from tests.core.group_table import view_of


def install(members: str, epoch: int) -> Install:
    return Install(view_of(members, epoch), epoch - 1, {}, {}, [])


def holdings(numbers: dict[str, set[int]]) -> Holdings:
    return {sender: Seen.restore((0, sorted(mine))).snapshot() for sender, mine in numbers.items()}


def report(have: dict[str, set[int]], last: Install | None, wants_state: bool = False) -> Report:
    return Report(9, last, holdings(have), wants_state)


def test_the_union_is_all_that_anybody_holds() -> None:
    last = install("A B C D", 8)
    for seed in range(200):
        dice = random.Random(seed)
        gathering = Gathering(view_of("B C D", 9))
        sent = {sender: dice.randint(0, 12) for sender in "ABCD"}
        twin = {
            member: {
                sender: {n for n in range(1, sent[sender] + 1) if dice.random() < 0.6 or sender == member}
                for sender in "ABCD"
            }
            for member in "BCD"
        }
        for member, have in twin.items():
            gathering.reports[member] = report(have, last)
        union = {sender: set.union(*(twin[member][sender] for member in twin)) for sender in "ABCD"}
        assert gathering.unite() == holdings(union) == gathering.union
        for have in twin.values():
            lacking = {(sender, n) for sender in "ABCD" for n in union[sender] - have[sender]}
            assert set(gathering.lacks(holdings(have))) == lacking
            assert len(gathering.lacks(holdings(have))) == len(lacking)
        for sender, numbers in union.items():
            for number in numbers:
                holders = [member for member in "BCD" if number in twin[member][sender]]
                assert gathering.holder(sender, number) == holders[0]
        assert set(gathering.lacks({})) == {(sender, n) for sender in "ABCD" for n in union[sender]}


def test_nobody_has_more_of_a_survivors_casts_than_it_has_sent() -> None:
    gathering = Gathering(view_of("A B", 9))
    last = install("A B C", 8)
    gathering.reports["A"] = report({"A": {1, 2}, "B": set(), "C": {1}}, last)
    gathering.reports["B"] = report({"A": {1, 1_000}, "B": set(), "C": {3}}, last)
    assert gathering.unite() == {"A": (2, []), "B": (0, []), "C": (1, [3])}


def test_it_waits_for_every_report_and_then_for_every_elder() -> None:
    gathering = Gathering(view_of("A B C", 9))
    last = install("A B", 8)
    for member, rest in (("B", ["A", "C"]), ("C", ["A"]), ("A", [])):
        gathering.reports[member] = report({"A": {1}, "B": set()}, None if member == "C" else last)
        assert gathering.silent() == rest
    gathering.unite()
    assert gathering.elders() == ["A", "B"]
    assert gathering.silent() == ["A", "B"]
    gathering.ready["A"] = None
    assert gathering.silent() == ["B"]


def test_who_missed_the_newest_installation_is_behind_if_it_is_of_that_view() -> None:
    gathering = Gathering(view_of("A B C D", 9))
    gathering.reports |= {
        "A": report({}, install("A B", 7)),
        "B": report({}, install("A B C", 8)),
        "C": report({}, None),
        "D": report({}, None),
    }
    newest = gathering.newest()
    assert newest is not None
    assert newest.view.epoch == 8
    assert gathering.behind() == ["A", "C"]


def test_a_group_of_newcomers_has_no_past() -> None:
    gathering = Gathering(view_of("A B", 1))
    gathering.reports |= {"A": report({}, None, True), "B": report({}, None, True)}
    assert gathering.newest() is None
    assert gathering.behind() == gathering.elders() == gathering.silent() == []
    assert gathering.unite() == {}
    assert gathering.lacks({}) == []
    assert gathering.newcomers() == [], "there is nobody who could give them a state"


def test_who_wants_a_state_gets_it_if_an_elder_has_one() -> None:
    gathering = Gathering(view_of("A B C D", 9))
    last = install("A B", 8)
    gathering.reports |= {
        "A": report({}, last, wants_state=True),
        "B": report({}, last),
        "C": report({}, None, wants_state=True),
        "D": report({}, None),
    }
    assert gathering.giver() == "B"
    assert gathering.newcomers() == ["A", "C"]
    gathering.reports["B"] = report({}, last, wants_state=True)
    assert gathering.giver() == ""
    assert gathering.newcomers() == []


def test_fills_fit_a_datagram_unless_a_single_cast_does_not() -> None:
    dice = random.Random(4)
    sizes = [dice.choice([1, 100, 5_000, FILL_BYTES_MAX - 64, 2 * FILL_BYTES_MAX]) for _ in range(200)]
    casts = [Cast(1, "A", at, [Bundle("A", at, 1, b"x" * size)]) for at, size in enumerate(sizes, 1)]
    fills = in_fills(casts)
    assert [cast for fill in fills for cast in fill] == casts
    for fill in fills:
        size = sum(len(bundle.payload) for cast in fill for bundle in cast.bundles)
        assert len(fill) == 1 or size <= FILL_BYTES_MAX
    for one, other in pairwise(fills):
        joined = sum(len(cast.bundles[0].payload) + 64 for cast in [*one, other[0]])
        assert joined > FILL_BYTES_MAX, "one more would have fitted"
    assert in_fills([]) == []
