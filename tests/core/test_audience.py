"""Who watches: each is told committed versions only, once, in order; whoever lags is told the difference."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.core import audience as audience_module
from octoloom.core import device_messages as say
from octoloom.core import merge_patch
from octoloom.core import ring as ring_module
from octoloom.core.audience import Audience, Content
from octoloom.core.effects import Effect, Fan, Tell
from octoloom.core.event import Change, Kill, Outcome
from octoloom.core.space import Space

OWNERS = {"ada": 1, "bob": 2}


def change(version: int, merge: Any = None, *killed: str, replace: bool = False) -> Change:
    kills = [Kill(version, device, version, Outcome.APPLIED) for device in killed]
    return Change(1, version, replace, msgspec.json.encode(merge or {}), kills)


class Room:
    """A space and its audience on a head: a change is committed as soon as it is there."""

    def __init__(self, *watchers: int) -> None:
        self.space = Space("lobby")
        self.audience = Audience(self.space)
        self.enter(*watchers)

    def enter(self, *connections: int) -> list[Effect]:
        out: list[Effect] = self.audience.publish()
        for connection in connections:
            content = self.audience.content(None)
            welcome = say.Welcome(
                1, 1, content.version, state=msgspec.Raw(content.state or b"null"), patches=raw(content.patches)
            )
            out += self.audience.welcome(connection, welcome)
        return out

    def change(self, merge: Any = None, *killed: str, commit: bool = True, replace: bool = False) -> None:
        made = change(self.space.version + 1, merge, *killed, replace=replace)
        self.space.apply(made)
        if commit:
            self.space.committed = self.space.version
            self.audience.note(made, OWNERS, lambda _connection, _sequencer: False)


def raw(patches: list[bytes]) -> list[msgspec.Raw]:
    return [msgspec.Raw(patch) for patch in patches]


def shown(state: Any, content: Content) -> Any:
    """What one sees who had `state` and is told `content`."""
    state = state if content.state is None else msgspec.json.decode(content.state)
    for patch in content.patches:
        state = merge_patch.apply(state, msgspec.json.decode(patch))
    return state


def told(effects: list[Effect]) -> Any:
    """The one message that was told, as what it makes of its receiver's state."""
    (effect,) = effects
    assert isinstance(effect, Tell)
    return effect.message


# Those who keep up.


def test_a_change_is_told_to_all_at_once_and_in_one_text() -> None:
    room = Room(1, 2, 3)
    room.change({"a": 1}, "ada")
    assert room.audience.publish() == [Fan([1, 2, 3], 0, 1, None, [b'{"a":1}'], {1: [(1, "applied", "")]})]
    assert room.audience.publish() == [], "once"


def test_the_changes_of_a_turn_are_told_together() -> None:
    room = Room(1)
    room.change({"a": 1})
    room.change({"b": 2})
    assert room.audience.publish() == [Fan([1], 0, 2, None, [b'{"a":1}', b'{"b":2}'], {})]


def test_a_replacement_makes_what_came_before_it_pointless() -> None:
    room = Room(1)
    room.change({"a": 1})
    room.change({"b": None}, replace=True)
    room.change({"c": 3})
    assert room.audience.publish() == [Fan([1], 0, 3, b'{"b":null}', [b'{"c":3}'], {})]


def test_with_nobody_there_nothing_is_told_but_the_versions_go_on() -> None:
    room = Room()
    room.change({"a": 1})
    assert room.audience.publish() == []
    assert room.audience.version == 1


def test_the_outcomes_of_those_who_left_are_dropped() -> None:
    room = Room(1, 2)
    room.change({"a": 1}, "ada", "bob")
    room.audience.drop(1)
    assert room.audience.publish() == [Fan([2], 0, 1, None, [b'{"a":1}'], {2: [(1, "applied", "")]})]
    assert len(room.audience) == 1


def test_whoever_is_further_back_than_the_ring_is_shown_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "CHANGES_MAX", 1)
    room = Room(1)
    room.change({"a": 1})
    room.change({"b": 2})
    (fan,) = room.audience.publish()
    assert isinstance(fan, Fan)
    assert (fan.version, fan.state and msgspec.json.decode(fan.state), fan.patches) == (2, {"a": 1, "b": 2}, [])


# Coming in.


def test_a_newcomer_sees_the_state_and_is_told_the_next_change() -> None:
    room = Room()
    room.change({"a": 1})
    welcome = told(room.enter(7))
    assert (welcome.version, bytes(welcome.state)) == (1, b'{"a":1}')
    room.change({"b": 2})
    assert room.audience.publish() == [Fan([7], 1, 2, None, [b'{"b":2}'], {})]


