"""The developer's side: an `App` is a set of reducers that turn events into a shared state.

.. code-block:: python

    app = App("arena", state={"cells": {}})

    @app.on("claim")
    def claim(state, event):
        if event.payload["cell"] in state["cells"]:
            raise Reject("taken")
        state["cells"][event.payload["cell"]] = event.device

A reducer changes `state` in place and looks at nothing but its two arguments: time and dice come with the event, so
that the same history gives the same state everywhere. What it raises rejects that one event, and every write that
it made is taken back.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import msgspec

from octoloom.core.errors import UsageError
from octoloom.core.event import JOIN, LEAVE, PRESENCE, SYSTEM, Event, Outcome, Timer
from octoloom.core.recorder import Recorder

REASON_MAX = 500
TIMERS_MAX = 10_000
DELAY_MS_MAX = 10 * 366 * 24 * 3600 * 1000
NAME_MAX = 64

decode_json = msgspec.json.Decoder().decode
encode_json = msgspec.json.Encoder().encode


class Reject(Exception):  # noqa: N818 - it reads as what it does: raise Reject("taken")
    """Raise it in a reducer: the event changes nothing, and its device is told why."""


class Defer(Exception):  # noqa: N818
    """Raised by `event.defer()`: the event stays in the chain and is tried again after other events."""


class TookTooLong(BaseException):
    """Raised into a reducer that has run for longer than it may; no `except Exception` of its own holds it."""


class AppEvent:
    """What a reducer sees of an event."""

    def __init__(self, event: Event, next_timer: int = 1, timers_left: int = TIMERS_MAX) -> None:
        self.device = event.device
        self.name = event.name
        self.sequencer = event.sequencer
        self.time_ms = event.time_ms
        self._dice = event.dice
        self._next_timer = next_timer
        self._timers_left = timers_left
        self.payload: Any = decode_json(event.payload)
        if event.device == PRESENCE:
            self.device = self.payload["device"]
        self.timers: list[Timer] = []
        self.cancelled: list[int] = []

    @cached_property
    def random(self) -> random.Random:
        """Dice that fall the same way wherever this event is computed."""
        return random.Random(self._dice)

    def defer(self) -> NoReturn:
        """Leave this event for later: it is tried again once other events have changed the state."""
        raise Defer

    def after(self, delay_ms: int, name: str, payload: Any = None) -> int:
        """Have the chain send the event `name` to this space in `delay_ms`; returns the timer's number."""
        if not isinstance(delay_ms, int) or not 0 <= delay_ms <= DELAY_MS_MAX:
            raise UsageError(f"a timer's delay is a whole number of milliseconds, at most ten years, not {delay_ms!r}")
        if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX or name.startswith(SYSTEM):
            raise UsageError(f"a timer's event has a name of 1 to {NAME_MAX} characters without a leading {SYSTEM!r}")
        if len(self.timers) >= self._timers_left:
            raise Reject(f"a space has at most {TIMERS_MAX} timers")
        name.encode()
        timer = Timer(self._next_timer, self.time_ms + delay_ms, name, encode_json(payload))
        self._next_timer += 1
        self.timers.append(timer)
        return timer.timer

    def cancel(self, timer: int) -> None:
        """Forget a timer; one that has gone off already is not an error."""
        if not isinstance(timer, int) or not 0 < timer < 1 << 53:
            raise UsageError(f"a timer's number is what `after` returned, not {timer!r}")
        self.cancelled.append(timer)


Handler = Callable[[Any, AppEvent], object]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one event in the reducer. `fault` is the traceback of a reducer that failed."""

    outcome: Outcome | None
    reason: str = ""
    fault: str = ""
    timers: list[Timer] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)


APPLIED = Verdict(Outcome.APPLIED)
DEFERRED = Verdict(None)


class App:
    """A named set of reducers; `state` is what a space starts with."""

    def __init__(self, name: str, state: dict[str, Any] | None = None) -> None:
        self.name = name
        self.initial: dict[str, Any] = deepcopy(state) if state else {}
        self.handlers: dict[str, Handler] = {}
        self.running = 0
        """Rises with each event and is negative while no reducer runs, for the watchdog that ends endless ones."""

    def on(self, name: str) -> Callable[[Handler], Handler]:
        """Decorate the reducer for events called `name`."""
        if name.startswith(SYSTEM):
            raise UsageError(
                f"event names may not start with {SYSTEM!r}; for joins and leaves use on_join and on_leave"
            )
        return lambda handler: self._add(name, handler)

    def on_join(self, handler: Handler) -> Handler:
        """Decorate the reducer that runs when a device (`event.device`) joins the space."""
        return self._add(JOIN, handler)

    def on_leave(self, handler: Handler) -> Handler:
        """Decorate the reducer that runs when a device has been gone for longer than a failover takes."""
        return self._add(LEAVE, handler)

    def _add(self, name: str, handler: Handler) -> Handler:
        if name in self.handlers:
            raise UsageError(f"the app {self.name!r} has a reducer for {name!r} already; rename one of the two")
        self.handlers[name] = handler
        return handler

    def run(self, recorder: Recorder, event: Event, next_timer: int, timers_left: int = TIMERS_MAX) -> Verdict:
        """Apply one event to the recorder's state, or leave the state as it was and say why."""
        handler = self.handlers.get(event.name)
        if handler is None:
            if event.name.startswith(SYSTEM):
                return APPLIED
            return Verdict(Outcome.REJECTED, f"this app knows no event called {event.name!r}")
        recorder.begin()
        verdict = self._call(handler, recorder.state, event, next_timer, timers_left)
        if verdict.outcome is Outcome.APPLIED:
            recorder.keep()
        else:
            recorder.undo()
        return verdict

    def _call(self, handler: Handler, state: Any, event: Event, next_timer: int, timers_left: int) -> Verdict:
        try:
            seen = AppEvent(event, next_timer, timers_left)
            self._run(handler, state, seen)
        except Defer:
            return DEFERRED
        except Reject as reject:
            return Verdict(Outcome.REJECTED, _printable(str(reject)))
        except TookTooLong:
            return Verdict(Outcome.REJECTED, "the reducer took too long", f"{event.name!r} took too long")
        except BaseException as error:
            reason = f"the reducer failed: {type(error).__name__}: {error}"
            return Verdict(Outcome.REJECTED, _printable(reason), traceback.format_exc(limit=-6))
        if not seen.timers and not seen.cancelled:
            return APPLIED
        return Verdict(Outcome.APPLIED, timers=seen.timers, cancelled=seen.cancelled)

    def _run(self, handler: Handler, state: Any, seen: AppEvent) -> None:
        """Whatever the watchdog raises, it raises in here."""
        self.running = abs(self.running) + 1
        try:
            handler(state, seen)
        finally:
            self.running = -self.running

    def preview(self, state: dict[str, Any], events: list[Event]) -> dict[str, Any]:
        """What `state` would become if these events were applied now: an optimistic view for the device's own eyes."""
        recorder = Recorder(state)
        for event in events:
            self.run(recorder, event, next_timer=1)
        return recorder.state


def _printable(reason: str) -> str:
    """A reason travels as UTF-8, whatever the reducer has put into it."""
    return reason[:REASON_MAX].encode(errors="replace").decode()
