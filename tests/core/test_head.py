"""What only a head does: joins, leaves after a grace, and timers that fire once, whoever the head is."""

from __future__ import annotations

from typing import Any

from octoloom.core import device_messages as say
from octoloom.core.admission import Limits
from octoloom.core.event import JOIN, LEAVE, PRESENCE, TIMER, Change, Event, Kill, Outcome, Timer
from octoloom.core.head import Head
from octoloom.core.space import Space, decode_json

GRACE_MS = Limits().leave_grace_ms


class Office:
    """A head with one space; `story` is what it made of what happened."""

    def __init__(self, space: Space | None = None) -> None:
        self.space = space or Space("lobby")
        self.made: list[Event] = []
        self.head = Head(Limits(), 0, lambda _, events: self.made.extend(events))
        self.now = 1000

    def take_office(self) -> None:
        self.head.take_office(self.now, [self.space])

    def come(self, device: str, connection: int) -> None:
        self.head.door.bootstrap(self.now, connection, say.Bootstrap("lobby", device), self.space)
        self.head.joined(self.now, self.space, device)

    def go(self, connection: int) -> None:
        session = self.head.door.close(connection)
        assert session is not None
        self.head.gone(self.now, session.space, session.device)

    def fire(self, now: int) -> None:
        self.now = now
        self.head.fire(now, {"lobby": self.space})

    def settle(self, *timers: Timer, cancelled: tuple[int, ...] = ()) -> None:
        """The tail consumes all that lives, and sets timers."""
        kills, presence = [], []
        for event in self.space.events.values():
            kills.append(Kill(event.chain_sequencer, event.device, event.sequencer, Outcome.APPLIED))
            if event.device == PRESENCE:
                presence.append((decode_json(event.payload)["device"], event.name == JOIN))
        version = self.space.version + 1
        change = Change(1, version, False, b"{}", kills, list(timers), list(cancelled), presence)
        self.space.apply(change)
        self.head.on_change(self.space, change)

    @property
    def story(self) -> list[tuple[str, Any]]:
        return [
            (event.name, decode_json(event.payload)["device"] if event.device == PRESENCE else event.sequencer)
            for event in self.made
        ]


def timer(number: int, due_ms: int) -> Timer:
    return Timer(number, due_ms, "ring", b'"ding"')


# Coming and going.


def test_a_device_joins_once_however_often_it_connects() -> None:
    office = Office()
    office.come("ada", 1)
    office.come("ada", 2)
    office.settle()
    office.come("ada", 3)
    office.come("bob", 4)
    assert office.story == [(JOIN, "ada"), (JOIN, "bob")]
    assert [event.sequencer for event in office.made] == [1, 2]


def test_a_leave_waits_for_the_grace_and_is_noted_once() -> None:
    office = Office()
    office.come("ada", 1)
    office.go(1)
    assert office.head.deadline() == 1000 + GRACE_MS
    office.fire(1000 + GRACE_MS - 1)
    assert office.story == [(JOIN, "ada")]
    office.fire(1000 + GRACE_MS)
    office.fire(9000 + GRACE_MS)
    assert office.story == [(JOIN, "ada"), (LEAVE, "ada")]
    assert office.head.deadline() is None


def test_whoever_comes_back_within_the_grace_never_left() -> None:
    office = Office()
    office.come("ada", 1)
    office.go(1)
    office.now += GRACE_MS - 1
    office.come("ada", 2)
    office.fire(1000 + 2 * GRACE_MS)
    assert office.story == [(JOIN, "ada")]


def test_every_absence_has_its_own_grace() -> None:
    office = Office()
    office.come("ada", 1)
    office.go(1)
    office.now += 1000
    office.come("ada", 2)
    office.now += GRACE_MS - 1001
    office.go(2)
    office.fire(1000 + GRACE_MS)
    assert office.story == [(JOIN, "ada")], "she has been gone for a millisecond"
    office.fire(1000 + 2 * GRACE_MS)
    assert office.story == [(JOIN, "ada"), (LEAVE, "ada")]


def test_whoever_comes_back_later_joins_again() -> None:
    office = Office()
    office.come("ada", 1)
    office.go(1)
    office.fire(1000 + GRACE_MS)
    office.settle()
    office.come("ada", 2)
    assert office.story == [(JOIN, "ada"), (LEAVE, "ada"), (JOIN, "ada")]


