"""A simulated device's disk: each commit is atomic, and a copy of it can be put back later."""

from __future__ import annotations

from dataclasses import replace

from octoloom.core import merge_patch
from octoloom.core.device_effects import PendingEvent, Persist, Saved
from octoloom.core.space import decode_json


class Disk:
    def __init__(self) -> None:
        self._place: tuple[int, int, int] | None = None
        self._pending: dict[int, PendingEvent] = {}
        self._queue: dict[int, PendingEvent] = {}
        self._base = b"{}"
        self._patches: list[bytes] = []

    def copy(self) -> Disk:
        other = Disk()
        other._place, other._base, other._patches = self._place, self._base, list(self._patches)
        other._pending, other._queue = dict(self._pending), dict(self._queue)
        return other

    def without_queue(self) -> Disk:
        """A copy for a second process. (The real store is locked, so what is queued is never taken up twice.)"""
        other = self.copy()
        other._queue.clear()
        return other

    def commit(self, step: Persist) -> None:
        self._place = (step.next_sequencer, step.version, step.generation)
        for sequencer in step.removed:
            self._pending.pop(sequencer, None)
        for ticket in step.unqueued:
            del self._queue[ticket]
        for event in step.numbered:
            self._pending[event.sequencer] = replace(event, ticket=0)
        for action in step.queued:
            self._queue[action.ticket] = action
        if step.state is not None:
            self._base, self._patches = step.state, []
        self._patches.extend(step.patches)

    def load(self) -> Saved | None:
        if self._place is None:
            return None
        state = decode_json(self._base)
        for patch in self._patches:
            state = merge_patch.apply(state, decode_json(patch))
        next_sequencer, version, generation = self._place
        pending = tuple(self._pending[number] for number in sorted(self._pending))
        queue = tuple(self._queue[ticket] for ticket in sorted(self._queue))
        return Saved(next_sequencer, version, generation, state, pending, queue)
