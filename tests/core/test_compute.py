"""One worker, one space: what a step consumes, what it says, and that saying it again gives the same state."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.core import rule as rule_module
from octoloom.core.app import App, AppEvent, Reject
from octoloom.core.compute import Worker
from octoloom.core.event import JOIN, LEAVE, PRESENCE, TIMER, Change, Event, Outcome
from octoloom.core.space import Space, decode_json, encode_json


def make_app() -> App:
    app = App("table", state={"moves": [], "turn": 0})

    @app.on("move")
    def move(state: Any, event: AppEvent) -> None:
        state["moves"].append(event.payload)

    @app.on("turn")
    def turn(state: Any, event: AppEvent) -> None:
        """Waits until it is its turn."""
        state["moves"].append("too early")
        if state["turn"] != event.payload:
            event.defer()
        state["moves"][-1] = event.payload
        state["turn"] += 1

    @app.on("refuse")
    def refuse(state: Any, event: AppEvent) -> None:
        state["moves"].clear()
        raise Reject("on purpose")

    @app.on("fail")
    def fail(state: Any, event: AppEvent) -> None:
        state["moves"].clear()
        raise ValueError("oops")

    @app.on("null")
    def null(state: Any, event: AppEvent) -> None:
        state["nothing"] = None

    @app.on("throw")
    def throw(state: Any, event: AppEvent) -> None:
        state["dice"] = event.random.randrange(1000)

    @app.on("fuse")
    def fuse(state: Any, event: AppEvent) -> None:
        state["timer"] = event.after(event.payload, "bang")

    @app.on("bang")
    def bang(state: Any, event: AppEvent) -> None:
        state["moves"].append("bang")

    @app.on("wet")
    def wet(state: Any, event: AppEvent) -> None:
        event.cancel(state["timer"])

    return app


class Table:
    """A tail's worker, and a replica above it that knows only what the changes say."""

    def __init__(self, app: App | None = None) -> None:
        self.space, self.replica = Space("table"), Space("table")
        self.worker = Worker(app or make_app(), self.space)

    def event(self, name: str, payload: Any = None, device: str = "ada") -> Event:
        number = self.space.next_chain_sequencer
        sequencer = number if device != TIMER else payload
        event = Event(number, device, sequencer, name, encode_json(payload), 1000 + number, number * 7)
        for space in (self.space, self.replica):
            assert space.add(event)
        self.worker.inbox.append(event)
        return event

    def step(self) -> Change | None:
        change = self.worker.step(epoch=4)
        if change is not None:
            self.replica.apply(change)
        assert self.replica.version == self.space.version
        if self.space.version:
            assert self.replica.state == self.space.state
        return change

    def outcomes(self) -> list[tuple[int, str]]:
        change = self.step()
        return [] if change is None else [(kill.chain_sequencer, kill.outcome.word) for kill in change.kills]


# One step.


def test_a_step_consumes_what_is_there_and_gives_one_change() -> None:
    table = Table()
    table.event("move", "a")
    table.event("move", "b")
    change = table.step()
    assert change is not None
    assert (change.epoch, change.version, change.replace) == (4, 1, False)
    assert decode_json(change.merge) == {"moves": ["a", "b"], "turn": 0}, "the first one brings the initial state"
    assert [(kill.chain_sequencer, kill.outcome) for kill in change.kills] == [(1, 0), (2, 0)]
    assert (table.space.version, table.space.events) == (1, {})
    assert table.step() is None


def test_a_change_costs_what_was_written_and_nothing_more() -> None:
    table = Table()
    table.event("move", "a")
    table.step()
    table.event("throw")
    change = table.step()
    assert change is not None
    assert list(decode_json(change.merge)) == ["dice"]


def test_a_step_has_a_bound() -> None:
    table = Table()
    for number in range(5):
        table.event("move", number)
    change = table.worker.step(4, batch_max=3)
    assert change is not None
    assert len(change.kills) == 3
    assert len(table.worker.inbox) == 2


