"""One change against its events and its space."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core import merge_patch
from octoloom.core.change_audit import (
    effect_wrongs,
    event_wrongs,
    idle_path,
    presence_wrongs,
    time_wrongs,
    timer_wrongs,
)
from octoloom.core.event import JOIN, PRESENCE, TIMER, Change, Event, Kill, Outcome, Timer
from octoloom.core.space import Space

ADA = Event(5, "ada", 3, "move", b'{"to":1}', 1000, 7)
BOB = Event(6, "bob", 8, "move", b'{"to":2}', 1001, 7)


def kill_of(event: Event, outcome: Outcome = Outcome.APPLIED) -> Kill:
    return Kill(event.chain_sequencer, event.device, event.sequencer, outcome, "", event.digest)


def change(*events: Event, **fields: Any) -> Change:
    return msgspec.structs.replace(Change(1, 2, False, b"{}", [kill_of(each) for each in events]), **fields)


def names(wrongs: Any) -> list[str]:
    return [wrong[0] for wrong in wrongs]


def test_the_events_are_those_that_are_settled() -> None:
    both = change(ADA, BOB)
    assert names(event_wrongs(both, [ADA, BOB])) == []
    assert names(event_wrongs(both, [ADA])) == ["event-missing"]
    assert names(event_wrongs(both, [BOB, ADA])) == ["event-mismatch"]
    assert names(event_wrongs(change(ADA), [ADA, BOB])) == ["event-mismatch"]
    assert names(event_wrongs(both, [ADA, msgspec.structs.replace(BOB, sequencer=9)])) == ["event-mismatch"]
    assert names(event_wrongs(both, [ADA, msgspec.structs.replace(BOB, payload=b'{"to":3}')])) == ["digest-differs"]
    forgotten = msgspec.structs.replace(both, kills=[kill_of(ADA, Outcome.FORGOTTEN), kill_of(BOB)])
    assert names(event_wrongs(forgotten, [ADA, BOB])) == ["outcome-invalid"]


def test_time_goes_on_along_the_chain() -> None:
    assert names(time_wrongs([ADA, BOB], 4, 1000)) == []
    assert names(time_wrongs([BOB, ADA], 4, 1000)) == []
    assert names(time_wrongs([ADA], 4, 1001)) == ["time-back"]
    assert names(time_wrongs([ADA], 5, 1001)) == []  # it was deferred, and is older than what was settled


def bang(number: int, payload: bytes = b"null") -> Event:
    return Event(9, TIMER, number, "bang", payload, 1000, 0)


def test_timers_go_off_if_they_are_set() -> None:
    space = Space("s")
    space.timers, space.next_timer = {2: Timer(2, 900, "bang", b"null")}, 3
    assert names(timer_wrongs(change(bang(2)), [bang(2)], space)) == []
    assert names(timer_wrongs(change(bang(1)), [bang(1)], space)) == ["timer-unset"]
    assert names(timer_wrongs(change(bang(2, b"1")), [bang(2, b"1")], space)) == ["timer-unset"]
    superseded = [kill_of(bang(2), Outcome.SUPERSEDED)]
    assert names(timer_wrongs(change(kills=superseded), [bang(2)], space)) == ["timer-dropped"]
    assert names(timer_wrongs(change(kills=superseded, cancelled=[2]), [bang(2)], space)) == []
    assert names(timer_wrongs(change(timers=[Timer(3, 1, "x", b"1")]), [], space)) == []
    assert names(timer_wrongs(change(timers=[Timer(4, 1, "x", b"1")]), [], space)) == ["timer-number"]


def test_who_is_present_follows_from_the_events() -> None:
    join = Event(7, PRESENCE, 1, JOIN, b'{"device":"ada"}', 0, 0)
    assert names(presence_wrongs(change(join, presence=[("ada", True)]), [join])) == []
    assert names(presence_wrongs(change(join), [join])) == ["presence-differs"]
    assert names(presence_wrongs(change(ADA, presence=[("ada", False)]), [ADA])) == ["presence-differs"]


def test_an_effect_has_a_cause() -> None:
    space = Space("s")
    rejected = change(kills=[kill_of(ADA, Outcome.REJECTED)], merge=b'{"a":1}')
    assert names(effect_wrongs(rejected, space)) == []  # the first change brings the initial state
    space.version, space.state = 1, {"b": {"c": 1}}
    assert names(effect_wrongs(rejected, space)) == ["effect-without-cause"]
    assert names(effect_wrongs(change(ADA, merge=b'{"a":1}'), space)) == []
    assert names(effect_wrongs(change(ADA, merge=b'{"b":{"c":1}}'), space)) == ["patch-idle"]
    assert names(effect_wrongs(change(ADA, merge=b'{"b":{"c":1}}', replace=True), space)) == []


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"a": None}, None),
        ({"z": None}, ("z",)),
        ({"a": 1}, ("a",)),
        ({"a": True}, None),
        ({"a": {}}, None),
        ({"b": {}}, ("b",)),
        ({"b": {"c": {"d": 2}}}, None),
        ({"b": {"c": {"d": 1}}}, ("b", "c", "d")),
        ({"a": 2, "b": {"x": None}}, ("b", "x")),
    ],
)
def test_what_says_nothing_new_is_idle(patch: Any, path: tuple[str, ...] | None) -> None:
    assert idle_path({"a": 1, "b": {"c": {"d": 1}}}, patch) == path


values = st.recursive(
    st.booleans() | st.integers(0, 2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
)
states = st.dictionaries(st.sampled_from("xyz"), values, max_size=3)


@given(states, states)
def test_a_smallest_patch_is_never_idle(old: Any, new: Any) -> None:
    assert idle_path(old, merge_patch.diff(old, new)) is None
