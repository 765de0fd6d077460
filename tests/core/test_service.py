"""What a link says to devices and observers, driven through a chain's inputs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from octoloom.core import device_messages as say
from octoloom.core import link_messages as link_say
from octoloom.core.admission import Limits
from octoloom.core.app import App, AppEvent
from octoloom.core.chain import Chain
from octoloom.core.effects import Effect, Fan, Tell
from octoloom.core.event import JOIN, LEAVE, PRESENCE, Change, Kill, Outcome
from octoloom.core.register_messages import Directory, LinkAddress, View
from octoloom.core.service import RETRY_MS, SEQUENCER_MAX
from octoloom.core.tokens import sign

LATER = say.Redirect("", RETRY_MS)


def make_app() -> App:
    app = App("tally")

    @app.on("put")
    def put(state: Any, event: AppEvent) -> None:
        state[event.device] = event.payload

    return app


class Front:
    """A link as its visitors see it. With `links` it is a part of a longer chain whose other links are silent."""

    def __init__(self, me: str = "a", links: str = "a", **limits: Any) -> None:
        self.chain = Chain("main", me, make_app(), Limits(**limits))
        self.now = 1000
        self.out: list[Effect] = []
        self.view(links)

    def view(self, links: str, epoch: int = 1, generation: int = 3) -> None:
        view = View("main", epoch, generation, list(links), list(links))
        addresses = {link: LinkAddress(link, f"{link}:1", f"ws://{link}") for link in "ab"}
        self.chain.on_directory(self.now, Directory(epoch, addresses, {"main": view}))
        self.turn()

    def turn(self) -> list[Effect]:
        effects = self.chain.flush(self.now)
        effects += self.chain.flush(self.now)
        self.out += effects
        return effects

    def says(self, connection: int, message: say.FromDevice) -> list[say.ToDevice]:
        """What the visitor is told at once in answer."""
        self.chain.service.on_message(self.now, connection, message)
        return [
            effect.message for effect in self.turn() if isinstance(effect, Tell) and effect.connection == connection
        ]

    def bootstrap(self, connection: int = 1, device: str = "ada", space: str = "lobby", **more: Any) -> Any:
        return self.says(connection, say.Bootstrap(space, device, **more))[0]

    def observe(self, connection: int, space: str = "lobby", **more: Any) -> Any:
        return self.says(connection, say.Observe(space, **more))

    def put(self, connection: int, sequencer: int, payload: bytes = b"1") -> list[say.ToDevice]:
        return self.says(connection, say.Send([(sequencer, "put", msgspec.Raw(payload))]))

    def closes(self) -> list[int]:
        """Which connections were ended, so far."""
        return [effect.connection for effect in self.out if isinstance(effect, Tell) and effect.close]

    def fans(self) -> list[Fan]:
        return [effect for effect in self.out if isinstance(effect, Fan)]

    @property
    def refused(self) -> dict[str, int]:
        return dict(self.chain.service.refused)


# Who is let in.


def test_a_device_is_welcomed_by_the_head_with_all_that_it_needs() -> None:
    front = Front()
    welcome = front.bootstrap()
    assert welcome == say.Welcome(3, 1, 0, next=1, state=msgspec.Raw(b"{}"), links=["ws://a"])
    assert len(front.chain.service) == 1


def test_the_join_comes_before_the_events_that_the_device_brings_along() -> None:
    front = Front("a", "ab")
    front.bootstrap(events=[(1, "put", ONE), (2, "put", ONE)], next=3)
    events = front.chain.spaces["lobby"].events.values()
    assert [(event.device, event.name) for event in events] == [(PRESENCE, JOIN), ("ada", "put"), ("ada", "put")]


def test_any_other_link_sends_devices_to_the_head() -> None:
    front = Front("b", "ab")
    assert front.bootstrap() == say.Redirect("ws://a")
    assert front.closes() == [1]
    assert len(front.chain.service) == 0


def test_a_link_that_knows_no_head_asks_devices_to_come_back() -> None:
    front = Front("b", "")
    assert front.bootstrap() == LATER
    assert front.observe(2) == [LATER]
    assert front.closes() == [1, 2]


def test_nobody_is_served_in_a_view_that_is_not_in_force() -> None:
    front = Front()
    view = View("main", 2, 3, ["a"], ["a"], in_force=False)
    front.chain.on_directory(front.now, Directory(2, {}, {"main": view}))
    front.turn()
    assert front.bootstrap() == LATER
    assert front.observe(2) == [LATER]


def test_observers_watch_on_any_whole_link() -> None:
    front = Front("b", "ab")
    (welcome,) = front.observe(7)
    assert (welcome.version, welcome.next, welcome.links) == (0, 0, ["ws://a", "ws://b"])
    assert len(front.chain.service) == 1


def test_whoever_comes_back_is_told_only_what_it_missed() -> None:
    front = Front()
    front.bootstrap()
    front.put(1, 1)
    (welcome,) = front.observe(2, generation=3, version=1)
    assert (welcome.version, welcome.state) == (2, msgspec.UNSET)
    assert welcome.patches == [msgspec.Raw(b'{"ada":1}')]


def test_whoever_knows_another_generation_gets_the_whole_state() -> None:
    front = Front()
    front.bootstrap()
    front.put(1, 1)
    (welcome,) = front.observe(2, generation=2, version=1)
    state = msgspec.json.decode(welcome.state)
    for patch in welcome.patches:
        state |= msgspec.json.decode(patch)
    assert (welcome.version, state) == (2, {"ada": 1})


def test_whoever_has_seen_more_than_this_link_knows_to_be_committed_is_asked_to_come_back() -> None:
    front = Front()
    assert front.observe(2, generation=3, version=5) == [LATER]
    assert front.bootstrap(1, generation=3, version=5) == LATER
    assert front.closes() == [2, 1]
    assert front.bootstrap(1, generation=2, version=5).version == 0, "another generation's numbers say nothing"


def test_a_ping_is_answered_before_anything_else() -> None:
    assert Front().says(1, say.Ping()) == [say.Pong()]


# Fencing.


def test_a_newer_connection_of_a_device_fences_the_older() -> None:
    front = Front()
    front.bootstrap(1)
    front.bootstrap(2)
    assert front.closes() == [1]
    assert front.refused == {"fenced": 1}
    front.put(2, 1)
    assert [fan.connections for fan in front.fans()[1:]] == [[2]], "the older one hears no more"


def test_what_a_fenced_connection_still_says_is_not_taken() -> None:
    front = Front()
    front.bootstrap(1)
    front.chain.service.on_message(0, 2, say.Bootstrap("lobby", "ada"))
    front.put(1, 1, b'"old"')
    assert front.chain.spaces["lobby"].state == {}
    assert front.put(2, 1, b'"new"') == []
    assert front.chain.spaces["lobby"].state == {"ada": "new"}


def test_the_same_connection_may_bootstrap_again() -> None:
    front = Front()
    front.bootstrap(1)
    front.put(1, 1)
    welcome = front.bootstrap(1)
    assert (welcome.next, front.closes(), front.refused) == (2, [], {})
    assert len(front.chain.service) == 1


def test_a_device_that_moves_to_another_space_is_told_of_that_one_only() -> None:
    front = Front()
    front.bootstrap(1)
    front.bootstrap(1, space="attic")
    front.bootstrap(2, "bob")
    front.out.clear()
    front.put(2, 1)
    assert [fan.connections for fan in front.fans()] == [[2]]


def test_an_observer_that_moves_to_another_space_is_told_of_that_one_only() -> None:
    front = Front()
    front.observe(1)
    front.observe(1, "attic")
    front.bootstrap(2)
    front.chain.service.on_closed(front.now, 1)
    front.out.clear()
    front.put(2, 1)
    assert [fan.connections for fan in front.fans()] == [[2]]


# Faults of the visitor: each is named, counted, and changes nothing.

ONE = msgspec.Raw(b"1")


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (say.Bootstrap("", "ada"), "bad-name"),
        (say.Bootstrap("x" * 129, "ada"), "bad-name"),
        (say.Bootstrap("lobby", ""), "bad-name"),
        (say.Bootstrap("lobby", "x" * 129), "bad-name"),
        (say.Bootstrap("lobby", "@timer"), "bad-name"),
        (say.Observe(""), "bad-name"),
        (say.Bootstrap("lobby", "ada", next=0), "bad-number"),
        (say.Bootstrap("lobby", "ada", next=SEQUENCER_MAX + 1), "bad-number"),
        (say.Bootstrap("lobby", "ada", next=3, events=[(0, "put", ONE)]), "bad-number"),
        (say.Bootstrap("lobby", "ada", next=3, events=[(2, "put", ONE), (1, "put", ONE)]), "bad-number"),
        (say.Bootstrap("lobby", "ada", next=3, events=[(1, "put", ONE), (1, "put", ONE)]), "bad-number"),
        (say.Bootstrap("lobby", "ada", next=3, events=[(3, "put", ONE)]), "bad-number"),
        (say.Bootstrap("lobby", "ada", token="guessed"), "forbidden"),
        (say.Send([(1, "put", ONE)]), "bootstrap-first"),
    ],
)
def test_a_visitors_fault_is_named_and_counted_and_changes_nothing(request_: say.FromDevice, code: str) -> None:
    front = Front(secret=b"s3cret" if code == "forbidden" else b"")
    (answer,) = front.says(1, request_)
    assert isinstance(answer, say.Refused)
    assert answer.code == code
    assert front.closes() == [1]
    assert front.refused == {code: 1}
    assert (front.chain.spaces, len(front.chain.service)) == ({}, 0)


def test_with_a_secret_the_right_token_opens_the_door() -> None:
    front = Front(secret=b"s3cret")
    assert isinstance(front.bootstrap(token=sign(b"s3cret", "ada")), say.Welcome)
    assert front.bootstrap(2, "bob", token=sign(b"s3cret", "ada")).code == "forbidden"


def test_a_chain_has_a_bound_on_spaces() -> None:
    front = Front(spaces_max=1)
    front.bootstrap(1, space="lobby")
    assert front.bootstrap(2, space="attic").code == "too-many-spaces"
    assert front.observe(3, "attic")[0].code == "too-many-spaces"
    assert isinstance(front.bootstrap(4, "bob", space="lobby"), say.Welcome)
    assert list(front.chain.spaces) == ["lobby"]


def test_a_space_has_a_bound_on_devices_that_does_not_keep_known_ones_out() -> None:
    front = Front(devices_max=4)
    answers = [front.bootstrap(number, f"device {number}") for number in range(5)]
    assert isinstance(answers[0], say.Welcome)
    assert answers[-1].code == "too-many-devices"
    front.chain.service.on_closed(front.now, 0)
    assert isinstance(front.bootstrap(9, "device 0"), say.Welcome)


def test_an_event_that_can_never_be_taken_is_counted_but_ends_nothing() -> None:
    front = Front()
    front.bootstrap()
    (answer,) = front.says(1, say.Send([(1, "@join", ONE)]))
    assert isinstance(answer, say.Refused)
    assert answer.sequencer == 1
    assert front.refused == {answer.code: 1}
    assert front.closes() == []


def test_a_gap_and_busy_are_normal_answers_and_not_counted() -> None:
    front = Front(rate_max=1)
    front.bootstrap()
    assert front.put(1, 2) == [say.Gap(1)]
    assert front.put(1, 1) == []
    (busy,) = front.put(1, 2)
    assert isinstance(busy, say.Busy)
    assert front.refused == {}


def test_a_bootstrap_that_hits_a_bound_is_welcomed_first_and_told_second() -> None:
    front = Front(rate_max=1)
    answers = front.says(1, say.Bootstrap("lobby", "ada", next=3, events=[(1, "put", ONE), (2, "put", ONE)]))
    assert [type(answer) for answer in answers] == [say.Welcome, say.Busy]


# Slow ones.


def test_a_congested_connection_is_left_out_until_it_has_room() -> None:
    front = Front()
    front.bootstrap(1)
    front.observe(2)
    front.chain.service.on_congested(2)
    front.put(1, 1)
    assert [fan.connections for fan in front.fans()][-1] == [1]
    front.chain.service.on_drained(2)
    (changed,) = [effect.message for effect in front.turn() if isinstance(effect, Tell)]
    assert isinstance(changed, say.Changed)
    assert (changed.since, changed.version) == (1, 2)
    front.chain.service.on_congested(99)
    front.chain.service.on_drained(99)


# The end of service.


def test_a_suspended_link_sends_everyone_away_and_takes_nothing_more() -> None:
    front = Front("a", "ab")
    front.bootstrap(1)
    front.observe(2)
    front.chain.on_message(front.now, "b", link_say.Stale("main", 2))
    tells = [effect for effect in front.turn() if isinstance(effect, Tell)]
    assert tells == [Tell(1, LATER, close=True), Tell(2, LATER, close=True)]
    (answer,) = front.put(1, 1)
    assert isinstance(answer, say.Refused)
    assert answer.code == "bootstrap-first"
    assert front.bootstrap(3) == LATER


def test_a_suspended_link_does_not_send_anyone_to_a_head_that_may_be_gone() -> None:
    front = Front("b", "ab")
    front.chain.on_message(front.now, "a", link_say.Stale("main", 2))
    assert front.bootstrap() == LATER


def test_whoever_comes_in_the_turn_of_a_change_sees_it_and_those_who_watch_are_told_first() -> None:
    front = Front("a", "ab")
    front.bootstrap(1)
    change = Change(1, 1, False, b'{"x":1}', [Kill(1, PRESENCE, 1, Outcome.APPLIED)])
    front.chain.on_message(front.now, "b", link_say.Changes("main", 1, "lobby", [change]))
    front.out.clear()
    welcome = front.bootstrap(2, "bob")
    assert welcome.version == 1
    assert [(fan.connections, fan.since, fan.version) for fan in front.fans()] == [([1], 0, 1)]


def test_a_device_that_does_not_come_back_leaves() -> None:
    front = Front()
    front.bootstrap(1)
    front.chain.service.on_closed(front.now, 1)
    front.now += 5000
    front.turn()
    assert list(front.chain.spaces["lobby"].present) == []


def test_a_device_that_was_sent_away_and_does_not_come_back_leaves_too() -> None:
    front = Front("a", "ab")
    front.bootstrap(1)
    front.chain.on_message(front.now, "b", link_say.Stale("main", 2))
    front.turn()
    front.chain.service.on_closed(front.now, 1)
    front.view("ab", epoch=2)
    front.now += 60_000
    front.turn()
    assert [event.name for event in front.chain.spaces["lobby"].events.values()][-1] == LEAVE


def test_a_device_that_is_refused_later_on_and_does_not_come_back_leaves_too() -> None:
    front = Front()
    front.bootstrap(1)
    assert isinstance(front.bootstrap(1, next=0), say.Refused)
    front.chain.service.on_closed(front.now, 1)
    front.now += 60_000
    front.turn()
    assert list(front.chain.spaces["lobby"].present) == []
