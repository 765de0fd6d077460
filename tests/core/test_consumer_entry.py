"""A member's way into its group, one question after the other."""

from __future__ import annotations

from octoloom.core import consumer_member_messages as say
from octoloom.core.consumer_entry import Entry, Step
from octoloom.core.consumer_messages import GroupError
from octoloom.core.consumer_standing import Standing

A = ("orders", 0)


def entry() -> tuple[Entry, Standing]:
    standing = Standing()
    return Entry(say.MemberSettings(("orders",)), standing), standing


def test_the_way_of_one_who_leads() -> None:
    way, standing = entry()
    assert way.begin() == say.Join("")
    assert way.on_reply(say.Joined(GroupError.MEMBER_ID_REQUIRED, "me")) == say.Join("me")
    assert way.is_held
    joined = say.Joined(0, "me", 4, "me", "roundrobin", {"me": ["orders"]})
    assert way.on_reply(joined) == say.Count(("orders",))
    assert way.repeat() == say.Count(("orders",))
    assert (standing.generation, way.is_held) == (4, False)
    assert way.on_reply(say.Counted({"orders": 1})) == say.Sync("me", 4, {"me": {"orders": [0]}})
    assert (way.divided, way.is_in) == ({"orders": 1}, False)
    assert way.on_reply(say.Synced(0, (A,))) == say.FetchCommitted((A,))
    assert way.is_in
    assert way.repeat() == say.FetchCommitted((A,))
    assert way.on_reply(say.Fetched(0, {A: 3})) == say.Locate((A,))
    assert way.on_reply(say.Located({A: (0, 9)})) is None
    assert (way.starts, way.committed, way.take_notes()) == ({A: 3}, {A: 3}, [])


def test_who_does_not_lead_divides_nothing() -> None:
    way, _ = entry()
    way.begin()
    assert way.on_reply(say.Joined(0, "me", 4, "eve")) == say.Sync("me", 4, {})
    assert way.repeat() == say.Join("me")
    assert way.divided == {}


def test_a_refusal_is_handed_on_and_remembered() -> None:
    way, standing = entry()
    way.begin()
    way.on_reply(say.Joined(0, "me", 4, "eve"))
    assert way.on_reply(say.Synced(GroupError.UNKNOWN_MEMBER_ID)) == GroupError.UNKNOWN_MEMBER_ID
    assert standing.member == ""


def test_one_too_many_has_nothing_more_to_ask() -> None:
    way, _ = entry()
    way.begin()
    way.on_reply(say.Joined(0, "me", 4, "eve"))
    assert way.on_reply(say.Synced(0)) is None
    assert way.step is Step.ENTERED


def test_what_is_gone_is_passed_over() -> None:
    way, _ = entry()
    way.places = (A,)
    assert way.relocate({A: 3}) == say.Locate((A,))
    way.on_reply(say.Located({A: (5, 9)}))
    assert (way.starts, way.committed, len(way.take_notes())) == ({A: 5}, {}, 1)
