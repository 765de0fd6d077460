"""Replay: the history of one space computed again with given code, and compared with what the journal recorded.

A replayer is fed the journal's entries in the order of the log, by the rules of `journal.py`. A change is handed to the
same `Worker` that computes live: the events that it consumed, with their times and dice. What the worker concludes is
then laid beside what was recorded.

1. The books of the space (version, timers, live events) follow the recorded changes alone; the worker's conclusions
   are noted, and not obeyed. So every change is computed from the recorded state before it, each difference is counted
   where it arises, and none is counted again for having arisen.
2. Outcomes that came from outside are not computed: a quarantine, and the end of a reducer that ran for too long.
3. The worker goes by the rule of a space (`rule`), so the order in which the events of a change were consumed follows
   from their places in the chain, and those that the journal says to have waited must wait here as well, for as long.
   A change that was computed by the first rule is the exception: its events are taken in the recorded order.
4. States are compared, not patches: two patches may say the same.
5. From the first difference on a second worker goes its own way, as the given code alone would have gone with these
   events. Where it ends tells which spaces would be different today. A `start` brings it back: what a generation took
   over is what the recorded one left.
6. After a gap nothing can be computed until the next `start`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

import msgspec

from octoloom.core import merge_patch
from octoloom.core.app import App
from octoloom.core.compute import Worker
from octoloom.core.event import RULE, Change, Event, JournalEntry, Kill, Outcome
from octoloom.core.own_way import OwnWay, compute, forget
from octoloom.core.replay_search import Divergence, Suspect, differences, first_difference, suspect, told, told_at
from octoloom.core.space import Space, State, decode_json

__all__ = ["Divergence", "ReplayVerdict", "Replayer"]

EXAMPLES_MAX = 5
"""How many differences of a space are kept in full; all are counted."""
DIFFERENCES_MAX = 100
"""At how many places of a state the culprit of a difference is looked for."""
TOOK_TOO_LONG = "the reducer took too long"
"""The reason that a watchdog gives. No event says how slow a machine was."""
DEFERRED = "deferred"


class ReplayVerdict(msgspec.Struct):
    """What became of one space."""

    space: str
    generation: int = 0
    version: int = 0
    changes: int = 0
    events: int = 0
    imposed: int = 0
    """Events whose outcome came from outside, and that were not run."""
    dropped: int = 0
    """Records that came again, or belong to an older generation."""
    unread: int = 0
    """Records behind a gap."""
    counts: dict[str, int] = {}
    """How many differences of each kind there are."""
    outcomes: dict[str, int] = {}
    """Outcomes that would be others, as `applied → rejected`."""
    first: list[Divergence] = []
    end: str = ""
    """Where the given code's own way ends elsewhere than the recorded one; empty if both end alike."""

    @property
    def clean(self) -> bool:
        return not self.counts and not self.end and not self.unread