def test_a_rejected_event_is_killed_with_its_reason_and_changes_nothing() -> None:
    table = Table()
    table.event("move", "a")
    table.event("refuse")
    table.event("nobody knows")
    change = table.step()
    assert change is not None
    assert [kill.outcome for kill in change.kills] == [Outcome.APPLIED, Outcome.REJECTED, Outcome.REJECTED]
    assert change.kills[1].reason == "on purpose"
    assert table.space.state["moves"] == ["a"]
    assert table.worker.faults == []


def test_a_failed_reducer_is_a_fault_and_the_others_go_on() -> None:
    table = Table()
    failed = table.event("fail")
    table.event("move", "b")
    assert table.outcomes() == [(1, "rejected"), (2, "applied")]
    (fault,) = table.worker.faults
    assert (fault.space, fault.event) == ("table", failed)
    assert "oops" in fault.detail
    assert table.space.state["moves"] == ["b"]


def test_what_no_patch_can_say_is_a_replacement() -> None:
    table = Table()
    table.event("null")
    change = table.step()
    assert change is not None
    assert change.replace
    assert decode_json(change.merge) == {"moves": [], "turn": 0, "nothing": None}


def test_a_kill_carries_the_digest_that_tells_a_reused_number() -> None:
    table = Table()
    event = table.event("move", "a")
    change = table.step()
    assert change is not None
    assert change.kills[0].digest == event.digest


# Out of order.


def test_a_deferred_event_stays_live_and_is_tried_again_after_others() -> None:
    table = Table()
    table.event("turn", 1)
    table.event("turn", 2)
    assert table.step() is None, "nothing was consumed: there is nothing to say"
    assert list(table.space.events) == [1, 2]
    table.event("turn", 0)
    assert table.outcomes() == [(3, "applied"), (1, "applied"), (2, "applied")]
    assert table.space.state["moves"] == [0, 1, 2]
    assert table.worker.rule.waiting == []


def test_a_rejection_is_no_progress_for_those_who_wait() -> None:
    app, tries = make_app(), []

    @app.on("wait")
    def wait(state: Any, event: AppEvent) -> None:
        tries.append(event)
        event.defer()

    table = Table(app)
    table.event("wait")
    table.step()
    table.event("refuse")
    table.step()
    assert len(tries) == 1
    table.event("move")
    table.step()
    assert len(tries) == 2


def test_what_was_deferred_on_one_tail_is_tried_by_the_next() -> None:
    table = Table()
    table.event("turn", 1)
    table.event("move", "a")
    table.step()
    table.worker.release()
    assert type(table.space.state) is dict
    next_worker = Worker(make_app(), table.space)
    assert [event.chain_sequencer for event in next_worker.inbox] == [1]


def test_a_tail_that_consumed_nothing_gives_back_what_it_got() -> None:
    """A replica at version 0 is empty everywhere: a patch of the next tail is one from nothing to version 1."""
    table = Table()
    table.event("turn", 1)
    assert table.step() is None
    table.worker.release()
    assert table.space.state == {}


# Timers.


def test_a_timer_is_set_fires_and_is_gone() -> None:
    table = Table()
    table.event("fuse", 500)
    change = table.step()
    assert change is not None
    ((number, due_ms, name),) = [(timer.timer, timer.due_ms, timer.name) for timer in change.timers]
    assert (number, due_ms, name) == (1, 1501, "bang")
    table.event("bang", 1, TIMER)
    assert table.outcomes() == [(2, "applied")]
    assert table.space.timers == table.replica.timers == {}


def test_timers_are_numbered_through() -> None:
    table = Table()
    table.event("fuse", 1)
    table.event("fuse", 2)
    table.step()
    table.event("fuse", 3)
    table.step()
    assert list(table.space.timers) == list(table.replica.timers) == [1, 2, 3]


