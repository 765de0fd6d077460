"""What a developer's reducers may do, and what becomes of each event."""

from __future__ import annotations

from typing import Any

import pytest

from octoloom.core.app import REASON_MAX, App, AppEvent, Reject, TookTooLong
from octoloom.core.errors import UsageError
from octoloom.core.event import JOIN, LEAVE, PRESENCE, Event, Outcome, Timer
from octoloom.core.recorder import Recorder


def event(name: str, payload: bytes = b"null", device: str = "ada", dice: int = 5) -> Event:
    return Event(1, device, 3, name, payload, 7000, dice)


class Desk:
    """An app, a state, and one event after the other."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        self.app = App("arena")
        self.recorder = Recorder(state or {})

    def run(self, name: str, payload: bytes = b"null", device: str = "ada", timers_left: int = 10) -> Any:
        return self.app.run(self.recorder, event(name, payload, device), 1, timers_left)

    @property
    def state(self) -> dict[str, Any]:
        return self.recorder.state


# Making an app.


def test_a_name_has_one_reducer() -> None:
    app = App("arena")
    app.on("claim")(lambda state, event: None)
    with pytest.raises(UsageError, match="rename one"):
        app.on("claim")(lambda state, event: None)
    app.on_join(lambda state, event: None)
    with pytest.raises(UsageError, match="already"):
        app.on_join(lambda state, event: None)


def test_the_chains_own_names_are_not_the_apps() -> None:
    with pytest.raises(UsageError, match="on_join and on_leave"):
        App("arena").on("@join")


def test_a_decorated_reducer_stays_the_function_that_it_was() -> None:
    app = App("arena")

    def claim(state: Any, event: AppEvent) -> None: ...

    assert app.on("claim")(claim) is claim
    assert app.on_leave(claim) is claim
    assert sorted(app.handlers) == [LEAVE, "claim"]


def test_the_initial_state_is_the_apps_own_copy() -> None:
    given = {"cells": {"a": 1}}
    app = App("arena", state=given)
    given["cells"]["a"] = 2
    assert app.initial == {"cells": {"a": 1}}
    assert App("bare").initial == {}


# Applying.


def test_a_reducer_sees_the_event_and_changes_the_state_in_place() -> None:
    desk = Desk({"cells": {}})

    @desk.app.on("claim")
    def claim(state: Any, event: AppEvent) -> None:
        state["cells"][event.payload["cell"]] = [event.device, event.name, event.sequencer, event.time_ms]

    verdict = desk.run("claim", b'{"cell":"b4"}')
    assert verdict.outcome is Outcome.APPLIED
    assert desk.state == {"cells": {"b4": ["ada", "claim", 3, 7000]}}


def test_an_unknown_event_is_rejected_by_name() -> None:
    verdict = Desk().run("jump")
    assert (verdict.outcome, verdict.fault) == (Outcome.REJECTED, "")
    assert "'jump'" in verdict.reason


def test_joins_and_leaves_need_no_reducer_and_name_the_device_that_came() -> None:
    desk = Desk({"here": []})
    assert desk.run(JOIN, b'{"device":"bob"}', PRESENCE).outcome is Outcome.APPLIED

    @desk.app.on_join
    def join(state: Any, event: AppEvent) -> None:
        state["here"].append(event.device)

    desk.run(JOIN, b'{"device":"bob"}', PRESENCE)
    assert desk.state == {"here": ["bob"]}


# Refusing.


def test_a_rejected_event_leaves_no_trace_and_says_why() -> None:
    desk = Desk({"cells": {"b4": "bob"}, "moves": [1]})

    @desk.app.on("claim")
    def claim(state: Any, event: AppEvent) -> None:
        state["moves"].append(2)
        state["cells"].clear()
        raise Reject("taken")

    verdict = desk.run("claim")
    assert (verdict.outcome, verdict.reason, verdict.fault) == (Outcome.REJECTED, "taken", "")
    assert desk.state == {"cells": {"b4": "bob"}, "moves": [1]}


@pytest.mark.parametrize("error", [KeyError("cell"), RecursionError("deep"), SystemExit(3), KeyboardInterrupt()])
def test_an_exception_rejects_that_event_and_the_operator_is_told_where(error: BaseException) -> None:
    desk = Desk({"a": 1})

    @desk.app.on("claim")
    def claim(state: Any, event: AppEvent) -> None:
        state["a"] = 2
        raise error

    verdict = desk.run("claim")
    assert verdict.outcome is Outcome.REJECTED
    assert verdict.reason.startswith(f"the reducer failed: {type(error).__name__}")
    assert "in claim" in verdict.fault
    assert desk.state == {"a": 1}
    assert desk.app.running < 0, "no reducer runs now"


def test_a_reason_has_a_bound() -> None:
    desk = Desk()

    @desk.app.on("a")
    def long_reject(state: Any, event: AppEvent) -> None:
        raise Reject("x" * 10_000)

    @desk.app.on("b")
    def long_error(state: Any, event: AppEvent) -> None:
        raise ValueError("x" * 10_000)

    assert len(desk.run("a").reason) == len(desk.run("b").reason) == REASON_MAX


def test_what_json_cannot_hold_is_rejected_as_the_reducers_fault() -> None:
    desk = Desk()

    @desk.app.on("claim")
    def claim(state: Any, event: AppEvent) -> None:
        state["a"] = 1
        state["when"] = object()

    verdict = desk.run("claim")
    assert verdict.outcome is Outcome.REJECTED
    assert "NotJSON" in verdict.reason
    assert desk.state == {}


def test_a_payload_that_is_not_json_is_rejected_before_the_reducer_runs() -> None:
    desk = Desk()
    ran = []
    desk.app.on("claim")(lambda state, event: ran.append(event))
    verdict = desk.run("claim", b"{nope")
    assert (verdict.outcome, ran) == (Outcome.REJECTED, [])


def test_no_except_exception_of_a_reducer_holds_the_watchdogs_interruption() -> None:
    desk = Desk({"a": 1})
    survived = []

    @desk.app.on("spin")
    def spin(state: Any, event: AppEvent) -> None:
        state["a"] = 2
        try:
            raise TookTooLong
        except Exception:
            survived.append(event)

    verdict = desk.run("spin")
    assert (verdict.outcome, verdict.reason) == (Outcome.REJECTED, "the reducer took too long")
    assert "'spin'" in verdict.fault
    assert (desk.state, survived) == ({"a": 1}, [])


def test_the_watchdog_sees_which_reducer_runs() -> None:
    desk = Desk()
    seen: list[int] = []
    desk.app.on("look")(lambda state, event: seen.append(desk.app.running))
    before = desk.app.running
    desk.run("look")
    between = desk.app.running
    desk.run("look")
    assert before <= 0 < seen[0] < seen[1]
    assert between == -seen[0]


# Deferring.


def test_a_deferred_event_leaves_no_trace_and_has_no_outcome() -> None:
    desk = Desk({"turn": "bob"})

    @desk.app.on("move")
    def move(state: Any, event: AppEvent) -> None:
        state["moved"] = True
        if state["turn"] != event.device:
            event.defer()

    assert desk.run("move").outcome is None
    assert desk.state == {"turn": "bob"}


# Dice.


def test_dice_fall_the_same_way_for_the_same_event() -> None:
    def throws(dice: int) -> list[int]:
        seen = AppEvent(event("roll", dice=dice))
        return [seen.random.randrange(6) for _ in range(20)]

    assert throws(5) == throws(5)
    assert throws(5) != throws(6)


# Timers.


def test_timers_are_numbered_and_stamped_from_the_events_time() -> None:
    desk = Desk()

    @desk.app.on("fuse")
    def fuse(state: Any, event: AppEvent) -> None:
        state["timers"] = [event.after(500, "bang", {"at": "b4"}), event.after(0, "tick")]
        event.cancel(77)

    verdict = desk.run("fuse")
    assert verdict.timers == [Timer(1, 7500, "bang", b'{"at":"b4"}'), Timer(2, 7000, "tick", b"null")]
    assert verdict.cancelled == [77]
    assert desk.state == {"timers": [1, 2]}


def test_a_rejected_event_sets_no_timer() -> None:
    desk = Desk()

    @desk.app.on("fuse")
    def fuse(state: Any, event: AppEvent) -> None:
        event.after(500, "bang")
        event.cancel(3)
        raise Reject("wet")

    verdict = desk.run("fuse")
    assert (verdict.timers, verdict.cancelled) == ([], [])


@pytest.mark.parametrize("delay", [-1, 1.5, "soon", None])
def test_a_delay_that_is_none_is_the_reducers_fault(delay: Any) -> None:
    with pytest.raises(UsageError, match="milliseconds"):
        AppEvent(event("fuse")).after(delay, "bang")


def test_a_space_has_a_bound_on_timers() -> None:
    desk = Desk()

    @desk.app.on("fuse")
    def fuse(state: Any, event: AppEvent) -> None:
        for _ in range(3):
            event.after(1, "bang")

    assert desk.app.run(desk.recorder, event("fuse"), 1, 3).outcome is Outcome.APPLIED
    verdict = desk.app.run(desk.recorder, event("fuse"), 1, 2)
    assert (verdict.outcome, verdict.timers) == (Outcome.REJECTED, [])


# Preview.


def test_a_preview_shows_what_would_be_and_leaves_the_state_alone() -> None:
    app = App("tally")

    @app.on("add")
    def add(state: Any, event: AppEvent) -> None:
        if event.payload > 9:
            raise Reject("too much")
        state["sum"] = state.get("sum", 0) + event.payload

    state = {"sum": 1}
    events = [event("add", b"2"), event("add", b"50"), event("add", b"3"), event("who?")]
    assert app.preview(state, events) == {"sum": 6}
    assert state == {"sum": 1}


# Whatever a reducer says must travel: what the links cannot write would end the link that computed it.


@pytest.mark.parametrize("case", ["huge delay", "odd name", "system name", "odd number", "half a character"])
def test_what_cannot_travel_is_rejected_like_any_other_fault(case: str) -> None:
    desk = Desk()
    anything: Any = "x"

    @desk.app.on("act")
    def act(state: Any, event: AppEvent) -> None:
        if case == "huge delay":
            event.after(10**30, "bang")
        elif case == "odd name":
            event.after(1, 5)  # type: ignore[arg-type]
        elif case == "system name":
            event.after(1, JOIN)
        elif case == "odd number":
            event.cancel(anything)
        else:
            raise Reject("\ud800")

    verdict = desk.run("act")
    assert verdict.outcome is Outcome.REJECTED
    assert (verdict.timers, verdict.cancelled) == ([], [])
    assert verdict.reason.encode()