def test_a_new_head_gives_everyone_the_grace_to_come_back() -> None:
    old = Office()
    old.come("ada", 1)
    old.come("bob", 2)
    old.settle()
    new = Office(old.space)
    new.now = 3000
    new.take_office()
    new.come("ada", 9)
    new.fire(3000 + GRACE_MS)
    assert new.story == [(LEAVE, "bob")], "ada came back, and did not join twice"


def test_a_new_head_counts_the_joins_and_leaves_that_are_under_way() -> None:
    old = Office()
    old.come("ada", 1)
    old.settle()
    old.come("bob", 2)
    old.go(1)
    old.fire(1000 + GRACE_MS)
    assert old.story == [(JOIN, "ada"), (JOIN, "bob"), (LEAVE, "ada")]
    new = Office(old.space)
    new.take_office()
    new.come("bob", 8)
    new.come("ada", 9)
    assert new.story == [(JOIN, "ada")]
    assert new.made[0].sequencer == 4, "above the presence events that still live"


def test_after_a_jump_the_head_counts_anew() -> None:
    office = Office()
    office.come("ada", 1)
    ahead = Space("lobby")
    ahead.apply(Change(1, 1, False, b"{}", [], [timer(1, 4000)], [], [("bob", True)]))
    ahead.next_chain_sequencer = 2
    office.space.restore(ahead.snapshot())
    office.head.on_replaced(office.now, office.space)
    office.come("bob", 2)
    assert office.story == [(JOIN, "ada")], "bob is there already"
    office.fire(4000)
    assert office.story[1:] == [("ring", 1)]


def test_after_a_jump_whoever_does_not_come_back_leaves() -> None:
    office = Office()
    ahead = Space("lobby")
    ahead.apply(Change(1, 1, False, b"{}", [], presence=[("ada", True), ("bob", True)]))
    office.space.restore(ahead.snapshot())
    office.head.on_replaced(office.now, office.space)
    office.come("bob", 2)
    office.fire(1000 + GRACE_MS)
    assert office.story == [(LEAVE, "ada")]


# Timers.


def test_a_timer_fires_once_when_it_is_due() -> None:
    office = Office()
    office.settle(timer(1, 1500))
    assert office.head.deadline() == 1500
    office.fire(1499)
    assert office.made == []
    office.fire(1500)
    (event,) = office.made
    assert (event.device, event.sequencer, event.name, event.payload) == (TIMER, 1, "ring", b'"ding"')
    office.fire(1600)
    office.settle()
    office.fire(1700)
    assert len(office.made) == 1
    assert office.space.timers == {}


def test_timers_fire_in_the_order_of_their_times() -> None:
    office = Office()
    office.settle(timer(1, 1900), timer(2, 1500), timer(3, 1700))
    office.fire(2000)
    assert office.story == [("ring", 2), ("ring", 3), ("ring", 1)]


def test_a_cancelled_timer_stays_silent() -> None:
    office = Office()
    office.settle(timer(1, 1500), timer(2, 1500))
    office.settle(cancelled=(1,))
    office.fire(1500)
    assert office.story == [("ring", 2)]


def test_a_new_head_fires_what_the_old_one_did_not_and_nothing_twice() -> None:
    old = Office()
    old.settle(timer(1, 1500), timer(2, 9000))
    old.fire(1500)
    assert old.story == [("ring", 1)]
    new = Office(old.space)
    new.now = 1600
    new.take_office()
    new.fire(1600)
    assert new.story == [], "the event of timer 1 is under way"
    new.fire(9000)
    assert new.story == [("ring", 2)]


def test_a_new_head_fires_at_once_what_was_due_while_nobody_was_head() -> None:
    space = Space("lobby")
    space.apply(Change(1, 1, False, b"{}", [], [timer(1, 1500)]))
    new = Office(space)
    new.now = 7000
    new.take_office()
    new.fire(7000)
    assert new.story == [("ring", 1)]
    assert new.made[0].time_ms == 7000


def test_what_is_due_in_a_space_that_is_gone_is_dropped() -> None:
    office = Office()
    office.settle(timer(1, 1500))
    office.head.fire(2000, {})
    assert (office.made, office.head.deadline()) == ([], None)
