"""What a device owns: its events, the next number and the state, and the only ways in which they change.

Theory. The three live and die together. Whoever changes them does it inside a draft, and the draft becomes one
`Persist`: a store never holds an event without its number, or a state without the kills that belong to it.

Invariants
1. `next_sequencer` is above every pending number and never falls; a number is given once.
2. Queued actions have no number, and get theirs in the order in which they were done.
3. Pending events keep `pending_max` and `pending_bytes_max`, so that they fit into one bootstrap. Events that the
   chain returns were pending once, all at the same time, and fit too. What has no room stays queued.
4. The state is that of exactly (`generation`, `version`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from octoloom.core import merge_patch
from octoloom.core.device_effects import Full, Limits, PendingEvent, Persist, Saved, Settled
from octoloom.core.device_messages import DeviceEvent
from octoloom.core.event import Outcome

Kill = tuple[int, Outcome, str]
"""(sequencer, outcome, reason)"""


@dataclass(slots=True)
class Draft:
    """Gathers what one input changes, so that it becomes durable as one step."""

    removed: list[int] = field(default_factory=list)
    adopted: list[PendingEvent] = field(default_factory=list)
    numbered: list[PendingEvent] = field(default_factory=list)
    unqueued: list[int] = field(default_factory=list)
    queued: list[PendingEvent] = field(default_factory=list)
    state: bytes | None = None
    patches: tuple[bytes, ...] = ()
    settled: list[Settled] = field(default_factory=list)


class DeviceBook:
    """The events, the next number and the state of one device."""

    def __init__(self, device: str, saved: Saved, limits: Limits) -> None:
        self.device = device
        self.state: Any = saved.state
        self.version, self.generation = saved.version, saved.generation
        self.next_sequencer = saved.next_sequencer
        self.pending = {event.sequencer: replace(event, device=device) for event in saved.pending}
        self.queue = deque(replace(action, device=device) for action in saved.queue)
        self._inherited = {action.ticket for action in self.queue}
        self._limits = limits
        self._next_ticket = 1 + max((action.ticket for action in self.queue), default=0)
        self._pending_bytes = sum(event.size for event in self.pending.values())
        self._queue_bytes = sum(action.size for action in self.queue)
        assert self.next_sequencer > max(self.pending, default=0), "a pending number is not below the next one"

    def saved(self) -> Saved:
        """All of it. The state is shared, not copied."""
        events = tuple(replace(event, ticket=0) for event in self.pending.values())
        return Saved(self.next_sequencer, self.version, self.generation, self.state, events, tuple(self.queue))

    # Actions.

    def enqueue(self, draft: Draft, name: str, payload: bytes) -> PendingEvent:
        """Takes an action that has no number yet; raises Full at the bound."""
        action = PendingEvent(0, name, payload, self._next_ticket, self.device)
        self._check_bound(action)
        self._next_ticket += 1
        self._queue_bytes += action.size
        self.queue.append(action)
        draft.queued.append(action)
        return action

    def _check_bound(self, action: PendingEvent) -> None:
        count = len(self.pending) + len(self.queue)
        size = self._pending_bytes + self._queue_bytes
        if count >= self._limits.pending_max or size + action.size > self._limits.pending_bytes_max:
            raise Full(f"{count} events ({size} bytes) are not settled yet: await some of them before sending more")

    def number_queue(self, draft: Draft) -> None:
        """Gives numbers to as many queued actions as there is room for; the others follow later kills."""
        while self.queue and self._has_room(self.queue[0]):
            action = self.queue.popleft()
            self._queue_bytes -= action.size
            if action in draft.queued:
                draft.queued.remove(action)
            else:
                draft.unqueued.append(action.ticket)
            event = replace(action, sequencer=self.next_sequencer)
            self.next_sequencer += 1
            self._add(event)
            draft.numbered.append(event)

    def _has_room(self, action: PendingEvent) -> bool:
        size = self._pending_bytes + action.size
        return len(self.pending) < self._limits.pending_max and size <= self._limits.pending_bytes_max

    def _add(self, event: PendingEvent) -> None:
        self.pending[event.sequencer] = event
        self._pending_bytes += event.size

    # What the chain tells.

    def assume(self, draft: Draft, state: bytes | None, patches: tuple[bytes, ...], version: int) -> None:
        """Moves to `version`: patches on what is here, or on top of a whole `state`."""
        draft.state, draft.patches = state, patches
        if state is not None:
            self.state = msgspec.json.decode(state)
        for patch in patches:
            self.state = merge_patch.apply(self.state, msgspec.json.decode(patch))
        self.version = version

    def kill(self, draft: Draft, kills: Iterable[Kill]) -> None:
        """Drops settled events. A kill of an event that is not here was heard before, or is another life's."""
        for sequencer, outcome, reason in kills:
            event = self.pending.pop(sequencer, None)
            if event is not None:
                self._pending_bytes -= event.size
                draft.removed.append(sequencer)
                draft.settled.append(Settled(event.ticket, sequencer, outcome, reason, self.version))

    def adopt(self, draft: Draft, notes: list[DeviceEvent]) -> None:
        """Takes back events that the chain holds and this device had lost."""
        for sequencer, name, payload in notes:
            event = PendingEvent(sequencer, name, bytes(payload), 0, self.device)
            own = self.pending.get(sequencer)
            if own is not None and (own.name, own.payload) == (name, event.payload):
                continue
            # The chain's event has the number; ours, if any, used it a second time.
            self.kill(draft, [(sequencer, Outcome.SUPERSEDED, "another event took this number")])
            self._add(event)
            draft.adopted.append(event)
        if draft.adopted:
            self.pending = dict(sorted(self.pending.items()))

    def skip_to(self, sequencer: int) -> None:
        """The chain says which numbers are taken; the next one is above them and above all that is here."""
        self.next_sequencer = max(self.next_sequencer, sequencer, max(self.pending, default=0) + 1)

    def doubt_queue(self, draft: Draft) -> None:
        """The chain has numbers that this store never gave: it is an older copy, and what it had queued may be done."""
        for action in [action for action in self.queue if action.ticket in self._inherited]:
            self.queue.remove(action)
            self._queue_bytes -= action.size
            draft.unqueued.append(action.ticket)
            reason = "the store is an older copy: this may have been sent before"
            draft.settled.append(Settled(action.ticket, 0, Outcome.FORGOTTEN, reason, self.version))
        self._inherited.clear()

    def close(self, draft: Draft) -> Persist:
        return Persist(
            self.next_sequencer,
            self.version,
            self.generation,
            tuple(draft.removed),
            (*draft.adopted, *draft.numbered),
            tuple(draft.unqueued),
            tuple(draft.queued),
            draft.state,
            draft.patches,
        )
