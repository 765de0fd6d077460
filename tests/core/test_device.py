"""Scenarios of a device, told as what it hears and what it then does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core import device_messages as m
from octoloom.core.device import DeviceCore, Phase
from octoloom.core.device_effects import (
    Advanced,
    Dial,
    Effect,
    Full,
    Hangup,
    Limits,
    PendingEvent,
    Persist,
    Reset,
    Saved,
    Send,
    Settled,
    Stopped,
)
from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.event import Outcome


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def welcome(next_: int = 1, version: int = 0, state: Any = None, **more: Any) -> m.Welcome:
    more.setdefault("generation", 7)
    return m.Welcome(epoch=1, version=version, next=next_, state=raw({} if state is None else state), **more)


def ready(saved: Saved | None = None, limits: Limits | None = None, **more: Any) -> DeviceCore:
    core = DeviceCore("lobby", "ada", saved=saved, limits=limits)
    core.on_connected(0)
    core.on_message(0, welcome(**more))
    return core


def said(effects: list[Effect]) -> list[m.FromDevice]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def numbers(message: m.FromDevice) -> list[int]:
    assert isinstance(message, m.Send | m.Bootstrap)
    return [sequencer for sequencer, _, _ in message.events]


def saved_with(*events: PendingEvent, next_: int, version: int = 0, state: Any = None) -> Saved:
    return Saved(next_, version, 7, {} if state is None else state, tuple(events))


# Acting.


def test_an_action_is_numbered_made_durable_and_only_then_said() -> None:
    core = ready()
    ticket, effects = core.act("claim", b'{"cell": 1}')
    event = PendingEvent(1, "claim", b'{"cell": 1}', ticket, "ada")
    assert effects == [
        Persist(2, 0, 7, numbered=(event,)),
        Send(m.Send([(1, "claim", msgspec.Raw(b'{"cell": 1}'))])),
    ]


def test_before_the_welcome_actions_wait_in_order_and_have_no_number() -> None:
    core = DeviceCore("lobby", "ada")
    _, offline = core.act("a", b"1")
    core.on_connected(0)
    _, awaiting = core.act("b", b"2")
    assert said(offline) == said(awaiting) == []
    assert [event.sequencer for event in core.unsettled()] == [0, 0]
    assert core.next_sequencer == 1

    effects = core.on_message(5, welcome(next_=9))
    (message,) = said(effects)
    assert isinstance(message, m.Send)
    assert [(sequencer, name) for sequencer, name, _ in message.events] == [(9, "a"), (10, "b")]
    persist = effects[0]
    assert isinstance(persist, Persist)
    assert (persist.unqueued, persist.next_sequencer) == ((1, 2), 11)


@pytest.mark.parametrize(
    ("name", "payload", "word"),
    [
        ("", b"1", "1 to 64"),
        ("x" * 65, b"1", "shorten"),
        ("@join", b"1", "rename"),
        ("a", b"[" * 33 + b"]" * 33, "flatten"),
        ("a", b'"' + b"x" * 65536 + b'"', "split"),
        ("a", b"{nope", "encode"),
    ],
)
def test_an_impossible_event_is_refused_with_the_next_step_and_changes_nothing(
    name: str, payload: bytes, word: str
) -> None:
    core = ready()
    with pytest.raises(UsageError, match=word):
        core.act(name, payload)
    assert core.unsettled() == []
    assert core.next_sequencer == 1


def test_the_bound_on_unsettled_events_refuses_and_kills_make_room() -> None:
    core = ready(limits=Limits(pending_max=2))
    core.act("a", b"1")
    core.act("b", b"2")
    with pytest.raises(Full, match="2 events"):
        core.act("c", b"3")
    core.on_message(1, m.Changed(since=0, version=1, kills=[(1, "applied", "")]))
    core.act("c", b"3")
    assert list(core.pending) == [2, 3]


def test_the_bound_in_bytes_keeps_a_bootstrap_below_a_message() -> None:
    core = DeviceCore("lobby", "ada")
    payload = b'"' + b"x" * 65_000 + b'"'
    for _ in range(15):
        core.act("big", payload)
    with pytest.raises(Full):
        core.act("big", payload)
    core.on_connected(0)
    core.on_message(0, welcome())
    (bootstrap,) = said(core.on_message(1, m.Gap(999)))
    assert 900_000 < len(msgspec.json.encode(bootstrap)) < 1 << 20


def test_what_has_no_room_after_a_welcome_stays_queued_until_kills_make_room() -> None:
    core = DeviceCore("lobby", "ada", limits=Limits(pending_max=2))
    core.act("new", b"1")
    core.on_connected(0)
    lost = [(4, "x", raw(1)), (5, "y", raw(2))]
    effects = core.on_message(0, welcome(next_=6, events=lost))
    assert said(effects) == []
    assert [event.sequencer for event in core.unsettled()] == [4, 5, 0]
    effects = core.on_message(1, m.Changed(since=0, version=1, kills=[(4, "applied", "")]))
    assert [numbers(message) for message in said(effects)] == [[6]]


# Following the state.


def test_a_change_moves_state_kills_and_version_in_one_step() -> None:
    core = ready(state={"cells": {}})
    ticket, _ = core.act("claim", b"{}")
    effects = core.on_message(
        3, m.Changed(since=0, version=2, patches=[raw({"a": 1}), raw({"a": None, "b": 2})], kills=[(1, "applied", "")])
    )
    assert effects == [
        Persist(2, 2, 7, removed=(1,), patches=(b'{"a":1}', b'{"a":null,"b":2}')),
        Settled(ticket, 1, Outcome.APPLIED, "", 2),
        Advanced(2),
    ]
    assert core.state == {"cells": {}, "b": 2}
    assert core.pending == {}


def test_a_replacement_may_carry_patches_on_top() -> None:
    core = ready(state={"old": 1})
    core.on_message(1, m.Changed(since=0, version=2, state=raw({"n": None}), patches=[raw({"x": 1})]))
    assert core.state == {"n": None, "x": 1}


def test_a_change_that_was_seen_is_ignored_and_one_from_elsewhere_asks_again() -> None:
    core = ready(version=5, state={"v": 5})
    assert core.on_message(1, m.Changed(since=3, version=4, patches=[raw({"v": 4})])) == []
    assert core.on_message(1, m.Changed(since=4, version=5, patches=[raw({"v": 5})])) == []
    for since, version in ((6, 7), (4, 6)):
        effects = core.on_message(1, m.Changed(since=since, version=version, patches=[raw({"v": version})]))
        assert effects == [Send(m.Bootstrap("lobby", "ada", 1, [], 7, 5))]
        assert core.state == {"v": 5}
        core.on_message(2, m.Welcome(generation=7, epoch=1, version=5, next=1))


def test_a_change_that_overtakes_a_welcome_is_left_to_the_welcome() -> None:
    core = ready(version=5, state={"n": 5})
    core.on_message(1, m.Changed(since=6, version=7, patches=[raw({"n": 7})]))
    assert core.on_message(2, m.Changed(since=5, version=6, patches=[raw({"n": 6})])) == []
    core.on_message(3, m.Welcome(generation=7, epoch=1, version=7, next=1, patches=[raw({"n": 6}), raw({"n": 7})]))
    assert (core.version, core.state) == (7, {"n": 7})


def test_an_unknown_outcome_raises_and_changes_nothing() -> None:
    core = ready()
    core.act("a", b"1")
    before = core.snapshot()
    with pytest.raises(ProtocolError, match="unknown-outcome"):
        core.on_message(1, m.Changed(since=0, version=1, patches=[raw({"a": 1})], kills=[(1, "eaten", "")]))
    assert core.snapshot() == before


# Coming back.


def test_a_wiped_device_gets_its_live_events_back_and_never_reuses_a_number() -> None:
    core = DeviceCore("lobby", "ada")
    (bootstrap,) = said(core.on_connected(0))
    assert bootstrap == m.Bootstrap("lobby", "ada", 1, [], 0, 0)
    effects = core.on_message(1, welcome(next_=13, version=40, state={"n": 1}, events=[(12, "x", raw({"k": 1}))]))
    assert core.pending == {12: PendingEvent(12, "x", b'{"k":1}', 0, "ada")}
    assert effects[0] == Persist(13, 40, 7, numbered=(core.pending[12],), state=b'{"n":1}')
    _, effects = core.act("y", b"2")
    assert numbers(said(effects)[0]) == [13]


def test_an_older_copy_learns_what_became_of_its_events() -> None:
    old = saved_with(PendingEvent(3, "a", b"1"), PendingEvent(4, "b", b"2"), next_=5, version=8, state={"n": 8})
    core = DeviceCore("lobby", "ada", saved=old)
    (bootstrap,) = said(core.on_connected(0))
    assert bootstrap == m.Bootstrap("lobby", "ada", 5, [(3, "a", raw(1)), (4, "b", raw(2))], 7, 8)
    effects = core.on_message(
        1,
        m.Welcome(
            generation=7,
            epoch=1,
            version=10,
            next=9,
            kills=[(3, "rejected", "taken"), (4, "forgotten", "")],
            events=[(8, "c", raw(3))],
            patches=[raw({"n": 9}), raw({"n": 10})],
        ),
    )
    assert [effect for effect in effects if isinstance(effect, Settled)] == [
        Settled(0, 3, Outcome.REJECTED, "taken", 10),
        Settled(0, 4, Outcome.FORGOTTEN, "", 10),
    ]
    assert (core.version, core.state, list(core.pending), core.next_sequencer) == (10, {"n": 10}, [8], 9)


def test_a_number_that_was_used_twice_belongs_to_the_chains_event() -> None:
    core = DeviceCore("lobby", "ada", saved=saved_with(PendingEvent(3, "mine", b"1"), next_=4))
    core.on_connected(0)
    effects = core.on_message(1, welcome(4, kills=[(3, "superseded", "why")], events=[(3, "theirs", raw(2))]))
    assert Settled(0, 3, Outcome.SUPERSEDED, "why", 0) in effects
    assert core.pending[3].name == "theirs"
    persist = effects[0]
    assert isinstance(persist, Persist)
    assert (persist.removed, [event.name for event in persist.numbered]) == ((3,), ["theirs"])


def test_another_generation_replaces_the_state_and_says_so() -> None:
    core = ready(version=50, state={"old": 1})
    core.on_disconnected(1)
    core.on_connected(2)
    effects = core.on_message(3, welcome(version=2, state={"new": 1}, generation=8))
    assert effects[1:] == [Reset(8), Advanced(2)]
    assert (core.state, core.version, core.generation) == ({"new": 1}, 2, 8)


def test_a_chain_that_is_behind_what_the_device_saw_is_another_history() -> None:
    core = ready(version=50, state={"old": 1})
    core.on_disconnected(1)
    core.on_connected(2)
    with pytest.raises(ProtocolError, match="no-state"):
        core.on_message(3, m.Welcome(generation=7, epoch=2, version=49))
    assert Reset(7) in core.on_message(3, welcome(version=49, state={"new": 1}))
    assert (core.state, core.version) == ({"new": 1}, 49)


def test_two_bootstraps_in_flight_end_in_one_consistent_place() -> None:
    core = ready(version=5, state={"n": 5}, saved=saved_with(PendingEvent(1, "a", b"1"), next_=2))
    core.on_message(1, m.Gap(99))
    core.on_message(2, m.Refused("too-deep", "flatten it", 1))
    core.on_message(3, m.Welcome(generation=7, epoch=1, version=6, next=2, patches=[raw({"n": 6})]))
    assert core.phase is Phase.READY
    effects = core.on_message(
        4, m.Welcome(generation=7, epoch=1, version=7, next=2, patches=[raw({"n": 6}), raw({"n": 7})])
    )
    assert said(effects) == [m.Bootstrap("lobby", "ada", 2, [], 7, 6)]
    assert core.state == {"n": 6}


# Refusals.


def test_a_gap_is_answered_with_the_same_text_in_one_message() -> None:
    core = ready()
    for text in (b'{"a": 1}', b"[1,  2]", b"3"):
        core.act("e", text)
    (message,) = said(core.on_message(1, m.Gap(2)))
    assert message == m.Send([(2, "e", msgspec.Raw(b"[1,  2]")), (3, "e", msgspec.Raw(b"3"))])


def test_a_gap_at_an_unknown_number_asks_again_and_one_at_the_next_number_needs_nothing() -> None:
    core = ready(next_=5)
    assert core.on_message(1, m.Gap(5)) == []
    assert isinstance(said(core.on_message(1, m.Gap(4)))[0], m.Bootstrap)


def test_busy_waits_then_resends_and_numbers_what_was_queued_meanwhile() -> None:
    core = ready()
    core.act("a", b"1")
    core.on_message(10, m.Busy(1, 50, "slow down"))
    _, effects = core.act("b", b"2")
    assert said(effects) == []
    assert core.on_message(20, m.Gap(1)) == []
    assert core.deadline() == 60
    assert core.on_time(59) == []
    effects = core.on_time(60)
    assert isinstance(effects[0], Persist)
    assert [numbers(message) for message in said(effects)] == [[1, 2]]


def test_sends_are_split() -> None:
    core = DeviceCore("lobby", "ada", limits=Limits(send_max=2))
    for _ in range(5):
        core.act("e", b"1")
    core.on_connected(0)
    assert [numbers(message) for message in said(core.on_message(0, welcome()))] == [[1, 2], [3, 4], [5]]


def test_an_event_that_is_refused_for_good_is_dropped_and_its_number_skipped() -> None:
    core = ready()
    ticket, _ = core.act("bad", b"1")
    core.act("good", b"2")
    effects = core.on_message(1, m.Refused("too-deep", "flatten it", 1))
    assert effects[0] == Persist(3, 0, 7, removed=(1,))
    assert effects[1] == Settled(ticket, 1, Outcome.REJECTED, "too-deep: flatten it", 0)
    assert effects[2] == Send(m.Bootstrap("lobby", "ada", 3, [(2, "good", raw(2))], 7, 0))


@pytest.mark.parametrize("code", ["fenced", "forbidden", "bad-name"])
def test_a_refusal_for_good_stops_the_device(code: str) -> None:
    core = ready()
    assert core.on_message(1, m.Refused(code, "why")) == [Stopped(code, "why")]
    assert core.on_connected(2) == []
    assert core.deadline() is None
    core.on_disconnected(3)
    assert core.phase is Phase.STOPPED


def test_another_refusal_leads_to_another_link() -> None:
    assert ready().on_message(1, m.Refused("too-slow", "read faster")) == [Hangup("too-slow: read faster")]


def test_a_redirect_is_followed_at_once_but_not_for_ever() -> None:
    core = ready(limits=Limits(redirects_max=2))
    for _ in range(2):
        assert core.on_message(1, m.Redirect("ws://b")) == [Dial("ws://b")]
        core.on_connected(2)
    assert core.on_message(3, m.Redirect("ws://b")) == [Hangup("too many redirects")]


def test_redirects_are_counted_from_the_last_welcome_on() -> None:
    core = ready(limits=Limits(redirects_max=2))
    for _ in range(5):
        assert core.on_message(1, m.Redirect("ws://b")) == [Dial("ws://b")]
        core.on_connected(2)
        core.on_message(2, welcome())


def test_an_outcome_that_comes_with_a_known_version_is_kept() -> None:
    core = ready()
    ticket, _ = core.act("claim", b"1")
    effects = core.on_message(1, m.Changed(0, 0, kills=[(1, "applied", "")]))
    assert effects == [Persist(2, 0, 7, removed=(1,)), Settled(ticket, 1, Outcome.APPLIED, "", 0)]
    assert core.on_message(2, m.Changed(0, 0, kills=[(1, "applied", "")])) == []


def test_a_redirect_to_nowhere_waits_and_asks_again() -> None:
    core = DeviceCore("lobby", "ada")
    core.on_connected(0)
    assert core.on_message(1, m.Redirect("", 200)) == []
    assert core.deadline() == 201
    assert said(core.on_time(201)) == [m.Bootstrap("lobby", "ada")]


# Time.


def test_silence_is_pinged_once_and_then_hung_up_on() -> None:
    core = ready()
    assert core.deadline() == 500
    assert core.on_time(499) == []
    assert core.on_time(500) == [Send(m.Ping())]
    assert core.on_time(700) == []
    assert core.deadline() == 1500
    assert core.on_time(1500) == [Hangup("the link is silent")]
    assert (core.phase, core.deadline()) == (Phase.OFFLINE, None)


def test_any_message_is_a_sign_of_life() -> None:
    core = ready()
    core.on_time(500)
    core.on_message(1400, m.Pong())
    assert core.on_time(1500) == []
    assert core.deadline() == 1900


def test_a_pause_of_our_own_process_is_not_the_links_death() -> None:
    core = ready()
    assert core.on_time(60_000) == [Send(m.Ping())]


def test_a_link_that_lives_but_never_answers_is_left() -> None:
    core = DeviceCore("lobby", "ada")
    core.on_connected(0)
    for now in range(500, 5000, 500):
        assert core.on_time(now) == [Send(m.Ping())]
        core.on_message(now, m.Pong())
    assert core.on_time(5000) == [Hangup("the link does not answer the bootstrap")]


# Observers and lives.


def test_an_observer_watches_and_cannot_act() -> None:
    core = DeviceCore("lobby")
    assert core.on_connected(0) == [Send(m.Observe("lobby"))]
    core.on_message(1, m.Welcome(generation=7, epoch=1, version=3, state=raw({"n": 3})))
    core.on_message(2, m.Changed(since=3, version=4, patches=[raw({"n": 4})]))
    assert core.state == {"n": 4}
    with pytest.raises(UsageError, match="observer"):
        core.act("a", b"1")


@given(st.lists(st.sampled_from(["act", "drop", "connect", "welcome", "kill", "gap", "busy", "late", "wipe"])))
def test_numbers_are_given_once_and_saved_steps_rebuild_the_device(steps: list[str]) -> None:
    """Against a dumb chain that takes everything it is sent: no number ever means two events."""
    core, now = DeviceCore("lobby", "ada", limits=Limits(pending_max=8)), 0
    live: dict[int, bytes] = {}
    taken: dict[int, bytes] = {}
    version = count = 0

    def take(effects: list[Effect]) -> None:
        for message in said(effects):
            for sequencer, _, payload in message.events if isinstance(message, m.Send | m.Bootstrap) else []:
                text = bytes(payload)
                assert taken.setdefault(sequencer, text) == text, "a number was given twice"
                live.setdefault(sequencer, text)

    def answer() -> m.Welcome:
        kills = [(s, "forgotten", "") for s in core.pending if s not in live]
        lost = [(s, "e", msgspec.Raw(text)) for s, text in live.items() if s not in core.pending]
        next_ = max([core.next_sequencer, *(s + 1 for s in taken)])
        return welcome(next_, version, {"n": version}, kills=kills, events=lost)

    for step in steps:
        now += 10
        if step == "act" and len(core.unsettled()) < 8:
            count += 1
            take(core.act("e", str(count).encode())[1])
        elif step == "drop":
            core.on_disconnected(now)
        elif step == "connect" and core.phase is Phase.OFFLINE:
            take(core.on_connected(now))
        elif step == "welcome" and core.phase is Phase.AWAITING:
            take(core.on_message(now, answer()))
        elif step == "kill" and live and core.phase is Phase.READY:
            version += 1
            live.pop(first := min(live))
            patch = [raw({"n": version})]
            take(core.on_message(now, m.Changed(version - 1, version, patches=patch, kills=[(first, "applied", "")])))
        elif step in ("gap", "busy") and core.phase is Phase.READY:
            expected = min(live, default=core.next_sequencer)
            take(core.on_message(now, m.Gap(expected) if step == "gap" else m.Busy(expected, 5, "")))
        elif step == "late":
            take(core.on_time(now))
        elif step == "wipe":
            core = DeviceCore("lobby", "ada", limits=Limits(pending_max=8))
        assert core.next_sequencer > max(core.pending, default=0)
        assert len(core.pending) <= 8
        if core.phase is Phase.READY:
            assert core.state == {"n": version}
            assert list(core.pending) == sorted(core.pending)
