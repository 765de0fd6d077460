"""How the state comes to a newcomer, and what waits for it."""

from __future__ import annotations

import pytest

from octoloom.core.group_effects import Deliver, Effect, NeedState, TakeState
from octoloom.core.group_messages import Bundle, Install
from octoloom.core.newcomer import Newcomer
from tests.core.group_table import Table, view_of


def install(epoch: int, newcomers: str = "", members: str = "A B C") -> Install:
    return Install(view_of(members, epoch), epoch - 1, {}, {}, newcomers.split())


def newcomer(me: str, wants_state: bool = True) -> tuple[Newcomer, list[Effect]]:
    out: list[Effect] = []
    return Newcomer(me, wants_state, out.append), out


def deliver(number: int) -> Deliver:
    return Deliver(Bundle("A", number, 1, b""))


def test_the_state_comes_before_what_was_held_back_for_it() -> None:
    c, out = newcomer("C")
    c.on_installed(install(1, "C"))
    c.hand_over(deliver(1))
    c.hand_over(deliver(2))
    assert out == []
    assert c.on_state(1, b"state")
    c.hand_over(deliver(3))
    assert out == [TakeState(b"state"), deliver(1), deliver(2), deliver(3)]
    assert [c.waits, c.lacks_state] == [False, False]


def test_a_state_of_another_view_or_a_second_one_is_not_what_it_waits_for() -> None:
    c, out = newcomer("C")
    assert not c.on_state(1, b"of a view that it never saw")
    c.on_installed(install(2, "C"))
    assert not c.on_state(1, b"old")
    assert not c.on_state(3, b"of the future")
    assert c.waits
    assert c.on_state(2, b"state")
    assert not c.on_state(2, b"again")
    assert out == [TakeState(b"state")]


def test_a_state_that_comes_before_its_view_is_taken_with_the_view() -> None:
    """The giver has installed the view, and who leads the transition has not yet told the newcomer."""
    c, out = newcomer("C")
    assert not c.on_state(5, b"state")
    assert not c.on_state(4, b"of a view that came to nothing")
    c.on_installed(install(5, "C"))
    assert [c.waits, c.lacks_state] == [False, False]
    c.hand_over(deliver(1))
    assert out == [TakeState(b"state"), deliver(1)]
    c.on_installed(install(6))
    assert len(out) == 2


def test_an_early_state_is_of_no_use_to_who_is_no_newcomer_or_in_another_view() -> None:
    a, out = newcomer("A", wants_state=False)
    assert not a.on_state(5, b"forged")
    a.on_installed(install(5, "C"))
    assert out == [NeedState(5, ["C"])]
    c, out = newcomer("C")
    c.on_state(5, b"state")
    c.on_installed(install(6, "C"))
    assert c.waits
    assert c.on_state(6, b"newer")
    assert out == [TakeState(b"newer")]


def test_the_next_views_state_covers_what_was_held_for_the_one_before() -> None:
    c, out = newcomer("C")
    c.on_installed(install(1, "C"))
    c.hand_over(deliver(1))
    c.on_installed(install(2, "C", "B C"))
    c.hand_over(deliver(2))
    assert c.on_state(2, b"with 1")
    assert out == [TakeState(b"with 1"), deliver(2)]


def test_a_state_that_came_after_it_was_reported_missing_is_enough() -> None:
    c, out = newcomer("C")
    c.on_installed(install(1, "C"))
    assert c.on_state(1, b"state")
    c.on_installed(install(2, "C"))  # as C has reported before the state came
    c.hand_over(deliver(1))
    assert not c.on_state(2, b"once more")
    c.on_installed(install(3, "", "B C"))
    assert out == [TakeState(b"state"), deliver(1)]


def test_if_nobody_has_a_state_it_begins_with_nothing() -> None:
    c, out = newcomer("C")
    c.on_installed(install(1))
    c.hand_over(deliver(1))
    c.on_installed(install(2))
    assert out == [TakeState(None), deliver(1)]


def test_who_wants_none_gets_none() -> None:
    c, out = newcomer("C", wants_state=False)
    c.on_installed(install(1))
    c.hand_over(deliver(1))
    assert out == [deliver(1)]


def test_the_oldest_that_has_a_state_gives_it() -> None:
    for me, gives in (("A", False), ("B", True), ("C", False), ("D", False)):
        member, out = newcomer(me, wants_state=False)
        member.on_installed(install(1, "A D", "A B C D"))
        assert (NeedState(1, ["A", "D"]) in out) is gives


def test_while_it_holds_all_it_may_no_more_casts_are_taken_and_they_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octoloom.core.newcomer.HELD_MAX", 3)
    table = Table("fifo", wants_state=True)
    table.sit("A B")
    table.view("A B")
    table.lose("A", "C", "State")
    table.sit("C")
    table.view("A B C")
    table.send("A", "1 2 3 4 5 6")
    table.run()
    assert table["C"].newcomer.full
    assert table["C"].counters["no-room"] > 0
    table.mend()
    table.run()
    assert not table["C"].newcomer.waits
    assert table.heard("C").endswith("1 2 3 4 5 6")
