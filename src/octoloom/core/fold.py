"""One space, folded from its events alone: what a chain's tail would make of them, without a chain.

The history of a space is a sequence of events, each with the time and the dice that the head gave it. Fed to the same
app in the same order they give the same state, wherever that happens: in a tail, in a test, in Spark. The rules are
those of `compute`:

1. a refused event changes nothing;
2. a deferred event waits, and is tried again, in its order, after another one was applied, for as long as that helps;
3. timers have numbers, given one by one as they are set. One that goes off is an event of the history like any other;
   it is passed over if the timer was cancelled, or has gone off before.
"""

from __future__ import annotations

from typing import Any

import msgspec

from octoloom.core.app import TIMERS_MAX, App, Verdict
from octoloom.core.errors import OctoloomError
from octoloom.core.event import TIMER, Event, Outcome
from octoloom.core.recorder import Recorder
from octoloom.core.space import decode_json, encode_json

DEFERRED_MAX = 65_536
"""Events of one space that may wait. A live chain holds back far fewer before it is `busy`."""
PASSED_OVER = Verdict(Outcome.SUPERSEDED, "the timer was cancelled")


class TooManyDeferred(OctoloomError):  # noqa: N818
    """An app defers more and more, and nothing that comes makes any of it go on."""


class FoldSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """All of a fold."""

    state: bytes
    applied: int
    rejected: int
    next_timer: int
    timers: list[int]
    deferred: list[Event]


class Fold:
    """Feed it events with `take`."""

    __slots__ = ("_recorder", "app", "applied", "deferred", "next_timer", "rejected", "timers")

    def __init__(self, app: App, state: dict[str, Any] | None = None) -> None:
        self.app = app
        self._recorder = Recorder(dict(app.initial) if state is None else state)
        self.applied = 0
        self.rejected = 0
        self.next_timer = 1
        self.timers: dict[int, None] = {}
        self.deferred: list[Event] = []

    @property
    def state(self) -> dict[str, Any]:
        return self._recorder.state

    def take(self, event: Event) -> Verdict:
        """What becomes of the event now. Deferred ones that it frees are counted with it."""
        verdict = self._run(event)
        if verdict.outcome is None:
            if len(self.deferred) >= DEFERRED_MAX:
                raise TooManyDeferred(f"{DEFERRED_MAX} events wait: the app defers what nothing makes go on")
            self.deferred.append(event)
        elif self.deferred and verdict.outcome is Outcome.APPLIED:
            self._retry()
        return verdict

    def _run(self, event: Event) -> Verdict:
        if event.device == TIMER and event.sequencer not in self.timers:
            self.rejected += 1
            return PASSED_OVER
        verdict = self.app.run(self._recorder, event, self.next_timer, TIMERS_MAX - len(self.timers))
        if verdict.outcome is Outcome.APPLIED:
            self.applied += 1
            if verdict.timers or verdict.cancelled:
                self._set(verdict)
        elif verdict.outcome is not None:
            self.rejected += 1
        if event.device == TIMER and verdict.outcome is not None:
            self.timers.pop(event.sequencer, None)
        return verdict

    def _set(self, verdict: Verdict) -> None:
        for timer in verdict.timers:
            self.timers[timer.timer] = None
            self.next_timer = timer.timer + 1
        for number in verdict.cancelled:
            self.timers.pop(number, None)

    def _retry(self) -> None:
        progress = True
        while progress and self.deferred:
            waiting, self.deferred, progress = self.deferred, [], False
            for event in waiting:
                verdict = self._run(event)
                if verdict.outcome is None:
                    self.deferred.append(event)
                progress = progress or verdict.outcome is Outcome.APPLIED

    def settle(self) -> None:
        """Forget what changed: between batches, so that the memory of a fold is its state."""
        self._recorder.forget()

    def snapshot(self) -> FoldSnapshot:
        state, timers = encode_json(self.state), list(self.timers)
        return FoldSnapshot(state, self.applied, self.rejected, self.next_timer, timers, list(self.deferred))

    @classmethod
    def restore(cls, app: App, snapshot: FoldSnapshot) -> Fold:
        fold = cls(app, decode_json(snapshot.state))
        fold.applied, fold.rejected = snapshot.applied, snapshot.rejected
        fold.next_timer, fold.deferred = snapshot.next_timer, list(snapshot.deferred)
        fold.timers = dict.fromkeys(snapshot.timers)
        return fold
