"""A replica of a space: what it takes, what it remembers of what is gone, and how it is copied."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.core import space as space_module
from octoloom.core.event import PRESENCE, TIMER, Change, Event, Kill, Outcome, SpaceSnapshot, Timer, digest_of
from octoloom.core.space import Space, Standing


def event(number: int, device: str = "ada", sequencer: int = 0, time_ms: int = 0) -> Event:
    return Event(number, device, sequencer or number, "put", b"%d" % number, time_ms or 100 + number, number)


def kill(of: Event, outcome: Outcome = Outcome.APPLIED, reason: str = "") -> Kill:
    return Kill(of.chain_sequencer, of.device, of.sequencer, outcome, reason, of.digest)


def change(version: int, *kills: Kill, merge: Any = None, replace: bool = False, **more: Any) -> Change:
    return Change(1, version, replace, msgspec.json.encode(merge or {}), list(kills), **more)


def with_events(*events: Event) -> Space:
    space = Space("lobby")
    for each in events:
        assert space.add(each)
    return space


# Events.


def test_events_are_taken_in_order_and_each_once() -> None:
    space = with_events(event(1), event(2))
    assert not space.add(event(2))
    assert not space.add(event(1))
    assert list(space.events) == [1, 2]
    assert (space.trim, space.next_chain_sequencer, space.time_ms) == (1, 3, 102)


def test_a_killed_event_is_gone_and_yet_is_never_taken_again() -> None:
    space = with_events(event(1), event(2))
    space.apply(change(1, kill(event(1))))
    assert not space.add(event(1)), "the tombstone counts as processed"
    assert list(space.events) == [2]
    assert space.device("ada").standing(1) is Standing.DONE
    assert space.trim == 2


def test_the_trim_waits_for_the_oldest_live_event() -> None:
    space = with_events(event(1), event(2), event(3))
    space.apply(change(1, kill(event(2)), kill(event(3))))
    assert space.trim == 1
    space.apply(change(2, kill(event(1))))
    assert space.trim == 4


@pytest.mark.parametrize(("start", "expected"), [(0, [2, 4, 5]), (2, [2, 4, 5]), (3, [4, 5]), (5, [5]), (6, [])])
def test_events_from_gives_the_live_ones_in_order(start: int, expected: list[int]) -> None:
    space = with_events(*(event(number) for number in range(1, 6)))
    space.apply(change(1, kill(event(1)), kill(event(3))))
    assert [each.chain_sequencer for each in space.events_from(start)] == expected


# What is remembered of a device.


def test_a_deferred_event_is_live_while_later_ones_are_done() -> None:
    space = with_events(event(1), event(2), event(3))
    space.apply(change(1, kill(event(2)), kill(event(3))))
    history = space.device("ada")
    assert [history.standing(n) for n in (1, 2, 3, 4)] == [
        Standing.LIVE,
        Standing.DONE,
        Standing.DONE,
        Standing.NEW,
    ]
    assert history.seen.snapshot() == (0, [2, 3])
    assert history.next() == 4
    space.apply(change(2, kill(event(1))))
    assert history.seen.snapshot() == (3, []), "the holes are filled, and the sparse set is empty again"


def test_numbers_that_a_device_skipped_count_as_done_once_nothing_below_can_come() -> None:
    space = with_events(event(1, sequencer=7), event(2, sequencer=9))
    history = space.device("ada")
    space.apply(change(1, kill(event(1, sequencer=7))))
    assert history.seen.snapshot() == (8, []), "all below the lowest live event was never sent"
    space.apply(change(2, kill(event(2, sequencer=9))))
    assert history.seen.snapshot() == (9, [])
    assert history.next() == 10


def test_the_next_number_is_above_all_that_was_ever_taken() -> None:
    space = Space("lobby")
    assert space.device("ada").next() == 1
    space.add(event(1, sequencer=4))
    assert space.device("ada").next() == 5
    space.apply(change(1, kill(event(1, sequencer=4))))
    assert space.device("ada").next() == 5


def test_outcomes_are_told_truly_or_called_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_module, "RECENT_MAX", 2)
    events = [event(1), event(2), event(3)]
    space = with_events(*events)
    space.apply(change(1, kill(events[0]), kill(events[1], Outcome.REJECTED, "taken"), kill(events[2])))
    history = space.device("ada")
    assert history.outcome(1, events[0].digest)[0] is Outcome.FORGOTTEN
    assert history.outcome(2, events[1].digest) == (Outcome.REJECTED, "taken")
    assert history.outcome(2, digest_of("put", b"something else"))[0] is Outcome.SUPERSEDED


# Changes.


def test_kills_of_events_that_never_came_here_count_too() -> None:
    space = Space("lobby")
    space.apply(change(1, kill(event(1)), kill(event(2, "bob", 1))))
    assert (space.next_chain_sequencer, space.events) == (3, {})
    assert not space.add(event(1)), "it is late: a change from below has overtaken it"
    assert space.device("ada").standing(1) is Standing.DONE
    assert space.device("bob").standing(1) is Standing.DONE


def test_a_change_merges_or_replaces() -> None:
    space = Space("lobby")
    space.apply(change(1, merge={"a": {"x": 1}, "b": 2}))
    space.apply(change(2, merge={"a": {"y": 3}, "b": None}))
    assert space.state == {"a": {"x": 1, "y": 3}}
    space.apply(change(3, merge={"c": None}, replace=True))
    assert space.state == {"c": None}
    assert space.version == 3


@pytest.mark.parametrize("version", [0, 1, 3])
def test_a_version_out_of_line_is_a_broken_invariant_and_changes_nothing(version: int) -> None:
    space = Space("lobby")
    space.apply(change(1, merge={"a": 1}))
    with pytest.raises(AssertionError):
        space.apply(change(version, merge={"a": 2}))
    assert (space.version, space.state) == (1, {"a": 1})


def test_timers_come_with_changes_and_go_when_cancelled_or_consumed() -> None:
    space = Space("lobby")
    timers = [Timer(number, 500, "ring", b"null") for number in (1, 2, 3)]
    space.apply(change(1, timers=timers))
    assert (list(space.timers), space.next_timer) == ([1, 2, 3], 4)
    space.apply(change(2, cancelled=[2, 99]))
    space.add(event(1, TIMER, sequencer=3))
    assert 3 in space.device(TIMER).live
    space.apply(change(3, kill(event(1, TIMER, sequencer=3))))
    assert (list(space.timers), space.next_timer) == ([1], 4)
    assert space.device(TIMER).live == {}, "a timer that fired may not be mistaken for one that is under way"
    assert space.device(TIMER).standing(1) is Standing.NEW, "a later timer's number says nothing of an earlier one"


def test_presence_comes_with_changes() -> None:
    space = Space("lobby")
    space.apply(change(1, presence=[("ada", True), ("bob", True)]))
    space.apply(change(2, presence=[("ada", False), ("nobody", False), ("eve", True)]))
    assert list(space.present) == ["bob", "eve"]


# The text of the state.


def test_the_text_is_made_once_while_the_ring_reaches_further() -> None:
    space = Space("lobby")
    space.apply(change(1, merge={"long": "x" * 1000}))
    version, text = space.state_text()
    assert (version, msgspec.json.decode(text)) == (1, space.state)
    space.apply(change(2, merge={"a": 1}))
    assert space.state_text() == (1, text), "one small change is cheaper than the whole text"
    for number in range(3, 60):
        space.apply(change(number, merge={"a": "y" * number}))
    version, text = space.state_text()
    assert version > 1, "the changes outgrew half of the text"
    assert msgspec.json.decode(text)["long"] == "x" * 1000


def test_the_text_is_made_again_where_the_ring_has_lost_the_way() -> None:
    space = Space("lobby")
    space.apply(change(1, merge={"long": "x" * 1000}))
    space.state_text()
    space.ring.clear()
    space.apply(change(2, merge={"a": 1}))
    space.ring.clear()
    version, text = space.state_text()
    assert (version, msgspec.json.decode(text)) == (2, space.state)


# Snapshots.


def test_restore_keeps_the_events_that_the_snapshot_never_had() -> None:
    below = with_events(event(1), event(2))
    below.apply(change(1, kill(event(1)), merge={"a": 1}))
    above = with_events(event(1), event(2), event(3), event(4, "bob", 1))
    above.restore(below.snapshot())
    assert list(above.events) == [2, 3, 4], "1 is done; 3 and 4 have not come down yet"
    assert above.device("ada").standing(1) is Standing.DONE
    assert above.device("ada").standing(3) is Standing.LIVE
    assert above.device("bob").standing(1) is Standing.LIVE
    assert (above.version, above.state, above.next_chain_sequencer, above.time_ms) == (1, {"a": 1}, 5, 104)


def test_after_a_restore_the_ring_is_empty_and_the_text_is_the_snapshots() -> None:
    space = Space("lobby")
    space.apply(change(1, merge={"a": 1}))
    other = Space("lobby")
    for version in (1, 2, 3):
        other.apply(change(version, merge={"b": version}))
    space.restore(other.snapshot())
    assert space.ring.since(2) is None
    assert space.state_text() == (3, b'{"b":3}')


def test_a_replica_never_goes_back() -> None:
    space = Space("lobby")
    early = space.snapshot()
    space.apply(change(1, merge={"a": 1}))
    with pytest.raises(AssertionError):
        space.restore(early)
    assert space.state == {"a": 1}


@st.composite
def histories(draw: st.DrawFn) -> Space:
    """A replica that lived: events of a few devices, some consumed out of order, timers and presence."""
    space, next_of = Space("lobby"), {"ada": 1, "bob": 3, PRESENCE: 1}
    for _ in range(draw(st.integers(0, 25))):
        if draw(st.booleans()):
            device = draw(st.sampled_from(sorted(next_of)))
            space.add(event(space.next_chain_sequencer, device, next_of[device]))
            next_of[device] += draw(st.integers(1, 2))
        else:
            live = list(space.events.values())
            killed = draw(st.lists(st.sampled_from(live), unique_by=lambda e: e.chain_sequencer)) if live else []
            kills = [kill(each, draw(st.sampled_from(Outcome)), "why") for each in killed]
            timers = [Timer(space.next_timer, 9, "ring", b"1")] if draw(st.booleans()) else []
            cancelled = draw(st.lists(st.sampled_from(list(space.timers)), max_size=1)) if space.timers else []
            presence = [(draw(st.sampled_from("xyz")), draw(st.booleans()))]
            merge = draw(st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 9)))
            more: dict[str, Any] = {"timers": timers, "cancelled": cancelled, "presence": presence}
            space.apply(change(space.version + 1, *kills, merge=merge, **more))
    return space


@settings(deadline=None, max_examples=80)
@given(histories())
def test_a_snapshot_is_all_of_it(space: Space) -> None:
    snapshot = space.snapshot()
    text = msgspec.msgpack.encode(snapshot)
    copy = Space("lobby")
    copy.restore(msgspec.msgpack.decode(text, type=SpaceSnapshot))
    assert copy.snapshot() == snapshot
    assert [(name, h.live) for name, h in copy.devices.items()] == [(name, h.live) for name, h in space.devices.items()]


@settings(deadline=None, max_examples=80)
@given(histories())
def test_no_sequencer_is_ever_both_live_and_done(space: Space) -> None:
    for history in space.devices.values():
        assert all(history.standing(sequencer) is Standing.LIVE for sequencer in history.live)
        assert history.next() > max([*history.live, *history.seen.above, history.seen.watermark])
        assert all(number > history.seen.watermark + 1 for number in history.seen.above)
    live = [number for history in space.devices.values() for number in history.live.values()]
    assert sorted(live) == list(space.events)