def test_one_who_comes_back_gets_only_what_it_missed() -> None:
    room = Room()
    for number in range(3):
        room.change({"n": number})
    assert room.audience.content(1) == Content(3, None, [b'{"n":1}', b'{"n":2}'])
    assert room.audience.content(3) == Content(3, None, [])


def test_a_newcomer_shares_an_older_text_with_the_changes_since() -> None:
    room = Room()
    room.change({"long": "x" * 1000})
    first = room.audience.content(None)
    room.change({"a": 1})
    second = room.audience.content(None)
    assert second.state is first.state, "one text for many newcomers"
    assert second.patches == [b'{"a":1}']
    assert shown(None, second) == room.space.state


def test_a_newcomer_after_a_replacement_sees_the_new_state_and_nothing_of_the_old() -> None:
    room = Room()
    room.change({"long": "x" * 1000})
    room.enter(7)
    room.change({"none": None}, replace=True)
    assert shown(None, room.audience.content(None)) == room.space.state == {"none": None}


# Those who lag.


def test_one_who_cannot_keep_up_is_told_nothing_until_it_has_room_again() -> None:
    room = Room(1, 2)
    room.audience.congested(2)
    room.change({"a": 1})
    room.change({"a": 2}, "bob")
    assert room.audience.publish() == [Fan([1], 0, 2, None, [b'{"a":1}', b'{"a":2}'], {})]
    room.audience.drained(2)
    changed = told(room.audience.publish())
    assert (changed.since, changed.version, changed.kills) == (0, 2, [(2, "applied", "")])
    assert list(map(bytes, changed.patches)) == [b'{"a":1}', b'{"a":2}']
    room.change({"a": 3})
    assert room.audience.publish() == [Fan([1, 2], 2, 3, None, [b'{"a":3}'], {})]


def test_one_who_lags_far_gets_one_difference_instead_of_every_change() -> None:
    room = Room(1)
    room.audience.congested(1)
    for number in range(50):
        room.change({"n": number, f"k{number % 3}": None if number % 2 else number})
    room.audience.publish()
    room.audience.drained(1)
    changed = told(room.audience.publish())
    assert len(changed.patches) <= 2
    assert shown({}, Content(0, None, [bytes(patch) for patch in changed.patches])) == room.space.state


def test_one_who_missed_nothing_is_told_nothing() -> None:
    room = Room(1)
    room.audience.congested(1)
    room.audience.drained(1)
    assert room.audience.publish() == []
    assert list(room.audience.watching) == [1]


def test_one_who_was_sent_away_while_it_lagged_is_not_told() -> None:
    room = Room(1)
    room.audience.congested(1)
    room.change({"a": 1}, "ada")
    room.audience.drained(1)
    room.audience.drop(1)
    assert room.audience.publish() == []
    assert len(room.audience) == 0


def test_a_lagging_device_is_owed_its_outcomes_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audience_module, "OWED_MAX", 3)
    room = Room(1, 2)
    room.audience.congested(1)
    for _ in range(3):
        room.change({}, "ada")
    assert [type(effect) for effect in room.audience.publish()] == [Fan]
    room.change({}, "ada")
    refused, fan = room.audience.publish()
    assert refused == Tell(1, say.Refused("too-slow", "read faster, or connect again"), close=True)
    assert isinstance(fan, Fan)
    assert list(room.audience.lagging) == []


# On a link that is not the head.


def test_uncommitted_changes_are_not_told() -> None:
    room = Room(1)
    room.change({"a": 1}, commit=False)
    room.change({"b": 2}, commit=False)
    assert room.audience.publish() == []
    room.space.committed = 1
    assert room.audience.publish() == [Fan([1], 0, 1, None, [b'{"a":1}'], {})]
    room.space.committed = 2
    assert room.audience.publish() == [Fan([1], 1, 2, None, [b'{"b":2}'], {})]


def test_one_who_lags_far_is_told_nothing_uncommitted_either() -> None:
    room = Room(1)
    room.audience.congested(1)
    for number in range(20):
        room.change({"n": number, "odd": None if number % 2 else number})
    committed = msgspec.json.decode(msgspec.json.encode(room.space.state))
    room.change({"n": "secret", "new": 1}, commit=False)
    room.audience.drained(1)
    changed = told(room.audience.publish())
    assert changed.version == 20
    assert shown({}, Content(0, None, [bytes(patch) for patch in changed.patches])) == committed


def test_a_newcomer_waits_where_only_an_uncommitted_state_is_at_hand() -> None:
    room = Room()
    room.change({"a": 1}, commit=False)
    assert room.enter(7) == []
    assert len(room.audience) == 1
    room.change({"b": 2}, commit=False)
    assert room.audience.publish() == []
    room.space.committed = 1
    welcome = told(room.audience.publish())
    assert (welcome.version, bytes(welcome.state)) == (1, b'{"a":1}')
    room.space.committed = 2
    assert room.audience.publish() == [Fan([7], 1, 2, None, [b'{"b":2}'], {})]


