"""The simulated game keeps enough to tell whether anything was lost, doubled or reordered."""

from __future__ import annotations

from typing import Any

import pytest

from octoloom.core.app import Verdict
from octoloom.core.event import JOIN, LEAVE, PRESENCE, Event, Outcome
from octoloom.core.recorder import Recorder
from octoloom.core.space import encode_json
from octoloom.simulation.game import ProcessDied, make_game


class Play:
    def __init__(self) -> None:
        self.game = make_game()
        self.recorder = Recorder(self.game.initial)
        self.count = 0

    def act(self, name: str, payload: dict[str, Any], device: str = "ada") -> Verdict:
        self.count += 1
        event = Event(self.count, device, self.count, name, encode_json(payload), 1000, self.count)
        return self.game.run(self.recorder, event, 1)

    @property
    def state(self) -> dict[str, Any]:
        return self.recorder.state


def test_every_applied_action_is_counted_and_the_last_of_each_device_is_known() -> None:
    play = Play()
    assert play.act("put", {"token": "ada-1"}).outcome is Outcome.APPLIED
    play.act("put", {"token": "bob-1"}, "bob")
    play.act("put", {"token": "ada-2"})
    assert play.state["count"] == 3
    assert play.state["last"] == {"ada": "ada-2", "bob": "bob-1"}
    assert all(cell["by"] in ("ada", "bob") for cell in play.state["cells"].values())


def test_a_refused_action_leaves_nothing_behind() -> None:
    play = Play()
    play.act("put", {"token": "t"})
    before = encode_json(play.state)
    verdict = play.act("refuse", {"token": "u"})
    assert (verdict.outcome, verdict.reason) == (Outcome.REJECTED, "on purpose")
    assert encode_json(play.state) == before


def test_a_move_out_of_turn_waits_until_the_state_has_come_far_enough() -> None:
    play = Play()
    assert play.act("wait", {"token": "w", "until": 1}).outcome is None
    play.act("put", {"token": "t"})
    assert play.act("wait", {"token": "w", "until": 1}).outcome is Outcome.APPLIED
    assert play.act("wait", {"token": "w", "until": 1, "refused": True}).reason == "too late"


def test_an_emptied_cell_is_a_null_that_no_patch_can_write() -> None:
    play = Play()
    play.act("put", {"token": "t"})
    play.recorder.take()
    play.act("empty", {"token": "e"})
    replace, _ = play.recorder.take()
    assert replace


def test_an_alarm_sets_a_timer_and_every_ring_is_counted() -> None:
    play = Play()
    (timer,) = play.act("alarm", {"token": "a", "ms": 50}).timers
    assert (timer.due_ms, timer.name, timer.payload) == (1050, "ring", b'{"token":"a"}')
    play.act("ring", {"token": "a"})
    play.act("ring", {"token": "a"})
    assert play.state["rung"] == {"a": 2}, "a checker can see that it rang twice"


def test_an_alarm_may_be_set_and_cancelled_at_once() -> None:
    verdict = Play().act("hush", {"token": "h"})
    assert [timer.timer for timer in verdict.timers] == verdict.cancelled == [1]


def test_a_later_alarm_takes_the_place_of_one_that_has_not_rung() -> None:
    play = Play()
    assert play.act("snooze", {"token": "s"}).timers == [], "there is none yet"
    play.act("alarm", {"token": "a", "ms": 50})
    verdict = play.act("snooze", {"token": "b"}, "bob")
    assert verdict.cancelled == [1]
    (timer,) = verdict.timers
    assert (timer.due_ms, timer.payload) == (1050, b'{"token":"b"}')
    assert list(play.state["alarms"]) == ["bob"]


def test_the_order_of_actions_shows() -> None:
    one, other = Play(), Play()
    for play, tokens in ((one, "ab"), (other, "ba")):
        for token in tokens:
            play.act("put", {"token": token}, token)
    assert one.state["last"] == other.state["last"]
    assert one.state["order"] != other.state["order"]


def test_whoever_joins_twice_is_seen_to_have_joined_twice() -> None:
    play = Play()
    play.act(JOIN, {"device": "ada"}, PRESENCE)
    play.act(JOIN, {"device": "ada"}, PRESENCE)
    assert play.state["present"] == {"ada": 2}
    play.act(LEAVE, {"device": "ada"}, PRESENCE)
    assert play.state["present"] == {}


def test_poison_ends_the_process() -> None:
    with pytest.raises(ProcessDied):
        Play().act("poison", {"token": "p"})
