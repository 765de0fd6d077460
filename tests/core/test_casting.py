"""The casts of one view at one member: what is taken, what is delayed, and where the bounds are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from octoloom.core import casting as module
from octoloom.core import sequencer, unordered
from octoloom.core.casting import BUNDLES_MAX, Casting
from octoloom.core.errors import ProtocolError
from octoloom.core.filters import HELD_MAX
from octoloom.core.group_effects import Conflict, ToMembers
from octoloom.core.group_messages import Bundle, Cast, Have, Nak, Stable
from octoloom.core.group_settings import GroupSettings
from tests.core.group_table import view_of

REGISTERED = (sequencer, unordered)


class Site:
    """One casting of the view A B C, and what it says and delivers."""

    def __init__(self, order: str = "fifo", me: str = "C", counts: dict[str, int] | None = None, **settings: Any):
        self.effects: list[Any] = []
        self.delivered: list[str] = []
        self.counters: Counter[str] = Counter()
        counts = counts or dict.fromkeys("ABC", 0)
        view, known = view_of("A B C", 1, order), GroupSettings(**settings)
        deliver = lambda delivery: self.note(delivery.cast)  # noqa: E731
        self.casting = Casting(0, view, me, counts, known, self.counters, self.effects.append, deliver, self.note)

    def note(self, cast: Cast) -> None:
        if not cast.plain or cast not in self.effects:
            self.delivered.append(f"{cast.sender}{cast.number}")

    def take(self, *names: str, now: int = 0, is_fill: bool = False) -> None:
        for name in names:
            self.casting.on_cast(now, cast(name), is_fill)

    def said(self) -> list[Any]:
        said = [(each.members, each.part) for each in self.effects if isinstance(each, ToMembers)]
        self.effects.clear()
        return said


def cast(name: str, stamp: list[int] | None = None, plain: bool = False, size: int = 1) -> Cast:
    sender, number = name[0], int(name[1:])
    return Cast(1, sender, number, [Bundle(sender, number, 1, b"x" * size)], stamp or [], plain)


def test_a_cast_goes_to_the_others_and_under_total_order_to_oneself() -> None:
    for order, own in (("fifo", []), ("total", ["A1", "A2"])):
        site = Site(order, me="A")
        site.casting.cast(0, [Bundle("A", 1, 1, b"x")])
        site.casting.cast(0, [Bundle("A", 2, 1, b"x")])
        assert [(members, part.number) for members, part in site.said()] == [(["B", "C"], 1), (["B", "C"], 2)]
        assert site.delivered == own
        assert site.casting.leads


def test_numbers_go_on_where_the_view_begins() -> None:
    site = Site(counts={"A": 4, "B": 0, "C": 7})
    site.take("A6", "A5", "B1")
    assert site.delivered == ["A5", "A6", "B1"]
    site.casting.cast(0, [Bundle("C", 1, 1, b"x")])
    assert site.said()[0][1].number == 8
    site.take("A4")
    assert site.counters["duplicates"] == 1


def test_what_is_missing_is_asked_for_and_answered_by_whoever_has_it() -> None:
    site, other = Site(nak_ms=20), Site(me="B")
    site.take("A2", "A4", now=5)
    other.take("A1", "A2", "A3", "A4")
    assert site.casting.deadline() == 20, "gossip comes first"
    site.casting.on_time(25)
    assert (["A"], Nak(1, [("A", 1, 1), ("A", 3, 3)])) in site.said()
    (resent,) = other.casting.on_nak(Nak(1, [("A", 1, 1), ("A", 3, 3)]))
    for each in resent.casts:
        site.casting.on_cast(30, each)
    assert site.delivered == ["A1", "A2", "A3", "A4"]
    assert site.counters["naks"] == 1


def test_members_tell_the_coordinator_and_the_coordinator_tells_all() -> None:
    site, leader = Site(), Site(me="A")
    site.take("B1")
    site.casting.on_time(20)
    assert site.said() == [(["A"], Have(1, [0, 1, 0]))]
    leader.take("B1")
    leader.casting.stability.on_have(1, "B", [0, 1, 0])
    leader.casting.stability.on_have(1, "C", [0, 1, 0])
    leader.casting.on_time(20)
    assert leader.said() == [(["B", "C"], Stable(1, [0, 1, 0], [0, 1, 0]))]
    assert not leader.casting.nakack.unstable
    site.casting.on_stable(21, "A", Stable(1, [0, 1, 0], [0, 1, 0]))
    assert not site.casting.nakack.unstable


# Delays.


def test_what_is_delayed_waits_its_time_and_is_had_meanwhile() -> None:
    site = Site()
    site.casting.set_delay("A", 100)
    site.take("A1", now=0)
    site.take("A2", "B1", now=10)
    assert site.delivered == ["B1"]
    assert site.casting.nakack.counts() == [2, 1, 0]
    site.casting.release(99)
    assert site.delivered == ["B1"]
    site.casting.release(100)
    assert site.delivered == ["B1", "A1"]
    assert site.casting.deadline() <= 110
    site.casting.release(None)
    assert site.delivered == ["B1", "A1", "A2"]


def test_two_that_are_due_at_one_moment_come_as_they_arrived() -> None:
    site = Site()
    site.casting.set_delay("A", 100)
    site.casting.set_delay("B", 100)
    site.take("B1", "A1")
    site.casting.release(100)
    assert site.delivered == ["B1", "A1"]


def test_only_so_many_are_delayed_and_the_others_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELAYED_MAX", 2)
    site = Site("none")
    site.casting.set_delay("A", 100)
    site.take("A1", "A2", "A3")
    assert site.delivered == ["A3"]


def test_a_bad_cast_that_was_delayed_is_counted_when_its_time_comes() -> None:
    site = Site("causal")
    site.casting.set_delay("A", 100)
    site.take("A1")  # without a stamp
    site.casting.release(100)
    assert site.delivered == []
    assert site.counters["bad-stamp"] == 1


# Bounds.


def test_an_order_that_holds_half_of_what_it_may_takes_the_next_of_a_sender_and_no_other() -> None:
    site = Site()
    site.take(*(f"A{number}" for number in range(2, HELD_MAX // 2 + 2)))
    assert site.casting.order.held == HELD_MAX // 2
    site.take(f"A{HELD_MAX // 2 + 2}", "B2")
    assert site.counters["no-room"] == 2
    site.take("B2", is_fill=True)
    assert site.casting.nakack.has("B", 2)
    site.take("A1", "B1")
    assert site.casting.order.held == 0
    assert len(site.delivered) == HELD_MAX // 2 + 3


def test_beyond_what_may_be_kept_only_gaps_are_filled() -> None:
    site = Site(kept_bytes_max=10)
    site.casting.on_cast(0, cast("A2", size=11))
    assert site.casting.nakack.congested
    site.take("A3", "B2")
    assert site.counters["no-room"] == 2
    site.take("A1")
    assert site.delivered == ["A1", "A2"]
    site.take("B2", is_fill=True)
    assert site.casting.nakack.has("B", 2)


def test_a_cast_has_between_one_bundle_and_so_many() -> None:
    site = Site("total")
    for bundles in ([], [Bundle("A", 1, 1, b"")] * (BUNDLES_MAX + 1)):
        with pytest.raises(ProtocolError, match="forged-sequence"):
            site.casting.on_cast(0, Cast(1, "A", 1, bundles))
    assert site.casting.nakack.counts() == [0, 0, 0]


def test_what_is_concurrent_against_the_apps_will_is_had_only_if_it_ends_the_view() -> None:
    site = Site("causal", order_settings={"concurrent": "raise"})
    site.casting.on_cast(0, cast("A1", [1, 0, 0]))
    site.casting.on_cast(0, cast("B1", [0, 1, 0]))
    assert not site.casting.nakack.has("B", 1)
    site.casting.on_cast(0, cast("B1", [0, 1, 0]), is_fill=True)
    assert site.casting.nakack.has("B", 1)
    assert site.delivered == ["A1"]
    assert [type(each) for each in site.effects] == [Conflict, Conflict]


@pytest.mark.parametrize("number", [2, 3])
def test_nobody_casts_in_this_members_name_what_it_never_sent(number: int) -> None:
    site = Site()
    site.casting.cast(0, [Bundle("C", 1, 1, b"x")])
    site.take("C1")
    with pytest.raises(ProtocolError, match="forged-sender"):
        site.take(f"C{number}")
    assert site.casting.nakack.next_number() == 2


def test_what_fills_in_a_view_is_of_that_view() -> None:
    site = Site()
    old = Cast(7, "A", 1, [Bundle("A", 1, 1, b"of another view")])
    site.casting.fill(0, [old, cast("B1")])
    assert site.delivered == ["B1"]
    assert not site.casting.nakack.has("A", 1)