def test_a_newcomer_is_told_how_its_events_ended_once() -> None:
    """What its welcome says is not owed to it as well; what comes after it is."""
    room = Room()
    room.change({"a": 1}, "ada", commit=False)
    welcome = say.Welcome(1, 1, 1, state=msgspec.Raw(b"{}"), kills=[(1, "applied", "")])
    assert room.audience.welcome(1, welcome, hold=1) == []
    room.change({"b": 1}, "ada", commit=False)
    for version in (1, 2):
        room.space.committed = version
        room.audience.note(change(version, {}, "ada"), OWNERS, lambda _connection, _sequencer: False)
    first, *rest = room.audience.publish()
    assert first == Tell(1, welcome)
    owed = [kill for effect in rest if isinstance(effect, Tell) for kill in effect.message.kills]  # type: ignore[union-attr]
    assert owed == [(2, "applied", "")]


def test_watchers_wait_too_where_the_way_to_the_committed_version_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "CHANGES_MAX", 1)
    room = Room(1)
    for number in range(3):
        room.change({"n": number}, commit=False)
    room.space.committed = 2
    assert room.audience.publish() == [], "the state at hand is version 3's"
    room.space.committed = 3
    (fan,) = room.audience.publish()
    assert isinstance(fan, Fan)
    assert (fan.since, fan.version, fan.state) == (0, 3, b'{"n":2}')


# All of it, against what each should see.

steps = st.lists(
    st.tuples(
        st.sampled_from(["change", "change", "commit", "publish", "enter", "congested", "drained", "drop"]),
        st.integers(1, 4),
        st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 9) | st.just({"x": 1}), max_size=2),
    ),
    max_size=60,
)


@settings(deadline=None, max_examples=150)
@given(steps)
def test_whoever_watches_sees_the_committed_states_in_order(script: list[tuple[str, int, Any]]) -> None:
    room, texts, screens = Room(), list[Any]([{}]), dict[int, tuple[int, Any]]()

    def obey(effects: list[Effect]) -> None:
        for effect in effects:
            message: Any = effect if isinstance(effect, Fan) else getattr(effect, "message", None)
            content = Content(message.version, _text(message.state), [bytes(patch) for patch in message.patches])
            for connection in effect.connections if isinstance(effect, Fan) else [getattr(effect, "connection", 0)]:
                version, state = screens.get(connection, (0, None))
                assert isinstance(message, say.Welcome) or message.since == version
                assert version <= message.version <= room.space.committed
                screens[connection] = (message.version, shown(merge_patch.copied(state), content))
                assert screens[connection][1] == texts[message.version]

    for word, connection, merge in script:
        if word == "change":
            room.change(merge, commit=False)
            texts.append(merge_patch.copied(room.space.state))
        elif word == "commit":
            room.space.committed = min(room.space.version, room.space.committed + connection)
        elif word == "publish":
            obey(room.audience.publish())
        elif word == "enter":
            screens.pop(connection, None)
            room.audience.drop(connection)  # as the service does with one who comes in again
            obey(room.enter(connection))
        else:
            getattr(room.audience, word)(connection)
            if word == "drop":
                screens.pop(connection, None)
    room.space.committed = room.space.version
    for connection in range(1, 5):
        room.audience.drained(connection)
    obey(room.audience.publish())
    obey(room.audience.publish())
    assert all(version == room.space.version for version, _ in screens.values())


def _text(state: bytes | msgspec.Raw | msgspec.UnsetType | None) -> bytes | None:
    return None if state is None or isinstance(state, msgspec.UnsetType) else bytes(state)


def test_what_follows_a_welcome_waits_with_it() -> None:
    """A device that is told `busy` before its welcome forgets it: it would hold an event that nobody asks for again."""
    room, busy = Room(), say.Busy(26, 50, "4 events of this device are pending")
    welcome = say.Welcome(1, 1, 0, state=msgspec.Raw(b"{}"))
    assert room.audience.welcome(1, welcome, hold=1, following=[busy]) == []
    room.change({"n": 1}, commit=False)
    assert room.audience.publish() == []
    room.space.committed = 1
    assert room.audience.publish()[:2] == [Tell(1, welcome), Tell(1, busy)]


def test_what_follows_a_welcome_comes_second() -> None:
    room, busy = Room(), say.Busy(26, 50, "4 events of this device are pending")
    welcome = say.Welcome(1, 1, 0, state=msgspec.Raw(b"{}"))
    assert room.audience.welcome(1, welcome, following=[busy]) == [Tell(1, welcome), Tell(1, busy)]