class _Replica(Space):
    """A space that notes what a worker concludes, and obeys what was recorded."""

    __slots__ = ("concluded",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.concluded: Change | None = None

    def settle(self, change: Change) -> None:
        self.concluded = change

    def obey(self, change: Change) -> None:
        super().settle(change)


class Replayer:
    """One space. `read` takes the next record and answers what differs; `verdict` is for the end."""

    def __init__(self, space: str, app: App) -> None:
        self._app = app
        self._replica = _Replica(space)
        self._worker = Worker(app, self._replica)
        self._recorded: State = {}
        self._own: OwnWay | None = None
        self._lost = False
        self._counts: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._verdict = ReplayVerdict(space)

    @property
    def state(self) -> State:
        """The state that the records lead to."""
        return self._recorded

    @property
    def own_state(self) -> State:
        """The state that the given code alone leads to."""
        return self._own.state if self._own is not None else self._replica.state

    def read(self, generation: int, entry: JournalEntry, partition: int = -1, offset: int = -1) -> list[Divergence]:
        verdict, replica = self._verdict, self._replica
        if generation < verdict.generation or (generation == verdict.generation and entry.version <= replica.version):
            verdict.dropped += 1
            return []
        place = generation, entry.version, partition, offset
        if entry.start is not None:
            verdict.generation, self._lost, self._own = generation, False, None
            self._begin(entry)
            return []
        if self._lost:
            verdict.unread += 1
            return []
        if entry.version != replica.version + 1:
            self._lost, verdict.unread = True, verdict.unread + 1
            text = f"version {entry.version} follows {replica.version}"
            return self._note(place, [_found("gap", text, "a record is missing: nothing can be computed from here on")])
        assert entry.change is not None
        verdict.generation = generation
        return self._note(place, self._replay(entry.change, entry))

    def verdict(self) -> ReplayVerdict:
        """All that is known by now."""
        verdict = self._verdict
        verdict.version, verdict.counts = self._replica.version, dict(self._counts)
        verdict.outcomes = dict(self._outcomes)
        verdict.end = ""
        if self._own is not None and (difference := first_difference(self._recorded, self.own_state)) is not None:
            verdict.end = str(difference)
        return verdict

    # One record.

    def _begin(self, entry: JournalEntry) -> None:
        assert entry.start is not None
        self._replica = _Replica(self._replica.name)
        self._replica.restore(entry.start)
        self._replica.devices.clear()
        self._recorded = decode_json(entry.start.state)
        self._employ()

    def _employ(self) -> None:
        """A worker that begins at what is recorded. Which live events it may have tried shows with the next change."""
        self._replica.state = merge_patch.copied(self._recorded)
        self._worker = Worker(self._app, self._replica)
        self._worker.inbox.clear()

    def _replay(self, change: Change, entry: JournalEntry) -> list[Suspect]:
        verdict, replica, events = self._verdict, self._replica, entry.events
        verdict.changes += 1
        verdict.events += len(events)
        replica.hold(entry.waiting)
        if len(events) != len(change.kills) or not all(map(_is_of, change.kills, events)):
            self._obey(change)
            self._employ()
            text = f"{len(change.kills)} events settled, {len(events)} of them told"
            return [_found("events", text, "the events are not those that the change settles: it cannot be computed")]
        imposed = [kill.chain_sequencer for kill in change.kills if _is_imposed(kill)]
        verdict.imposed += len(imposed)
        concluded = self._compute(change, events, imposed)
        found = [] if self._is_the_same(concluded, change) else self._compare(concluded, change, events)
        if self._own is not None:
            self._own.go(change.rule, events, imposed)
        elif found:
            settled = {kill.chain_sequencer for kill in change.kills}
            self._own = OwnWay(self._app, replica, concluded, settled)
        self._obey(change)
        if found or concluded is None:
            self._employ()
        return found

    def _compute(self, change: Change, events: list[Event], imposed: list[int]) -> Change | None:
        replica = self._replica
        highest = max((event.chain_sequencer for event in events), default=0)
        # What is older than something that was consumed, and is live, was tried.
        others = [event for number, event in replica.events.items() if number < highest]
        replica.concluded = None
        compute(self._worker, change.rule, events, others, imposed)
        return replica.concluded

    def _obey(self, change: Change) -> None:
        value = decode_json(change.merge)
        self._recorded = value if change.replace else merge_patch.apply(self._recorded, value)
        self._replica.obey(change)
        forget(self._worker)

    # Comparing.

    def _is_the_same(self, concluded: Change | None, change: Change) -> bool:
        """The usual case, at the cost of the change."""
        return (
            concluded is not None
            and concluded.kills == change.kills
            and concluded.merge == change.merge
            and concluded.replace == change.replace
            and concluded.timers == change.timers
            and concluded.cancelled == change.cancelled
        )

    def _compare(self, concluded: Change | None, change: Change, events: list[Event]) -> list[Suspect]:
        found = list(self._compare_outcomes(concluded, change, events))
        if found or concluded is None:
            # What follows from another outcome is no difference of its own.
            return found
        timers = _timers(change), _timers(concluded)
        if timers[0] != timers[1]:
            event, certain, _ = self._search(events, change, [])
            found.append(Suspect("timers", *timers, event, certain))
        value = decode_json(change.merge)
        after = value if change.replace else merge_patch.apply(merge_patch.copied(self._recorded), value)
        differs = list(islice(differences(after, self._replica.state), DIFFERENCES_MAX))
        if differs:
            event, certain, at = self._search(events, change, [each.path for each in differs])
            found.append(Suspect("state", *differs[at].sides, event, certain))
        return found

    def _compare_outcomes(self, concluded: Change | None, change: Change, events: list[Event]) -> list[Suspect]:
        found: list[Suspect] = []
        came_out = {kill.chain_sequencer: kill for kill in concluded.kills} if concluded is not None else {}
        for kill, event in zip(change.kills, events, strict=True):
            now = came_out.pop(kill.chain_sequencer, None)
            if _is_imposed(kill):
                continue
            if now is None or now.outcome is not kill.outcome:
                self._outcomes[f"{kill.outcome.word} → {now.outcome.word if now else DEFERRED}"] += 1
                found.append(Suspect("outcome", _ended(kill), _ended(now), event))
            elif now.reason != kill.reason:
                found.append(Suspect("reason", _ended(kill), _ended(now), event))
        for now in came_out.values():
            self._outcomes[f"{DEFERRED} → {now.outcome.word}"] += 1
            found.append(Suspect("deferral", DEFERRED, _ended(now), self._replica.events[now.chain_sequencer]))
        if not found and concluded is not None and change.rule >= RULE:
            found += self._compare_order(concluded, change, events)
        return found

    def _compare_order(self, concluded: Change, change: Change, events: list[Event]) -> Iterator[Suspect]:
        """The first event that waits for longer on one side than on the other."""
        run = {kill.chain_sequencer: event for kill, event in zip(change.kills, events, strict=True)}
        recorded, replayed = ([kill for kill in each.kills if not _is_imposed(kill)] for each in (change, concluded))
        for kill, now in zip(recorded, replayed, strict=True):
            # What is settled next is the first event that does not wait. So of two, the first has waited on one side.
            if kill.chain_sequencer < now.chain_sequencer:
                yield Suspect("deferral", _ended(kill), DEFERRED, run[kill.chain_sequencer])
            elif now.chain_sequencer < kill.chain_sequencer:
                yield Suspect("deferral", DEFERRED, _ended(now), run[now.chain_sequencer])
            if kill.chain_sequencer != now.chain_sequencer:
                return

    def _search(
        self, events: list[Event], change: Change, paths: list[tuple[str, ...]]
    ) -> tuple[Event | None, bool, int]:
        runs = [
            event
            for event, kill in zip(events, change.kills, strict=True)
            if not _is_imposed(kill) and kill.outcome is not Outcome.SUPERSEDED
        ]
        applied = {kill.chain_sequencer for kill in change.kills if kill.outcome is Outcome.APPLIED}
        return suspect(self._app, self._recorded, self._replica, runs, applied, paths)

    def _note(self, place: tuple[int, int, int, int], found: list[Suspect]) -> list[Divergence]:
        if not found:
            return []
        generation, version, partition, offset = place
        at = Divergence(self._replica.name, generation, version, "", "", "", partition=partition, offset=offset)
        noted = [told_at(at, each) for each in found]
        self._counts.update(each.what for each in found)
        room = EXAMPLES_MAX - len(self._verdict.first)
        self._verdict.first += noted[: max(room, 0)]
        return noted


def _found(what: str, recorded: str, replayed: str) -> Suspect:
    return Suspect(what, recorded, replayed, None)


def _is_of(kill: Kill, event: Event) -> bool:
    return (
        kill.chain_sequencer == event.chain_sequencer
        and kill.sequencer == event.sequencer
        and kill.device == event.device
    )


def _is_imposed(kill: Kill) -> bool:
    return kill.outcome is Outcome.QUARANTINED or (kill.outcome is Outcome.REJECTED and kill.reason == TOOK_TOO_LONG)


def _ended(kill: Kill | None) -> str:
    if kill is None:
        return DEFERRED
    return f"{kill.outcome.word}: {kill.reason}" if kill.reason else kill.outcome.word


def _timers(change: Change) -> str:
    timers = [f"{timer.name} at {timer.due_ms} {told(timer.payload)}" for timer in change.timers]
    cancelled = [f"{number} cancelled" for number in change.cancelled]
    return ", ".join([*timers, *cancelled]) or "none"
