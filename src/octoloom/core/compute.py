"""What a tail does: consume live events, in the chain's order, and say what changed.

One step takes a batch of events of one space and gives at most one change; the cost of a change is the size of what
was written. An event that the reducer defers stays live; it is tried again in a step in which another event was
applied, in the chain's order, for as long as that makes progress. Which events a step takes is free (it depends on
when they arrived); what the step says is not: consuming the same kills in the same order gives the same state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from octoloom.core.app import TIMERS_MAX, App, Verdict
from octoloom.core.event import JOIN, PRESENCE, TIMER, Change, Event, Kill, Outcome, Timer
from octoloom.core.recorder import LOAD_NODES, Recorder
from octoloom.core.space import Space, decode_json, encode_json

BATCH_MIN = 64
BATCH_MAX = 1024


@dataclass(frozen=True, slots=True)
class Fault:
    """A reducer failed on this event; the chain goes on, and the operator should know."""

    space: str
    event: Event
    detail: str


@dataclass(slots=True)
class _Step:
    """What one step has gathered so far."""

    next_timer: int
    kills: list[Kill] = field(default_factory=list)
    timers: dict[int, Timer] = field(default_factory=dict)
    cancelled: dict[int, None] = field(default_factory=dict)
    fired: dict[int, None] = field(default_factory=dict)
    presence: list[tuple[str, bool]] = field(default_factory=list)
    applied: int = 0

    def kill(self, event: Event, verdict: Verdict) -> None:
        assert verdict.outcome is not None
        self.kills.append(
            Kill(event.chain_sequencer, event.device, event.sequencer, verdict.outcome, verdict.reason, event.digest)
        )
        self.applied += verdict.outcome is Outcome.APPLIED
        for timer in verdict.timers:
            self.timers[timer.timer] = timer
            self.next_timer = timer.timer + 1
        if event.device == TIMER:
            self.fired[event.sequencer] = None
        elif event.device == PRESENCE:
            self.presence.append((decode_json(event.payload)["device"], event.name == JOIN))


class Worker:
    """Computes one space. It owns the space's state from the moment that this link is the tail until it is not."""

    def __init__(self, app: App, space: Space) -> None:
        self.app = app
        self.space = space
        self.inbox: deque[Event] = deque(space.events.values())
        """Live events that were not tried yet, in the chain's order."""
        self.deferred: dict[int, None] = {}
        self.quarantined: dict[int, None] = {}
        self.cleared = 0
        """Events up to this one have come through a trial."""
        self.faults: list[Fault] = []
        self.ready = False
        """A large state is made ready a part at a time; until then the replica's own stays in place."""
        self._recorder = Recorder(space.state, LOAD_NODES)

    def load(self) -> bool:
        """Make the next part of the state ready; True once all of it is."""
        if not self.ready and self._recorder.load():
            self.space.state = self._recorder.state
            self.ready = True
        return self.ready

    def cleared_ahead(self) -> int:
        """How many of the events that come next have been through a trial."""
        count = 0
        for event in self.inbox:
            if event.chain_sequencer > self.cleared:
                break
            count += 1
        return count

    def release(self) -> None:
        """Give the state back to the replica as a plain one."""
        if self.ready:
            self.space.state = decode_json(encode_json(self.space.state))

    def step(self, epoch: int, batch_max: int = BATCH_MAX) -> Change | None:
        """Consume up to `batch_max` new events, and what was deferred; None if nothing was consumed."""
        while not self.load():
            pass
        space, step = self.space, _Step(self.space.next_timer)
        if space.version == 0 and self.app.initial:
            for key, value in self.app.initial.items():
                space.state[key] = value
        self._consume([self.inbox.popleft() for _ in range(min(batch_max, len(self.inbox)))], step)
        self._retry(step)
        if not step.kills:
            if not space.version:
                # Nothing happened, so the space is as empty as everywhere else.
                self._recorder = Recorder({})
                space.state = self._recorder.state
            return None
        return self._conclude(epoch, step)

    def _consume(self, events: Iterable[Event], step: _Step) -> None:
        for event in events:
            verdict = self._verdict(event, step)
            if verdict.fault:
                self.faults.append(Fault(self.space.name, event, verdict.fault))
            if verdict.outcome is None:
                self.deferred[event.chain_sequencer] = None
            else:
                if self.deferred:
                    self.deferred.pop(event.chain_sequencer, None)
                step.kill(event, verdict)

    def _verdict(self, event: Event, step: _Step) -> Verdict:
        if self.quarantined and event.chain_sequencer in self.quarantined:
            return Verdict(Outcome.QUARANTINED, "it ended the process that computed it")
        if event.device == TIMER and not self._is_set(event.sequencer, step):
            return Verdict(Outcome.SUPERSEDED, "the timer was cancelled")
        verdict = self.app.run(self._recorder, event, step.next_timer, TIMERS_MAX - self._timers_set(step))
        # What is cancelled is a timer that is set: a number that is only given later is another timer's.
        if verdict.cancelled:
            step.cancelled.update(dict.fromkeys(number for number in verdict.cancelled if self._is_set(number, step)))
        return verdict

    def _is_set(self, number: int, step: _Step) -> bool:
        return (number in self.space.timers or number in step.timers) and not (
            number in step.cancelled or number in step.fired
        )

    def _timers_set(self, step: _Step) -> int:
        return len(self.space.timers) + len(step.timers) - len(step.cancelled) - len(step.fired)

    def _retry(self, step: _Step) -> None:
        """Try the deferred events again while that makes progress."""
        progress, tried_at = step.applied, 0
        while self.deferred and progress > tried_at:
            tried_at = progress
            self._consume([self.space.events[number] for number in list(self.deferred)], step)
            progress = step.applied

    def _conclude(self, epoch: int, step: _Step) -> Change:
        replace, value = self._recorder.take()
        change = Change(
            epoch=epoch,
            version=self.space.version + 1,
            replace=replace,
            merge=encode_json(value),
            kills=step.kills,
            timers=list(step.timers.values()),
            cancelled=list(step.cancelled),
            presence=step.presence,
        )
        if self.quarantined:
            for kill in step.kills:
                self.quarantined.pop(kill.chain_sequencer, None)
        self.space.settle(change)
        return change
