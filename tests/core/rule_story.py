"""Spaces whose apps defer, and set and cancel timers: an app, histories for it, and two other rules to compare with.

`Twin` is the rule of a space as simply as it can be said. `FirstWorker` is how tails computed by the first rule:
journals that were written then have to replay.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from octoloom.core.app import App, AppEvent, Defer, Reject, Verdict
from octoloom.core.backlog import Backlog
from octoloom.core.compute import Worker
from octoloom.core.event import JOIN, LEAVE, PRESENCE, TIMER, Change, Event, JournalEntry, Outcome
from octoloom.core.recorder import Recorder
from octoloom.core.space import Space, decode_json, encode_json


def make_app() -> App:
    app = App("story", state={"count": 0, "log": [], "timers": []})

    def note(state: Any, event: AppEvent) -> None:
        state["count"] += 1
        state["log"].append([event.name, event.sequencer])

    def wait(state: Any, event: AppEvent) -> None:
        event.cancel(event.after(1, "bang", 0))  # taken back with everything else if it has to wait
        note(state, event)
        if state["count"] <= event.payload:
            event.defer()

    def refuse_later(state: Any, event: AppEvent) -> None:
        wait(state, event)
        raise Reject("after all")

    def fail(state: Any, event: AppEvent) -> None:
        event.after(1, "bang", 0)
        event.cancel(event.payload)
        wait(state, event)
        raise ValueError("oops")

    def fuse(state: Any, event: AppEvent) -> None:
        note(state, event)
        state["timers"].append(event.after(event.payload, "bang", event.payload))

    def swap(state: Any, event: AppEvent) -> None:
        """One timer for another, and a third one that it thinks better of."""
        fuse(state, event)
        event.cancel(event.payload)
        event.cancel(event.after(7, "bang", 0))

    def wet(state: Any, event: AppEvent) -> None:
        note(state, event)
        event.cancel(event.payload)

    def bang(state: Any, event: AppEvent) -> None:
        """A timer that waits, and cancels itself."""
        wait(state, event)
        event.cancel(event.sequencer)

    handlers = {"note": note, "wait": wait, "refuse later": refuse_later, "fail": fail, "fuse": fuse, "swap": swap}
    for name, handler in {**handlers, "wet": wet, "bang": bang}.items():
        app.on(name)(handler)
    app.on_join(wait_for_company)
    return app


def wait_for_company(state: Any, event: AppEvent) -> None:
    if not state["count"]:
        event.defer()
    state["log"].append(["came", event.device])


NAMES = ("note", "wait", "wait", "refuse later", "fail", "fuse", "swap", "wet", "bang", "unknown", JOIN, LEAVE)
drawn_events = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 8), st.integers(0, 2)), max_size=25)


def history(drawn: list[tuple[str, int, int]], quarantined: tuple[int, ...] = ()) -> list[Event]:
    """Events of three devices, and timers that were set and go off, once, whether or not they were cancelled since."""
    events, fired, twin = list[Event](), dict[int, None](), Twin(make_app(), quarantined)
    for place, (name, payload, who) in enumerate(drawn, start=1):
        value: Any = payload
        device, sequencer = f"d{who}", place
        if name == "bang" and payload not in fired and payload < twin.next_timer:
            device, sequencer = TIMER, payload
            fired[payload] = None
        elif name in (JOIN, LEAVE):
            device, value = PRESENCE, {"device": f"d{who}"}
        events.append(Event(place, device, sequencer, name, encode_json(value), 1000 + place, place))
        twin.take(events[-1])
    return events


def split(events: list[Event], cuts: list[int]) -> list[list[Event]]:
    """Steps that end at these places."""
    places = sorted({0, len(events), *(cut % (len(events) + 1) for cut in cuts)})
    return [events[begin:end] for begin, end in pairwise(places)]


class Twin:
    """Takes events in order; the first that does not wait is next. Copies the state for every attempt."""

    def __init__(self, app: App, quarantined: tuple[int, ...] = ()) -> None:
        self.app, self.state = app, deepcopy(app.initial)
        self.quarantined = quarantined
        self.live: list[Event] = []
        self.ended: list[tuple[int, Outcome]] = []
        self.timers: dict[int, int] = {}
        self.next_timer = 1

    def take(self, event: Event) -> None:
        self.live.append(event)
        while self._settle_one():
            pass

    def _settle_one(self) -> bool:
        for event in self.live:
            outcome = self._outcome(event)
            if outcome is not None:
                self.live.remove(event)
                self.ended.append((event.chain_sequencer, outcome))
                if event.device == TIMER:
                    self.timers.pop(event.sequencer, None)
                return True
        return False

    def _outcome(self, event: Event) -> Outcome | None:
        if event.chain_sequencer in self.quarantined:
            return Outcome.QUARANTINED
        if event.device == TIMER and event.sequencer not in self.timers:
            return Outcome.SUPERSEDED
        handler = self.app.handlers.get(event.name)
        if handler is None:
            return Outcome.APPLIED if event.name.startswith("@") else Outcome.REJECTED
        state, seen = deepcopy(self.state), AppEvent(event, self.next_timer)
        try:
            handler(state, seen)
        except Defer:
            return None
        except Exception:
            return Outcome.REJECTED
        self.state = state
        for timer in seen.timers:
            self.timers[timer.timer] = timer.due_ms
            self.next_timer = timer.timer + 1
        for number in seen.cancelled:
            self.timers.pop(number, None)
        return Outcome.APPLIED


class FirstWorker(Worker):
    """Tries what waits at the end of a step only, and does not see that an event cancels its own timer."""

    def step(self, epoch: int, batch_max: int = 1024) -> Change | None:
        rule, events = self.rule, [*self.inbox]
        rule.version = 1
        self.inbox.clear()
        self.load()
        if not self.space.version:
            self.space.state.update(self.app.initial)
        waiting, rule.waiting = rule.waiting, []
        self._consume(events)
        while rule.settled and self._applied() and (waiting or rule.waiting):
            before = self._applied()
            tried, rule.waiting = sorted([*waiting, *rule.waiting], key=lambda each: each.chain_sequencer), []
            waiting = []
            self._consume(tried)
            if self._applied() == before:
                break
        rule.waiting = [*waiting, *rule.waiting]
        if rule.settled:
            return self._conclude(epoch)
        if not self.space.version:
            rule.recorder = Recorder({})
            self.space.state = rule.recorder.state
        return None

    def _consume(self, events: list[Event]) -> None:
        for event in events:
            verdict: Verdict = self.rule.attempt(event)
            if verdict.outcome is None:
                self.rule.waiting.append(event)
            else:
                self.rule.settled.append((event, verdict))

    def _applied(self) -> int:
        return sum(verdict.outcome is Outcome.APPLIED for _, verdict in self.rule.settled)


class Story:
    """A tail that computes steps, and its journal."""

    def __init__(self, kind: type[Worker] = Worker, quarantined: tuple[int, ...] = (), is_live: bool = False) -> None:
        self.kind, self.space, self.is_live = kind, Space("table"), is_live
        self.space.backlog = Backlog()
        self.kills: list[tuple[int, Outcome]] = []
        self.worker = kind(make_app(), self.space)
        self.worker.rule.quarantined = dict.fromkeys(quarantined)

    def step(self, events: list[Event], batch_max: int = 1024) -> None:
        for event in events:
            if event.device == TIMER and event.sequencer >= self.space.next_timer and self.is_live:
                # No head knows of this timer.
                event = structs.replace(event, device="d0", sequencer=event.chain_sequencer)
            assert self.space.add(event)
            self.worker.inbox.append(event)
        while self.worker.inbox:
            change = self.worker.step(1, batch_max)
            self.kills += [(kill.chain_sequencer, kill.outcome) for kill in change.kills] if change else []

    def hand_over(self) -> None:
        """The next tail has what this one has concluded."""
        quarantined = self.worker.rule.quarantined
        self.worker.release()
        self.worker = self.kind(make_app(), self.space)
        self.worker.rule.quarantined = quarantined

    @property
    def entries(self) -> list[JournalEntry]:
        assert self.space.backlog is not None
        return self.space.backlog.entries()

    def result(self) -> Any:
        space = self.space
        state = decode_json(encode_json(space.state)) if space.version else None
        timers = {number: timer.due_ms for number, timer in space.timers.items()}
        return state, self.kills, timers, space.next_timer, sorted(space.present), list(space.events)
