"""One group as the register sees it: what it remembers is bounded."""

from __future__ import annotations

from octoloom.core.group_messages import EnlistMember, MemberAddress
from octoloom.core.group_saved import SavedGroup
from octoloom.core.registered_group import DEPARTED_MAX, RegisteredGroup
from octoloom.core.roster import Roster


def group(saved: SavedGroup | None = None) -> RegisteredGroup:
    roster: Roster[MemberAddress] = Roster(lease_ms=2000, closed_grace_ms=150, links_max=256)
    if saved is not None:
        roster.restore(0, {address.member: address for address in saved.view.members})
    return RegisteredGroup("room", saved, roster, suspect_ms=400)


def enlist(member: str, epoch: int = 0) -> EnlistMember:
    return EnlistMember("room", MemberAddress(member, "127.0.0.1:1"), "", epoch)


def test_those_who_have_gone_are_remembered_up_to_a_bound() -> None:
    made = group()
    made.enlist(0, enlist("ada#1"))
    for number in range(DEPARTED_MAX + 10):
        made.enlist(0, enlist(f"guest{number}#1"))
        made.settle(2 * number + 1)
        made.leave(f"guest{number}#1")
        made.settle(2 * number + 2)
    assert list(made.roster.addresses()) == ["ada#1"]
    gone = list(made.saved().departed)
    assert gone == [f"guest{number}" for number in range(10, DEPARTED_MAX + 10)]
    refusal = made.refusal(enlist("guest10#1"), 256)
    assert refusal is not None
    assert refusal[0] == "expelled"
    assert made.refusal(enlist("guest9#1"), 256) is None, "it is forgotten"
    assert made.refusal(enlist("guest9#1", epoch=20), 256) is not None, "but it remembers a view itself"


def test_newcomers_that_replace_each_other_take_one_place() -> None:
    made = group()
    made.enlist(0, enlist("ada#1"))
    for number in range(1, 50):
        made.enlist(0, enlist(f"bob#{number}"))
        assert made.alive() == ["ada#1", f"bob#{number}"]
    made.settle(1)
    assert made.view.names == ["ada#1", "bob#49"]


def test_a_saved_group_goes_on_where_it_was() -> None:
    made = group()
    made.enlist(0, EnlistMember("room", MemberAddress("ada#1", "127.0.0.1:1"), "total"))
    made.enlist(0, enlist("bob#3"))
    made.settle(7)
    made.leave("bob#3")
    made.settle(8)
    again = group(made.saved())
    assert again.saved() == made.saved()
    assert again.alive() == ["ada#1"]
    assert not again.roster.present("ada#1")
    assert again.refusal(enlist("bob#3"), 256) is not None
    assert again.refusal(enlist("ada#1", epoch=8), 256) is None
