"""The rule of a space as simply as it can be said, to hold what a chain has computed against.

It shares no code with `core.rule`: events are taken in the chain's order, and after each one the first of all live
events that the app does not defer is settled, until there is none. Every attempt has a copy of the state to itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from octoloom.core.app import App, AppEvent, Defer, Reject
from octoloom.core.event import SYSTEM, TIMER, Event, Outcome

_copy = msgspec.json.Decoder().decode
_text = msgspec.json.Encoder().encode


class SpaceTwin:
    def __init__(self, app: App, events: Iterable[Event]) -> None:
        """Takes all of these, whatever their order."""
        self.app = app
        self.text = _text(app.initial)
        self.timers: dict[int, None] = {}
        """Those that are set."""
        self.next_timer = 1
        self.settled: list[tuple[Event, Outcome]] = []
        self._live: list[Event] = []
        for event in sorted(events, key=lambda each: each.chain_sequencer):
            self._live.append(event)
            while self._settle_one():
                pass

    @property
    def state(self) -> Any:
        return _copy(self.text)

    def _settle_one(self) -> bool:
        for event in self._live:
            outcome = self._outcome(event)
            if outcome is not None:
                self._live.remove(event)
                self.settled.append((event, outcome))
                if event.device == TIMER:
                    self.timers.pop(event.sequencer, None)
                return True
        return False

    def _outcome(self, event: Event) -> Outcome | None:
        handler = self.app.handlers.get(event.name)
        if event.device == TIMER and event.sequencer not in self.timers:
            return Outcome.SUPERSEDED
        if handler is None:
            return Outcome.APPLIED if event.name.startswith(SYSTEM) else Outcome.REJECTED
        state, seen = self.state, AppEvent(event, self.next_timer)
        try:
            handler(state, seen)
        except Defer:
            return None
        except Reject:
            return Outcome.REJECTED
        self.text = _text(state)
        self.next_timer += len(seen.timers)
        self.timers.update((timer.timer, None) for timer in seen.timers)
        for number in seen.cancelled:
            self.timers.pop(number, None)
        return Outcome.APPLIED
