"""What a tail does: consume live events, in the chain's order, and say what changed.

One step takes a batch of events of one space and gives at most one change; the cost of a change is the size of what
was written. What becomes of the events is a matter of `rule` and of their order alone: which of them a step takes
depends on when they arrived, and is of no consequence. An event that the reducer defers stays live.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from octoloom.core.app import App
from octoloom.core.event import JOIN, PRESENCE, Change, Event, Kill
from octoloom.core.recorder import LOAD_NODES, Recorder
from octoloom.core.rule import Rule
from octoloom.core.space import Space, decode_json, encode_json

BATCH_MIN = 64
BATCH_MAX = 1024


@dataclass(frozen=True, slots=True)
class Fault:
    """A reducer failed on this event; the chain goes on, and the operator should know."""

    space: str
    event: Event
    detail: str


class Worker:
    """Computes one space. It owns the space's state from the moment that this link is the tail until it is not."""

    def __init__(self, app: App, space: Space) -> None:
        self.app = app
        self.space = space
        self.inbox: deque[Event] = deque(space.events.values())
        """Live events that were not tried yet, in the chain's order."""
        self.rule = Rule(app, Recorder(space.state, LOAD_NODES), space.timers, space.next_timer)
        self.cleared = 0
        """Events up to this one have come through a trial."""
        self.faults: list[Fault] = []
        self.ready = False
        """A large state is made ready a part at a time; until then the replica's own stays in place."""

    def load(self) -> bool:
        """Make the next part of the state ready; True once all of it is."""
        if not self.ready and self.rule.recorder.load():
            self.space.state = self.rule.recorder.state
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
        """Consume new events until `batch_max` were tried, waiting ones included; None if nothing was consumed."""
        while not self.load():
            pass
        space, rule, inbox, tried = self.space, self.rule, self.inbox, 0
        if space.version == 0 and self.app.initial:
            for key, value in self.app.initial.items():
                space.state[key] = value
        while inbox and tried < batch_max:
            tried += rule.take(inbox.popleft())
        if not rule.settled:
            if not space.version:
                # Nothing happened, so the space is as empty as everywhere else.
                rule.recorder = Recorder({})
                space.state = rule.recorder.state
            return None
        return self._conclude(epoch)

    def _conclude(self, epoch: int) -> Change:
        rule = self.rule
        replace, value = rule.recorder.take()
        kills: list[Kill] = []
        presence: list[tuple[str, bool]] = []
        for event, verdict in rule.settled:
            assert verdict.outcome is not None
            kills.append(
                Kill(
                    event.chain_sequencer, event.device, event.sequencer, verdict.outcome, verdict.reason, event.digest
                )
            )
            if verdict.fault:
                self.faults.append(Fault(self.space.name, event, verdict.fault))
            if event.device == PRESENCE:
                presence.append((decode_json(event.payload)["device"], event.name == JOIN))
        change = Change(
            epoch=epoch,
            version=self.space.version + 1,
            replace=replace,
            merge=encode_json(value),
            kills=kills,
            timers=rule.set_timers,
            cancelled=rule.cancelled,
            presence=presence,
            rule=rule.version,
        )
        rule.settled, rule.set_timers, rule.cancelled = [], [], []
        self.space.settle(change)
        return change
