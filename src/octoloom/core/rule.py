"""The rule of a space: what becomes of its events, taken one by one in the chain's order.

There is one implementation of it. A tail hosts it (`compute`), a fold (`fold`), a replay (`replay`, `own_way`), Spark
through these, and the trial of a suspicious event. The result depends on the order of the events alone:

1. An event is applied, or it is refused and changes nothing: neither state nor timers.
2. An event that the app defers waits. Right after every event that was applied, those that wait are tried again, in the
   chain's order and from the first one on, which may free others in turn. So the next event to be settled is always the
   first one that does not wait, however events came in and however many of them are computed at once.
3. Timers have numbers, given one by one as they are set. One that goes off is an event of the history like any other;
   it is passed over if the timer was cancelled, or has gone off before. What is cancelled is a timer that is set, be it
   by the same event; a number that is only given later is another timer's.
4. An event that is quarantined reaches no reducer.

A host calls `take` with each event, and empties `settled`, `set_timers` and `cancelled` when it has seen to them.
"""

from __future__ import annotations

from collections.abc import Iterable

from octoloom.core.app import TIMERS_MAX, App, Verdict
from octoloom.core.event import RULE, TIMER, Event, Outcome, Timer
from octoloom.core.recorder import Recorder

PASSED_OVER = Verdict(Outcome.SUPERSEDED, "the timer was cancelled")
QUARANTINED = Verdict(Outcome.QUARANTINED, "it ended the process that computed it")


class Rule:
    __slots__ = (
        "app",
        "cancelled",
        "next_timer",
        "quarantined",
        "recorder",
        "set_timers",
        "settled",
        "timers",
        "version",
        "waiting",
    )

    def __init__(self, app: App, recorder: Recorder, timers: Iterable[int] = (), next_timer: int = 1) -> None:
        self.app = app
        self.recorder = recorder
        self.timers: dict[int, None] = dict.fromkeys(timers)
        """The timers that are set."""
        self.next_timer = next_timer
        self.waiting: list[Event] = []
        """Events that the app defers, in the chain's order. Each was tried since the last event that was applied."""
        self.quarantined: dict[int, None] = {}
        """Events, by chain sequencer, that must not be run."""
        self.version = RULE
        """Only a replay of what an older rule has computed sets another."""
        self.settled: list[tuple[Event, Verdict]] = []
        """What was settled, in the order in which it was."""
        self.set_timers: list[Timer] = []
        self.cancelled: list[int] = []

    def take(self, event: Event) -> int:
        """Settle the next event or have it wait, and settle what it frees. Returns how many events were tried."""
        verdict = self.attempt(event)
        if verdict.outcome is None:
            self.waiting.append(event)
            return 1
        self.settled.append((event, verdict))
        return 1 + self._retry() if self.waiting and verdict.outcome is Outcome.APPLIED else 1

    def _retry(self) -> int:
        """Try those that wait until none of them moves."""
        waiting, tries, at = self.waiting, 0, 0
        while at < len(waiting):
            verdict = self.attempt(waiting[at])
            tries += 1
            if verdict.outcome is None:
                at += 1
                continue
            self.settled.append((waiting.pop(at), verdict))
            if verdict.outcome is Outcome.APPLIED:
                at = 0
        return tries

    def attempt(self, event: Event) -> Verdict:
        """What becomes of the event now, as far as state and timers go."""
        if self.quarantined and event.chain_sequencer in self.quarantined:
            del self.quarantined[event.chain_sequencer]
            verdict = QUARANTINED
        elif event.device == TIMER and event.sequencer not in self.timers:
            return PASSED_OVER
        else:
            verdict = self.app.run(self.recorder, event, self.next_timer, TIMERS_MAX - len(self.timers))
            if verdict.timers or verdict.cancelled:
                self._note_timers(verdict)
        if event.device == TIMER and verdict.outcome is not None:
            self.timers.pop(event.sequencer, None)
        return verdict

    def _note_timers(self, verdict: Verdict) -> None:
        # The first rule did not see that an event cancels what it has set itself.
        limit = self.next_timer if self.version < RULE else self.next_timer + len(verdict.timers)
        for timer in verdict.timers:
            self.timers[timer.timer] = None
            self.next_timer = timer.timer + 1
        self.set_timers += verdict.timers
        for number in verdict.cancelled:
            if number in self.timers and number < limit:
                del self.timers[number]
                self.cancelled.append(number)
