"""What only a tail does: compute every space of the chain, one worker each.

A tail that took over from one that died does not know what killed it. The events that were live then are suspects:
before they are computed here, the driver computes them where it can do no harm (`Trial`), and those that end that
process are quarantined. So an event that kills the process is tried once more, on the next tail, and never again.
A tail that is the last copy of several tries every event like that, until another link has joined. Other spaces go on
meanwhile.
"""

from __future__ import annotations

from octoloom.core.app import App
from octoloom.core.compute import BATCH_MIN, Worker
from octoloom.core.effects import Effect, Trial
from octoloom.core.event import Change, Event
from octoloom.core.space import Space

LOADS_MAX = 8
"""So many spaces make a part of their state ready in one turn: it must stay short, or the link seems dead."""


class Tail:
    def __init__(self, app: App) -> None:
        self.app = app
        self.batch_max = BATCH_MIN
        """How many events a space computes in one turn; the driver sets it so that a turn stays short."""
        self.workers: dict[str, Worker] = {}
        self._busy: dict[str, None] = {}
        self._on_trial: dict[str, int] = {}
        """Spaces whose events are being tried, up to which chain sequencer."""
        self._suspects: dict[str, None] = {}

    def take_office(self, spaces: dict[str, Space], suspicious: bool) -> list[Effect]:
        """Become the tail. `suspicious` if the last one was lost."""
        effects: list[Effect] = []
        # A state is made ready when its first event comes: a thousand idle spaces must not hold up one that plays.
        for space in [space for space in spaces.values() if space.events]:
            self._worker(space)
            if suspicious:
                self._suspects[space.name] = None
                self._try(space, effects)
        return effects

    def leave_office(self) -> None:
        for worker in self.workers.values():
            worker.release()
        self.workers.clear()
        self._busy.clear()
        self._on_trial.clear()
        self._suspects.clear()

    def on_events(self, space: Space, events: list[Event]) -> None:
        worker = self.workers.get(space.name)
        if worker is None:
            self._worker(space)  # its inbox holds the events already
        else:
            worker.inbox.extend(events)
        self._busy[space.name] = None

    def on_trial(self, space: str, fatal: list[int]) -> None:
        """These events ended the process that computed them; the others of the trial are safe."""
        self._suspects.pop(space, None)
        tried = self._on_trial.pop(space, None)
        if tried is not None:
            self._busy[space] = None
            worker = self.workers[space]
            worker.rule.quarantined.update(dict.fromkeys(fatal))
            worker.cleared = tried

    @property
    def doubting(self) -> bool:
        """Are there still events that may have ended the last tail?"""
        return bool(self._suspects)

    @property
    def busy(self) -> bool:
        """Is there something to compute now?"""
        return any(name not in self._on_trial for name in self._busy)

    def compute(self, epoch: int, careful: bool, out: list[Effect]) -> list[tuple[Space, Change]]:
        """One step of every space that has something to do; if `careful`, only what came through a trial."""
        changes: list[tuple[Space, Change]] = []
        loads = LOADS_MAX
        for name in [name for name in self._busy if name not in self._on_trial]:
            worker = self.workers[name]
            if not worker.ready:
                loads -= 1
                if loads < 0 or not worker.load():
                    continue
            cleared = worker.cleared_ahead() if careful else self.batch_max
            if worker.inbox and not cleared:
                self._try(worker.space, out)
                continue
            change = worker.step(epoch, min(cleared, self.batch_max))
            if change is not None:
                changes.append((worker.space, change))
            out.extend(worker.faults)
            worker.faults.clear()
            if not worker.inbox:
                del self._busy[name]
        return changes

    def _try(self, space: Space, out: list[Effect]) -> None:
        self._on_trial[space.name] = space.next_chain_sequencer - 1
        out.append(Trial(space.name, list(space.events.values())))

    def _worker(self, space: Space) -> Worker:
        worker = self.workers[space.name] = Worker(self.app, space)
        if worker.inbox:
            self._busy[space.name] = None
        return worker
