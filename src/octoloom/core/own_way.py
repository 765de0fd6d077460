"""The way that other code would have gone with the same events, from the first difference on.

A replay compares each change with the record and then follows the record. This worker does not: it obeys itself, so
that its state at the end is what the space would be today. It is given the recorded events change by change, each
once, though code that defers fewer of them may settle some earlier than they were. A timer that it never set does not
go off, for timers of its own there are no events.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from octoloom.core.app import App
from octoloom.core.compute import Worker
from octoloom.core.event import RULE, Change, Event
from octoloom.core.space import Space, State, decode_json, encode_json

ALL = 1 << 62
"""A recorded change is computed in one step, however many events have to be tried for it."""


class OwnWay:
    def __init__(self, app: App, fork: Space, concluded: Change | None, settled: Container[int]) -> None:
        """Leaves the recorded way at `fork`, a space as it was before a change, with the state after `concluded`.

        `settled` are the events, by chain sequencer, that the recorded change settles.
        """
        space = Space(fork.name)
        space.version, space.state = fork.version, decode_json(encode_json(fork.state))
        space.events, space.timers, space.next_timer = dict(fork.events), dict(fork.timers), fork.next_timer
        self._ahead: dict[int, None] = {}
        """What is settled here and not yet there."""
        if concluded is not None:
            space.settle(concluded)
            self._note(concluded, settled)
        self._worker = Worker(app, space)
        self._worker.rule.waiting.extend(self._worker.inbox)
        self._worker.inbox.clear()

    @property
    def state(self) -> State:
        return self._worker.space.state

    def go(self, rule: int, events: Iterable[Event], imposed: Iterable[int]) -> None:
        """The next recorded change, made by this rule; `imposed` are those of its events that must not be run."""
        events = list(events)
        settled = {event.chain_sequencer for event in events}
        new = [event for event in events if self._ahead.pop(event.chain_sequencer, 0) is not None]
        change = compute(self._worker, rule, new, (), imposed)
        if change is not None:
            self._note(change, settled)
        forget(self._worker)

    def _note(self, change: Change, settled: Container[int]) -> None:
        early = (kill.chain_sequencer for kill in change.kills if kill.chain_sequencer not in settled)
        self._ahead.update(dict.fromkeys(early))


def compute(
    worker: Worker, rule: int, events: Collection[Event], others: Iterable[Event], imposed: Iterable[int]
) -> Change | None:
    """Have a worker compute a recorded change once more.

    `events` are those that it settled, in the recorded order, and `imposed` those of them that must not be run.
    `others` were live, and were tried as well. By today's rule the rest follows from their places in the chain: what
    waits is simply tried once more, before anything has changed. By the first rule, the record alone says in which
    order they were consumed, and whatever waited was tried at the end.
    """
    given = {event.chain_sequencer for event in events}
    known = {event.chain_sequencer: event for event in (*worker.rule.waiting, *others)}
    rest = [event for number, event in known.items() if number not in given]
    for event in events:
        worker.space.events[event.chain_sequencer] = event
    order = sorted([*events, *rest], key=_place) if rule >= RULE else [*events, *sorted(rest, key=_place)]
    worker.inbox.extend(order)
    worker.rule.waiting.clear()
    worker.rule.version = rule
    worker.rule.quarantined = dict.fromkeys(imposed)
    return worker.step(0, ALL)


def _place(event: Event) -> int:
    return event.chain_sequencer


def forget(worker: Worker) -> None:
    """Neither late replicas nor devices nor operators ask here, and there may be many spaces."""
    worker.faults.clear()
    worker.space.ring.clear()
    worker.space.devices.clear()
