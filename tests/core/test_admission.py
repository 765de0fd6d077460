"""The head's door: how a device comes in, which of its events are taken, and what it is told otherwise."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from octoloom.core import device_messages as say
from octoloom.core.admission import Door, Limits, Session
from octoloom.core.backlog import Backlog
from octoloom.core.event import Change, Event, JournalEntry, Kill, Outcome
from octoloom.core.space import Space


def noted(sequencer: int, payload: str = "x", name: str = "put") -> say.DeviceEvent:
    return sequencer, name, msgspec.Raw(msgspec.json.encode(payload))


class Entrance:
    """A door, one space behind it, and the events that came through."""

    def __init__(self, dice: int = 0, **limits: Any) -> None:
        self.space = Space("lobby")
        self.taken: list[Event] = []
        self.door = Door(Limits(**limits), dice, lambda _, events: self.taken.extend(events))
        self.now = 1000

    def bootstrap(
        self, *events: say.DeviceEvent, next_: int = 0, connection: int = 1
    ) -> tuple[say.Welcome, list[say.ToDevice]]:
        above = next_ or max((event[0] for event in events), default=0) + 1
        request = say.Bootstrap("lobby", "ada", next=above, events=list(events))
        return self.door.bootstrap(self.now, connection, request, self.space)

    def send(self, *events: say.DeviceEvent, connection: int = 1) -> say.ToDevice | None:
        return self.door.send(self.now, self.session(connection), list(events), self.space)

    def session(self, connection: int = 1) -> Session:
        return self.door.sessions[connection]

    def settle(self, *sequencers: int, outcome: Outcome = Outcome.APPLIED, reason: str = "") -> None:
        live = self.space.device("ada").live
        events = [self.space.events[live[sequencer]] for sequencer in sequencers]
        kills = [Kill(e.chain_sequencer, "ada", e.sequencer, outcome, reason, e.digest) for e in events]
        self.space.apply(Change(1, self.space.version + 1, False, b"{}", kills))

    def numbers(self) -> list[int]:
        return [event.sequencer for event in self.taken]

    def untouched(self) -> tuple[object, ...]:
        return (self.space.snapshot(), len(self.taken), self.session().expected)


def played(*sequencers: int, **limits: Any) -> Entrance:
    entrance = Entrance(**limits)
    entrance.bootstrap()
    assert entrance.send(*(noted(sequencer) for sequencer in sequencers)) is None
    return entrance


# Bootstrap: where to go on.


def test_a_new_device_starts_at_one() -> None:
    welcome, following = Entrance().bootstrap()
    assert (welcome.next, welcome.kills, welcome.events, following) == (1, [], [], [])


def test_pending_events_are_taken_in_their_order() -> None:
    entrance = Entrance()
    welcome, following = entrance.bootstrap(noted(1), noted(2), noted(3))
    assert (welcome.next, welcome.events, following) == (4, [], [])
    assert entrance.numbers() == [1, 2, 3]
    assert entrance.send(noted(4)) is None
    assert entrance.numbers() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("asked", "live", "done", "answer"),
    [
        (9, [], [], 9),  # what was asked
        (1, [1, 2], [], 3),  # the highest live event, and one
        (1, [], [1, 2], 3),  # the highest done, and one
        (2, [1], [2, 3], 4),  # a deferred one below
        (1, [3], [1, 2], 4),
    ],
)
def test_the_next_number_is_above_all_that_was_asked_is_live_or_is_done(
    asked: int, live: list[int], done: list[int], answer: int
) -> None:
    entrance = played(*sorted([*live, *done]))
    if done:
        entrance.settle(*done)
    welcome, _ = entrance.bootstrap(next_=asked, connection=2)
    assert welcome.next == answer
    assert entrance.session(2).expected == answer


def test_a_wiped_device_gets_its_live_events_back_and_never_reuses_a_number() -> None:
    entrance = played(1, 2, 3)
    entrance.settle(1)
    welcome, _ = entrance.bootstrap(connection=2)
    assert [(sequencer, name, bytes(payload)) for sequencer, name, payload in welcome.events] == [
        (2, "put", b'"x"'),
        (3, "put", b'"x"'),
    ]
    assert (welcome.next, welcome.kills) == (4, [])
    assert entrance.send(noted(1, "again"), connection=2) is None
    assert entrance.numbers() == [1, 2, 3], "a number that was given is never taken again"


def test_an_older_copy_of_a_device_learns_how_its_events_ended() -> None:
    entrance = played(1, 2, 3)
    entrance.settle(1)
    entrance.settle(2, outcome=Outcome.REJECTED, reason="taken")
    welcome, _ = entrance.bootstrap(noted(1), noted(2), connection=2)
    assert welcome.kills == [(1, "applied", ""), (2, "rejected", "taken")]
    assert [event[0] for event in welcome.events] == [3]
    assert welcome.next == 4
    assert entrance.numbers() == [1, 2, 3]


def test_a_resent_event_that_still_lives_needs_no_answer() -> None:
    entrance = played(1)
    welcome, _ = entrance.bootstrap(noted(1), connection=2)
    assert (welcome.kills, welcome.events, welcome.next) == ([], [], 2)
    assert entrance.numbers() == [1]


def test_a_reused_number_is_superseded_by_the_done_event() -> None:
    entrance = played(1)
    entrance.settle(1)
    welcome, _ = entrance.bootstrap(noted(1, "another deed"), connection=2)
    assert welcome.kills == [(1, "superseded", "another event took this number")]
    assert entrance.numbers() == [1]


@pytest.mark.parametrize("reused", [noted(1, "another deed"), noted(1, name="take")])
def test_a_reused_number_is_superseded_once_the_live_event_is_settled(reused: say.DeviceEvent) -> None:
    """This link may not be the head any more, and another one may have settled the number otherwise."""
    entrance = played(1)
    welcome, _ = entrance.bootstrap(reused, connection=2)
    assert (welcome.kills, welcome.events) == ([], [])
    assert entrance.door.is_contested(2, 1)
    assert not entrance.door.is_contested(2, 1)
    entrance.settle(1)
    welcome, _ = entrance.bootstrap(reused, connection=3)
    assert welcome.kills == [(1, "superseded", "another event took this number")]


def test_a_number_below_a_live_one_waits_too() -> None:
    entrance = Entrance()
    entrance.bootstrap(next_=9)
    entrance.send(noted(9))
    request = say.Bootstrap("lobby", "ada", next=10, events=[noted(5)])
    assert entrance.door.must_wait(request, entrance.space)
    entrance.settle(9)
    assert not entrance.door.must_wait(request, entrance.space)


def test_a_bootstrap_that_hits_a_bound_takes_what_fits_and_says_where_to_go_on() -> None:
    entrance = Entrance(device_pending_max=2)
    welcome, following = entrance.bootstrap(noted(1), noted(2), noted(3), noted(4))
    assert entrance.numbers() == [1, 2]
    assert following == [say.Busy(3, 50, "2 events of this device are pending")]
    assert welcome.next == 5
    entrance.settle(1, 2)
    assert entrance.send(noted(3), noted(4)) is None
    assert entrance.numbers() == [1, 2, 3, 4]


# Events.


def test_the_door_takes_the_expected_number_only() -> None:
    entrance = played(1, 2)
    assert entrance.send(noted(1), noted(2)) is None, "duplicates are dropped in silence"
    assert entrance.send(noted(5)) == say.Gap(3)
    assert entrance.send(noted(2), noted(3), noted(5), noted(4)) == say.Gap(4)
    assert entrance.numbers() == [1, 2, 3]


def test_events_get_their_place_their_time_and_dice() -> None:
    entrance = Entrance(dice=7)
    entrance.bootstrap()
    entrance.send(noted(1), noted(2))
    first, second = entrance.taken
    assert (first.chain_sequencer, second.chain_sequencer) == (1, 2)
    assert (first.device, first.name, first.payload, first.time_ms) == ("ada", "put", b'"x"', 1000)
    assert first.dice != second.dice
    assert 0 <= first.dice < 1 << 64
    assert list(entrance.space.events.values()) == entrance.taken


def test_dice_differ_from_head_to_head() -> None:
    entrances = [Entrance(dice=1), Entrance(dice=2)]
    for entrance in entrances:
        entrance.bootstrap(noted(1))
    assert entrances[0].taken[0].dice != entrances[1].taken[0].dice


def test_time_never_goes_back_in_a_space() -> None:
    entrance = Entrance()
    entrance.space.time_ms = 5000  # the head before had a clock that went ahead
    entrance.bootstrap(noted(1))
    entrance.now = 5001
    entrance.send(noted(2))
    assert [event.time_ms for event in entrance.taken] == [5000, 5001]


# Refusals change nothing.

DEEP = msgspec.Raw(b"[" * 33 + b"]" * 33)


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ((2, "put", msgspec.Raw(b'"' + b"x" * 65536 + b'"')), "payload-too-large"),
        ((2, "put", DEEP), "too-deep"),
        ((2, "", msgspec.Raw(b"1")), "bad-"),
        ((2, "n" * 65, msgspec.Raw(b"1")), "bad-"),
        ((2, "@join", msgspec.Raw(b"1")), "bad-"),
    ],
)
def test_what_can_never_be_taken_is_named_and_changes_nothing(event: say.DeviceEvent, code: str) -> None:
    entrance = played(1)
    before = entrance.untouched()
    answer = entrance.send(event, noted(3))
    assert isinstance(answer, say.Refused)
    assert answer.code.startswith(code)
    assert answer.sequencer == 2
    assert entrance.untouched() == before
    assert entrance.send(noted(2)) is None, "another event may have the number"


def test_a_payload_at_the_bounds_is_taken() -> None:
    entrance = played(1)
    whole = msgspec.Raw(b'"' + b"x" * 65534 + b'"')
    assert entrance.send((2, "n" * 64, whole), (3, "put", msgspec.Raw(b"[" * 32 + b"]" * 32))) is None


@pytest.mark.parametrize(
    ("limits", "detail"),
    [
        ({"device_pending_max": 2}, "2 events of this device are pending"),
        ({"space_pending_max": 2}, "2 events of this space are pending"),
        ({"rate_max": 2}, "at most 2 events a second"),
    ],
)
def test_at_a_bound_the_device_is_told_to_wait_and_nothing_changes(limits: dict[str, int], detail: str) -> None:
    entrance = played(1, 2, **limits)
    before = entrance.untouched()
    assert entrance.send(noted(3)) == say.Busy(3, 50, detail)
    assert entrance.untouched() == before
    entrance.settle(1, 2)
    entrance.now += 500
    assert entrance.send(noted(3)) is None


def test_the_allowance_fills_as_time_goes_by_and_never_overflows() -> None:
    entrance = played(1, 2, rate_max=2)
    entrance.now += 499
    assert isinstance(entrance.send(noted(3)), say.Busy)
    entrance.now += 1
    assert entrance.send(noted(3)) is None
    entrance.now += 60_000
    assert entrance.send(noted(4), noted(5)) is None
    assert isinstance(entrance.send(noted(6)), say.Busy)


# Connections.


def test_only_the_newest_connection_of_a_device_owns_its_name() -> None:
    entrance = played(1)
    entrance.bootstrap(connection=2)
    assert entrance.door.owners_of("lobby") == {"ada": 2}
    assert entrance.door.close(1) is None, "the older one says nothing of the device's leaving"
    assert entrance.door.owners_of("lobby") == {"ada": 2}
    gone = entrance.door.close(2)
    assert gone is not None
    assert (gone.space, gone.device) == ("lobby", "ada")
    assert entrance.door.owners_of("lobby") == {}
    assert entrance.door.close(2) is None


def test_a_space_that_is_far_ahead_of_its_journal_is_busy() -> None:
    entrance = played(1, backlog_max=1000)
    backlog = entrance.space.backlog = Backlog()
    entrance.settle(1)
    assert entrance.send(noted(2)) is None
    backlog.push(JournalEntry(2, Change(1, 2, False, b'"%s"' % (b"x" * 2000), []), []))
    answer = entrance.send(noted(3))
    assert isinstance(answer, say.Busy)
    assert (answer.expected, entrance.numbers()) == (3, [1, 2])
    backlog.on_journaled(2)
    assert entrance.send(noted(3)) is None
