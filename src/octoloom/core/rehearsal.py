"""A rehearsal: what a tail is about to do with live events, done on a copy, to find out whether it can be survived.

It goes by the rule of a space, so an event that waits is tried again when another one frees it. That is when it may be
fatal: if each event were tried once, it would seem safe, and end one tail after the other. Whoever rehearses is told
which event comes next before anything is run. Timers count as set: whether one was cancelled makes no event safer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from octoloom.core.app import App, Verdict
from octoloom.core.event import TIMER, Event
from octoloom.core.recorder import Recorder
from octoloom.core.rule import Rule


def rehearse(app: App, state: dict[str, Any], events: Sequence[Event], on_attempt: Callable[[int], None]) -> None:
    """Calls `on_attempt` with the place of an event in `events` each time before it is tried."""
    rehearsal = _Rehearsal(app, Recorder(state), [event.sequencer for event in events if event.device == TIMER])
    rehearsal.places = {event.chain_sequencer: place for place, event in enumerate(events)}
    rehearsal.on_attempt = on_attempt
    for event in events:
        rehearsal.take(event)


class _Rehearsal(Rule):
    __slots__ = ("on_attempt", "places")
    on_attempt: Callable[[int], None]
    places: dict[int, int]

    def attempt(self, event: Event) -> Verdict:
        self.on_attempt(self.places[event.chain_sequencer])
        return super().attempt(event)
