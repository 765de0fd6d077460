"""The promises, checked at every step and once more when everything has settled.

1. *One history.* A version of a space is committed with one content only, whoever says it.
2. *Fold.* What a device or an observer sees, and what any whole link holds at a version, is the fold of that history.
3. *Never back.* A device that keeps its store never sees a version fall, nor one that was not committed.
4. *Exactly once.* An action takes effect at most once, and its device is told what became of it, truly.
5. *Order.* The actions of a device that never went back to an older store take effect in the order in which they were
   done, but for those that the app deferred. What a device did before it lost its store may come late: a link that
   slept with it in hand gives it back, and its number is behind those that were given since.
6. *Settled.* Once faults stop, every action of a device that kept its store has an outcome, all replicas are equal
   and there are as many as asked for.
7. *Replay.* Computing the recorded events again, elsewhere, gives the same outcomes and the same state.
8. *Rule.* So does taking them in the chain's order, by the rule of a space at its simplest: whatever was deferred took
   effect right after the event that freed it.
9. *Timers.* What was set goes off once, unless it was cancelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from octoloom.core import merge_patch
from octoloom.core.chain import Chain
from octoloom.core.device_effects import PendingEvent, Settled, Stopped
from octoloom.core.event import PRESENCE, TIMER, Change, Event, JournalEntry, Kill, Outcome, SpaceSnapshot
from octoloom.core.recorder import Recorder
from octoloom.core.space import Space, decode_json
from octoloom.simulation.space_twin import SpaceTwin
from octoloom.simulation.world import Broken

if TYPE_CHECKING:
    from octoloom.simulation.cluster import Cluster
    from octoloom.simulation.device_node import DeviceNode
    from octoloom.simulation.link_node import LinkNode

canonical = msgspec.json.Encoder(order="deterministic").encode


Lineage = tuple[Change, "Lineage"] | None
"""The changes that led to a replica's version, newest first."""


class WitnessedSpace(Space):
    """A replica that knows where it comes from, through snapshots too."""

    __slots__ = ("lineage",)
    handed_on: ClassVar[dict[int, tuple[SpaceSnapshot, Lineage]]] = {}
    consumed: ClassVar[dict[int, tuple[Change, list[Event]]]] = {}
    """What the tail that made a change consumed for it. Messages are passed on as they are, so identity tells."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.lineage: Lineage = None

    def settle(self, change: Change) -> None:
        if id(change) not in self.consumed:
            events = [self.events[kill.chain_sequencer] for kill in change.kills]
            self.consumed[id(change)] = (change, events)
        super().settle(change)
        self.lineage = (change, self.lineage)

    def snapshot(self) -> SpaceSnapshot:
        snapshot = super().snapshot()
        self.handed_on[id(snapshot)] = (snapshot, self.lineage)
        return snapshot

    def restore(self, snapshot: SpaceSnapshot) -> None:
        super().restore(snapshot)
        self.lineage = self.handed_on[id(snapshot)][1]


class History:
    """What was committed in one space of one generation, and the states that follow from it."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.state: Any = {}
        self.texts: list[bytes] = [b"{}"]
        self.outcomes: dict[str, list[Kill]] = {}
        """Token → kills."""
        self.killed: dict[tuple[str, int], Kill] = {}
        """(Device, sequencer) → kill."""
        self.effects = 0
        self.judged = 0
        """Up to which version it was held against the rule."""

    def add(self, change: Change) -> None:
        self.changes.append(change)
        value = decode_json(change.merge)
        self.state = value if change.replace else merge_patch.apply(self.state, value)
        self.texts.append(canonical(self.state))