def test_a_timer_that_is_set_and_cancelled_in_one_step_never_goes_off() -> None:
    table = Table()
    table.event("fuse", 500)
    table.event("wet")
    change = table.step()
    assert change is not None
    assert [timer.timer for timer in change.timers] == change.cancelled == [1]
    assert table.space.timers == {}


def test_a_timers_number_does_not_depend_on_how_events_were_batched() -> None:
    def numbers(*batches: list[str]) -> Any:
        table = Table()
        for batch in batches:
            for name in batch:
                table.event(name, 500)
            table.step()
        return table.space.state["timer"]

    assert numbers(["fuse", "wet"], ["fuse"]) == numbers(["fuse"], ["wet"], ["fuse"])


def test_cancelling_a_number_that_is_given_later_is_void_however_events_were_batched() -> None:
    def left(*batches: list[str]) -> list[int]:
        app = make_app()
        app.on("guess")(lambda state, event: event.cancel(1))
        table = Table(app)
        for batch in batches:
            for name in batch:
                table.event(name, 500)
            table.step()
        return list(table.space.timers)

    assert left(["guess", "fuse"]) == left(["guess"], ["fuse"]) == [1]


def test_the_bound_on_timers_does_not_depend_on_how_events_were_batched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_module, "TIMERS_MAX", 1)

    def outcomes(*batches: list[str]) -> list[tuple[int, str]]:
        table, words = Table(), list[tuple[int, str]]()
        for batch in batches:
            for name in batch:
                table.event(name, 500)
            words += table.outcomes()
        return words

    assert outcomes(["fuse", "wet", "fuse"]) == outcomes(["fuse"], ["wet"], ["fuse"])


def test_a_timer_that_was_cancelled_while_its_event_was_under_way_has_no_effect() -> None:
    table = Table()
    table.event("fuse", 500)
    table.step()
    table.event("wet")
    table.event("bang", 1, TIMER)
    assert table.outcomes() == [(2, "applied"), (3, "superseded")]
    assert table.space.state["moves"] == []


# Presence.


def test_joins_and_leaves_change_who_is_present_even_if_the_app_rejects_them() -> None:
    app = make_app()

    @app.on_leave
    def leave(state: Any, event: AppEvent) -> None:
        raise Reject("stay")

    table = Table(app)
    table.event(JOIN, {"device": "ada"}, PRESENCE)
    table.event(JOIN, {"device": "bob"}, PRESENCE)
    table.event(LEAVE, {"device": "ada"}, PRESENCE)
    assert table.outcomes() == [(1, "applied"), (2, "applied"), (3, "rejected")]
    assert list(table.space.present) == list(table.replica.present) == ["bob"]


# Quarantine.


def test_a_quarantined_event_never_reaches_a_reducer() -> None:
    table = Table()
    table.event("move", "a")
    table.event("move", "b")
    table.worker.rule.quarantined[1] = None
    assert table.outcomes() == [(1, "quarantined"), (2, "applied")]
    assert table.space.state["moves"] == ["b"]
    assert table.worker.rule.quarantined == {}


# The same history gives the same state.

names = st.sampled_from(["move", "turn", "refuse", "fail", "null", "throw", "fuse", "wet"])
scripts = st.lists(st.tuples(names, st.integers(0, 4), st.booleans()), max_size=30)


@settings(deadline=None, max_examples=100)
@given(scripts)
def test_consuming_the_same_events_in_the_same_order_gives_the_same_state(script: list[tuple[str, int, bool]]) -> None:
    table, consumed = Table(), list[Event]()
    for name, payload, ends_the_batch in script:
        table.event(name, payload)
        if ends_the_batch:
            events = dict(table.space.events)
            change = table.step()
            consumed += [events[kill.chain_sequencer] for kill in change.kills] if change else []
    again = Table()
    for event in consumed:
        again.space.events[event.chain_sequencer] = event
        again.worker.inbox.append(event)
        assert again.worker.step(9) is not None, "what was not deferred then is not deferred now"
    if consumed:
        assert again.space.state == table.space.state
        assert again.space.timers == table.space.timers
