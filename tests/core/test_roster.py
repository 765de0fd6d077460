"""The roster: present, absent, dead, and who is remembered."""

from __future__ import annotations

from octoloom.core.register_messages import LinkAddress
from octoloom.core.roster import Roster, incarnation_of, name_of


def address(link: str) -> LinkAddress:
    return LinkAddress(link, "127.0.0.1:1", "ws://127.0.0.1:2")


def roster(*links: str, links_max: int = 100) -> Roster[LinkAddress]:
    made: Roster[LinkAddress] = Roster(lease_ms=2000, closed_grace_ms=150, links_max=links_max)
    for link in links:
        made.enlist(0, link, address(link))
    return made


def test_a_link_is_a_name_and_a_number() -> None:
    assert (name_of("east#2#7"), incarnation_of("east#2#7")) == ("east#2", 7)
    assert [incarnation_of(link) for link in ("a", "#1", "a#", "a#x", "a#²", "a\0#1")] == [-1] * 6


def test_a_lease_runs_from_the_last_word_and_a_grace_from_the_close() -> None:
    made = roster("a#1", "b#1")
    assert made.hear(500, "a#1")
    made.close(600, "b#1")
    assert made.deadline(600) == 750
    assert (made.present("b#1"), made.dead("b#1")) == (False, False)
    assert made.expire(750) == []
    assert made.dead("b#1")
    assert not made.hear(760, "b#1")
    assert made.expire(2499) == []
    assert made.expire(2500) == ["a#1"]
    assert made.deadline(2500) is None


def test_a_delay_is_given_to_everybody() -> None:
    made = roster("a#1")
    made.delay(1000)
    assert made.expire(2999) == []
    assert made.expire(3000) == ["a#1"]


def test_ten_is_newer_than_nine() -> None:
    made = roster("a#9")
    assert made.enlist(0, "a#10", address("a#10")) == "a#9"
    assert made.superseded("a#9")
    assert not made.superseded("a#10")
    refusal = made.refusal("a#9")
    assert refusal is not None
    assert refusal[0] == "outdated"


def test_a_restored_roster_knows_the_newest_again() -> None:
    made = roster()
    made.restore(0, {link: address(link) for link in ("a#10", "a#9", "b#1")})
    assert made.superseded("a#9")
    assert [made.dead(link) for link in ("a#9", "a#10", "b#1")] == [True, False, False]
    assert made.candidates() == []


def test_the_dead_are_forgotten_unless_a_view_counts_on_their_name() -> None:
    made = roster("a#1", "b#1", "c#1")
    made.enlist(0, "a#2", address("a#2"))
    made.expire(2000)
    made.forget(["a#1", "b#1"])
    assert list(made.addresses()) == ["a#1", "a#2", "b#1"]
    made.forget([])
    assert made.addresses() == {}
    assert made.refusal("a#1") is None


def test_candidates_are_present_and_staying_and_a_bar_passes() -> None:
    made = roster("c#1", "a#1", "b#1", "d#1")
    made.leave("a#1")
    made.close(0, "d#1")
    made.bar("b#1", 1000)
    assert made.candidates() == ["b#1", "c#1"]
    assert (made.barred("b#1", 999), made.barred("b#1", 1000)) == (True, False)


def test_the_last_chance_is_for_the_dead_that_were_not_superseded() -> None:
    made = roster("a#1", "b#1")
    made.enlist(0, "a#2", address("a#2"))
    made.expire(2000)
    made.expect(3000, "a#1")
    made.expect(3000, "b#1")
    assert (made.dead("a#1"), made.dead("b#1")) == (True, False)
    assert made.expire(3150) == []
    assert made.dead("b#1")