class Checker:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.histories: dict[tuple[int, str], History] = {}
        self.admitted: dict[tuple[str, Event], None] = {}
        """The events that heads took, by space."""
        self.settled: dict[str, tuple[Outcome, str]] = {}
        self._seen: dict[tuple[str, str], int] = {}
        self._versions: dict[str, tuple[int, int, int]] = {}
        self._last_applied: dict[tuple[int, str, int], int] = {}

    def history(self, generation: int, space: str) -> History:
        key = (generation, space)
        if key not in self.histories:
            self.histories[key] = History()
        return self.histories[key]

    # While it runs.

    def on_admitted(self, chain: Chain, space: Space, event: Event) -> None:
        self.admitted[space.name, event] = None

    def on_committed(self, link: LinkNode, chain: Chain, space: Space) -> None:
        """A head holds these versions: they are the history now."""
        assert isinstance(space, WitnessedSpace)
        if self._seen.get((link.name, space.name)) == space.committed:
            return
        self._seen[link.name, space.name] = space.committed
        history = self.history(chain.view.generation, space.name)
        for change in self._unknown(link, space, history):
            history.add(change)
            self.cluster.world.tell(
                link.name, "commits {} {}, {} events", space.name, change.version, len(change.kills)
            )
            self._note_kills(space.name, history, change)
        if space.version == space.committed and canonical(space.state) != history.texts[space.version]:
            raise Broken(f"fold: {link.name} holds another state of {space.name} at version {space.version}")

    @staticmethod
    def _unknown(link: LinkNode, space: WitnessedSpace, history: History) -> list[Change]:
        """What this head commits for the first time; what it shares with the history must be the same."""
        unknown: list[Change] = []
        lineage = space.lineage
        while lineage is not None and lineage[0].version > space.committed:
            lineage = lineage[1]
        while lineage is not None and lineage[0].version > len(history.changes):
            unknown.append(lineage[0])
            lineage = lineage[1]
        if lineage is not None and lineage[0] != history.changes[lineage[0].version - 1]:
            raise Broken(f"one history: {link.name} has another version {lineage[0].version} of {space.name}")
        return unknown[::-1]

    def _note_kills(self, space: str, history: History, change: Change) -> None:
        for kill, event in zip(change.kills, self._events(space, change), strict=True):
            if kill.device in (TIMER, PRESENCE):
                continue
            token = decode_json(event.payload)["token"]
            if (kill.device, kill.sequencer) in history.killed:
                raise Broken(f"exactly once: number {kill.sequencer} of {kill.device} was settled twice in {space}")
            history.killed[kill.device, kill.sequencer] = kill
            history.effects += kill.outcome is Outcome.APPLIED
            kills = history.outcomes.setdefault(token, [])
            kills.append(kill)
            if sum(kill.outcome is Outcome.APPLIED for kill in kills) > 1:
                raise Broken(f"exactly once: {token} took effect twice in {space}, at last in version {change.version}")
            self._check_order(history, event, kill)

    def _events(self, space: str, change: Change) -> list[Event]:
        events = WitnessedSpace.consumed[id(change)][1]
        for event in events:
            if (space, event) not in self.admitted:
                raise Broken(f"one history: {space} consumes {event.device} {event.sequencer}, which no head ever took")
        return events

    def _check_order(self, history: History, event: Event, kill: Kill) -> None:
        if event.name == "wait" or kill.outcome is not Outcome.APPLIED:
            return
        device, number = decode_json(event.payload)["token"].rsplit(".", 1)
        key = id(history), device, self.cluster.wipes_before(device, int(number))
        last = self._last_applied.get(key, -1)
        if int(number) < last and not self.cluster.rolled_back(device):
            raise Broken(f"order: action {number} of {device} took effect after its action {last}")
        self._last_applied[key] = int(number)

    def on_published(self, space: str, entry: JournalEntry) -> None:
        """Whoever reads a change in the journal finds the events that it consumed beside it."""
        if entry.change is not None and len(entry.events) != len(entry.change.kills):
            found, consumed = len(entry.events), len(entry.change.kills)
            raise Broken(f"journal: version {entry.version} of {space} has {found} of {consumed} consumed events")

    def on_restored(self, generation: int, space: str, lineage: Lineage) -> None:
        """A generation goes on from the journal: whatever was committed before must be in it."""
        changes: list[Change] = []
        while lineage is not None:
            changes.append(lineage[0])
            lineage = lineage[1]
        changes.reverse()
        earlier = [number for number, name in self.histories if name == space and number < generation]
        if not earlier:
            return
        old = self.histories[max(earlier), space]
        if changes[: len(old.changes)] != old.changes:
            raise Broken(f"journal: {space} was at {len(old.changes)}, and the journal gives another {len(changes)}")
        for change in changes[len(old.changes) :]:
            old.add(change)  # nobody was told of it, but it was in the journal when its head died
            self._note_kills(space, old, change)
        self.histories[generation, space] = old

    def on_advanced(self, node: DeviceNode) -> None:
        generation, version = node.core.generation, node.core.version
        life, old_generation, old_version = self._versions.get(node.name, (0, 0, 0))
        if (life, old_generation) == (node.life, generation) and version < old_version:
            raise Broken(f"never back: {node.name} was at version {old_version} and sees {version}")
        self._versions[node.name] = (node.life, generation, version)
        history = self.history(generation, node.space)
        if version > len(history.changes):
            raise Broken(f"never back: {node.name} sees version {version}, of which no head knows")
        if canonical(node.core.state) != history.texts[version]:
            raise Broken(f"fold: {node.name} sees another state at version {version}")

    def on_reset(self, node: DeviceNode, generation: int) -> None:
        if not self.cluster.may_reset:
            raise Broken(f"never back: {node.name} was told that history starts over as generation {generation}")

    def on_stopped(self, node: DeviceNode, stopped: Stopped) -> None:
        if stopped.code != "fenced":
            raise Broken(f"settled: {node.name} was refused for good: {stopped.code}: {stopped.detail}")

    def on_settled(self, node: DeviceNode, settled: Settled) -> None:
        """A device is told what became of its action: is it true?"""
        token = node.actions.get(settled.ticket)
        if token is None:
            return  # done in an earlier life, which knew the token
        self.settled[token] = (settled.outcome, settled.reason)
        self.cluster.world.tell(node.name, "hears that {} is {}", token, settled.outcome.word)
        history = self.history(node.core.generation, node.space)
        outcomes = [kill.outcome for kill in history.outcomes.get(token, [])]
        truth = {
            Outcome.APPLIED: Outcome.APPLIED in outcomes,
            Outcome.REJECTED: Outcome.REJECTED in outcomes and Outcome.APPLIED not in outcomes,
            Outcome.QUARANTINED: Outcome.QUARANTINED in outcomes and Outcome.APPLIED not in outcomes,
            Outcome.SUPERSEDED: Outcome.APPLIED not in outcomes,
            Outcome.FORGOTTEN: not settled.sequencer or (node.device, settled.sequencer) in history.killed,
        }
        if not truth[settled.outcome]:
            raise Broken(f"exactly once: {node.name} is told {settled.outcome.word} of {token}, but it has {outcomes}")

    # At the end.

    def at_rest(self) -> None:
        """Faults stopped long ago: everything must have settled."""
        for chain in self.cluster.chain_names:
            self._check_view(chain)
        for node in self.cluster.devices:
            self._check_device(node)
        for (generation, space), history in self.histories.items():
            self._replay(generation, space, history)
            self._check_rule(generation, space, history)
        for space in self.cluster.journal.records:
            self._check_journal(space)

    def _check_view(self, chain: str) -> None:
        view = self.cluster.register.core.directory().views.get(chain)
        if view is None or len(view.whole) < min(self.cluster.replicas, len(self.cluster.alive_links())):
            raise Broken(f"settled: {chain} has too few whole links: {view}")
        gone = [link for link in view.links if link not in self.cluster.links]
        if gone:
            raise Broken(f"settled: {chain} still counts on {gone}")
        for link in view.links:
            core = self.cluster.links[link].chains[chain]
            for space in core.spaces.values():
                self._check_replica(link, view.generation, space)

    def _check_replica(self, link: str, generation: int, space: Space) -> None:
        history = self.history(generation, space.name)
        if space.version != len(history.changes) or canonical(space.state) != history.texts[-1]:
            raise Broken(f"settled: {link} holds {space.name} at {space.version} of {len(history.changes)}")
        left = [event for event in space.events.values() if not _may_wait(event, history)]
        if left:
            raise Broken(f"settled: {link} still holds {left[0].device} {left[0].sequencer} in {space.name}")

    def _check_device(self, node: DeviceNode) -> None:
        history = self.history(self.cluster.generation_of(node.space), node.space)
        deferred = self.cluster.live_numbers(node.device, node.space)
        left = [e for e in node.core.unsettled() if not _may_wait(e, history) and e.sequencer not in deferred]
        if left and node.core.phase.value != "stopped":
            raise Broken(f"settled: {node.name} still holds {len(left)} events, first {left[0].sequencer}")
        if node.core.version != len(history.changes) and node.core.phase.value != "stopped":
            raise Broken(f"settled: {node.name} is at version {node.core.version} of {len(history.changes)}")
        for ticket, token in node.actions.items():
            waits = any(event.ticket == ticket for event in node.core.unsettled())
            if token not in self.settled and not waits and node.core.phase.value != "stopped":
                raise Broken(f"exactly once: {node.name} was never told what became of {token}")

    def _check_journal(self, space: str) -> None:
        """Every committed change is in the journal once, in order."""
        history = self.history(self.cluster.generation_of(space), space)
        snapshot, lineage = self.cluster.journal.read(space)
        for change in reversed(history.changes):
            if lineage is None or lineage[0] != change:
                raise Broken(f"journal: {space} has {len(history.changes)} versions, the journal {snapshot.version}")
            lineage = lineage[1]
        consumed = sum(len(change.kills) for change in history.changes)
        kept = self.cluster.journal.events_of(space)
        if lineage is not None or kept != consumed:
            raise Broken(f"journal: {space} consumed {consumed} events, the journal has {kept}")

    def _replay(self, generation: int, space: str, history: History) -> None:
        app = self.cluster.make_app()
        recorder = Recorder(dict(app.initial) if history.changes else {})
        next_timer = 1
        for change in history.changes:
            for kill, event in zip(change.kills, self._events(space, change), strict=True):
                if kill.outcome in (Outcome.QUARANTINED, Outcome.SUPERSEDED):
                    continue
                verdict = app.run(recorder, event, next_timer)
                if verdict.outcome is not kill.outcome:
                    raise Broken(f"replay: {kill.device} {kill.sequencer} of {space} ends as {verdict.outcome}")
                next_timer += len(verdict.timers)
            recorder.take()
        if history.effects != history.state.get("count", 0):
            raise Broken(f"exactly once: {history.effects} events were applied in {space}, the state counts others")
        if history.changes and canonical(recorder.state) != history.texts[-1]:
            raise Broken(f"replay: {space} of generation {generation} comes out differently")

    def _check_rule(self, generation: int, space: str, history: History) -> None:
        """A history tells which events were consumed, and in which order: does that follow from the rule?"""
        if history.judged == len(history.changes):
            return
        consumed = [
            (event, kill.outcome)
            for change in history.changes
            for kill, event in zip(change.kills, self._events(space, change), strict=True)
            if kill.outcome is not Outcome.QUARANTINED
        ]
        twin = SpaceTwin(self.cluster.make_app(), [event for event, _ in consumed])
        for (event, outcome), (expected, how) in zip(consumed, twin.settled, strict=False):
            if (event, outcome) != (expected, how):
                told = f"{event.device} {event.sequencer} is {outcome.word}"
                raise Broken(f"rule: {told} in {space} when {expected.device} {expected.sequencer} is to be {how.word}")
        if len(twin.settled) != len(consumed):
            raise Broken(f"rule: {len(consumed)} events are settled in {space}, by the rule {len(twin.settled)}")
        if consumed and canonical(twin.state) != history.texts[-1]:
            raise Broken(f"rule: {space} of generation {generation} comes out differently")
        if generation == self.cluster.generation_of(space):
            if twin.timers:
                raise Broken(f"timers: {len(twin.timers)} of {space} were set and have not gone off")
            history.judged = len(history.changes)


def _may_wait(event: Event | PendingEvent, history: History) -> bool:
    """Is the event one that the app still defers?"""
    return event.name == "wait" and bool(history.state.get("count", 0) < decode_json(event.payload)["until"])
