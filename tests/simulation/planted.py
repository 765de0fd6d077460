"""Bugs to plant in the cores, one at a time: each replaces one method by a wrong one.

They are the mistakes that the protocol invites: those of its first sketch, and those that its rules exist to prevent.
A checker that does not find them within a bounded number of seeds is no checker.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from octoloom.core import link_messages as say
from octoloom.core.admission import Door
from octoloom.core.app import Verdict
from octoloom.core.audience import Audience
from octoloom.core.backlog import Backlog
from octoloom.core.chain import Chain
from octoloom.core.chain_order import ChainOrder
from octoloom.core.compute import Worker
from octoloom.core.device_book import DeviceBook
from octoloom.core.effects import Tell
from octoloom.core.event import TIMER, Event, Kill, Outcome
from octoloom.core.head import Head
from octoloom.core.journal import JournalReader
from octoloom.core.neighbours import Neighbours
from octoloom.core.publishing import Publishing
from octoloom.core.recorder import Recorder
from octoloom.core.register_messages import Ready, View, Whole
from octoloom.core.ring import Ring
from octoloom.core.rule import Rule
from octoloom.core.service import Service
from octoloom.core.space import DeviceHistory, Space
from octoloom.core.tail import Tail
from tests.simulation.planting import Plants, planting, together

PLANTS: Plants = {}
plant = planting(PLANTS)


# The first sketch's own mistakes.


@plant(DeviceHistory, "next")
def sketch_less_than(right: Any, self: DeviceHistory) -> int:
    """The sketch's `<` for `<=`: the number of the highest live event is handed out again."""
    return max(next(reversed(self.live), 1) - 1, self.highest_done()) + 1


@plant(DeviceHistory, "highest_done")
def trims_ignored_at_bootstrap(right: Any, self: DeviceHistory) -> int:
    """A device that lost its store is not told that its old numbers are taken."""
    return 0


@plant(Space, "_kill")
def tombstones_treated_as_live(right: Any, self: Space, kill: Kill) -> None:
    """A killed event stays among the live ones."""
    event = self.events.get(kill.chain_sequencer)
    right(self, kill)
    if event is not None:
        self.device(kill.device).live[kill.sequencer] = kill.chain_sequencer
        self.events[kill.chain_sequencer] = event
        self.events = dict(sorted(self.events.items()))


@plant(DeviceHistory, "settle")
def max_instead_of_watermark(right: Any, self: DeviceHistory, kill: Kill) -> None:
    """Everything up to the highest killed number counts as done, deferred events too."""
    right(self, kill)
    self.seen.advance(self.highest_done())


# Epochs and views.


@plant(Chain, "on_message")
def epoch_not_checked(right: Any, self: Chain, now: int, peer: str, message: Any) -> None:
    """A zombie's messages are obeyed."""
    if not isinstance(message, say.Stale):
        message = structs.replace(message, epoch=self.epoch)
    right(self, now, peer, message)


@plant(Service, "_is_ahead")
def zombie_serves_the_past(right: Any, self: Service, request: Any) -> bool:
    """A head that slept through a failover shows a returning device an older state."""
    return False


@plant(Chain, "_forget")
def removed_link_remembers(right: Any, self: Chain) -> None:
    """A link that was taken out of the view comes back with what it had."""
    spaces = self.spaces
    right(self)
    self.spaces = spaces


@plant(Chain, "_standing")
def learner_counts_as_whole(right: Any, self: Chain) -> Ready | Whole | None:
    """A joining link says that it is whole before it has caught up."""
    if self.place.is_member and not self.whole:
        return Whole(self.chain, self.epoch)
    standing: Ready | Whole | None = right(self)
    return standing


@plant(Chain, "_on_new_epoch")
def new_tail_does_not_wait(right: Any, self: Chain, now: int, view: View) -> None:
    """A link that joined computes at once, from wherever it is."""
    right(self, now, view)
    if self.place.is_member and not self.whole:
        self.whole = True
        if self.place.is_tail:
            self._out.extend(self.tail.take_office(self.spaces, suspicious=False))


@plant(ChainOrder, "_fall_back")
def no_way_back(right: Any, self: ChainOrder, now: int) -> None:
    """Those who were to go on died before they took over, and the register forgets that others have everything."""


@plant(Chain, "_stays_on_call")
def left_out_links_forget_too_soon(right: Any, self: Chain) -> bool:
    """A link that a new view leaves out forgets everything before anybody has taken over."""
    return False


@plant(Chain, "serving")
def view_serves_before_it_is_in_force(right: Any, self: Chain) -> bool:
    """A link goes on in a new view before the register knows that it has taken it up."""
    return bool(self.whole and self.place.is_member and not self.suspended)


# Commits and changes.


@plant(Service, "publish")
def kill_before_commit(right: Any, self: Service) -> None:
    """Watchers see what the link has computed, committed or not."""
    for name in self._audiences:
        space = self._chain.spaces.get(name)
        if space is not None and space.committed < space.version:
            space.committed = space.version
            self._stirred[name] = None
    right(self)


@plant(Ring, "since")
def ring_trimmed_early(right: Any, self: Ring, version: int) -> Any:
    """Where the ring no longer has all changes, it gives those that it has."""
    if self._changes and version < self._changes[-1].version:
        return [change for change in self._changes if change.version > version]
    return right(self, version)


@plant(Neighbours, "on_welcome")
def upper_is_not_brought_up(right: Any, self: Neighbours, welcome: say.Welcome) -> None:
    """After a failover the lower link streams on and does not send what the upper one missed."""
    self.up_open = not self._chain.place.is_learner


@plant(Neighbours, "_bring_down")
def kills_before_events(right: Any, self: Neighbours, peer: str, space: Space, at: say.Position) -> None:
    """A joining link hears of kills first, and then takes older live events for ones that it had."""
    out = self._chain._out
    start = len(out)
    right(self, peer, space, at)
    out[start:] = reversed(out[start:])


@plant(Service, "_end")
def fenced_at_the_end_of_the_turn(right: Any, self: Service, connection: int, message: Any) -> None:
    """What a fenced connection brings in the same turn is still taken."""
    self._tell(connection, message, close=True)


@plant(Neighbours, "_bring_down")
def events_not_resent(right: Any, self: Neighbours, peer: str, space: Space, at: say.Position) -> None:
    """After a middle link died the events that died with it are not sent again."""
    if at.version < space.version or peer not in self._chain.view.whole:
        right(self, peer, space, at)


@plant(Space, "restore")
def snapshot_drops_newer_events(right: Any, self: Space, snapshot: Any) -> None:
    """A link that is brought up to date from below forgets the events that have not come down yet."""
    self.events.clear()
    right(self, snapshot)


@plant(Space, "snapshot")
def trims_missing_in_snapshot(right: Any, self: Space) -> Any:
    """A snapshot does not carry what is remembered of the devices."""
    devices, self.devices = self.devices, {}
    try:
        return right(self)
    finally:
        self.devices = devices


# The door and the devices.


@plant(Door, "send")
def gaps_are_taken(right: Any, self: Door, now: int, session: Any, events: Any, space: Space) -> Any:
    """The head takes whatever number comes."""
    if events and events[0][0] > session.expected:
        session.expected = events[0][0]
    return right(self, now, session, events, space)


@plant(Service, "_let_in")
def older_connection_not_fenced(
    right: Any, self: Service, now: int, connection: int, request: Any, space: Space
) -> None:
    """Two connections of one device both send."""
    door = self._chain.head.door
    older = door.owners_of(space.name).get(request.device)
    session = door.sessions.get(older) if older is not None else None
    if older is not None:
        door.owners[space.name].pop(request.device)
    right(self, now, connection, request, space)
    if session is not None and older is not None:
        door.sessions[older] = session


@plant(DeviceHistory, "outcome")
def reused_number_reported_as_resent(right: Any, self: DeviceHistory, sequencer: int, digest: int) -> Any:
    """The digest is not looked at: an older copy's other event is reported as applied."""
    settled = self.recent.get(sequencer)
    return right(self, sequencer, settled.digest if settled else digest)


@plant(DeviceBook, "doubt_queue")
def older_copy_sends_its_queue(right: Any, self: DeviceBook, draft: Any) -> None:
    """A device with an older copy of its store sends what it had queued then, though that is long done."""


@plant(DeviceBook, "skip_to")
def device_keeps_its_own_number(right: Any, self: DeviceBook, sequencer: int) -> None:
    """The device does not take over the next number that the welcome names."""


@plant(Audience, "_committed_since")
def slow_watcher_misses_a_change(right: Any, self: Audience, version: int) -> Any:
    """A watcher that fell behind is not told the first change that it missed."""
    changes = right(self, version)
    return changes[1:] if changes and len(changes) > 1 else changes


@plant(Audience, "_owe")
def lagging_device_loses_outcomes(right: Any, self: Audience, kills: Any, out: Any) -> None:
    """The outcomes of a device that could not keep up are dropped."""


# Compute.


@plant(Recorder, "undo")
def rejected_event_leaves_traces(right: Any, self: Recorder) -> None:
    """The writes of a rejected event stay."""
    self.keep()


@plant(Tail, "_try")
def poison_is_not_tried_first(right: Any, self: Tail, space: Space, out: Any) -> None:
    """The next tail computes what killed the last one, and so on until none is left."""
    worker = self.workers.get(space.name)
    if worker is not None:
        worker.cleared = 1 << 60


@plant(Rule, "_retry")
def deferred_events_are_forgotten(right: Any, self: Rule) -> int:
    """An event that was deferred is never tried again."""
    return 0


@plant(Rule, "take")
def those_who_wait_are_not_looked_at(right: Any, self: Rule, event: Event) -> int:
    """An event that is applied frees nobody at once."""
    verdict = self.attempt(event)
    if verdict.outcome is None:
        self.waiting.append(event)
    else:
        self.settled.append((event, verdict))
    return 1


@plant(Worker, "_conclude")
def freed_at_the_end_of_a_step(right: Any, self: Worker, epoch: int) -> Any:
    """Events that wait are tried again when the batch is through, so it matters what was in it."""
    if any(verdict.outcome is Outcome.APPLIED for _, verdict in self.rule.settled):
        self.rule._retry()
    return right(self, epoch)


# Alone the one forgets those who wait, and the other does what was done already.
together(PLANTS, those_who_wait_are_not_looked_at, freed_at_the_end_of_a_step)


@plant(Rule, "_retry")
def one_round_after_another(right: Any, self: Rule) -> int:
    """What is freed by one of those who wait comes after all others of them, not next."""
    tries, moved = 0, True
    while moved:
        moved = False
        for event in list(self.waiting):
            tries += 1
            verdict = self.attempt(event)
            if verdict.outcome is not None:
                self.waiting.remove(event)
                self.settled.append((event, verdict))
                moved = moved or verdict.outcome is Outcome.APPLIED
    return tries


@plant(Rule, "take")
def the_last_to_wait_goes_first(right: Any, self: Rule, event: Event) -> int:
    """Events that wait are not tried in the chain's order."""
    waiting = len(self.waiting)
    tries: int = right(self, event)
    if len(self.waiting) > waiting:
        self.waiting.insert(0, self.waiting.pop())
    return tries


@plant(Rule, "_note_timers")
def own_timers_cannot_be_cancelled(right: Any, self: Rule, verdict: Verdict) -> None:
    """A timer that is cancelled by the event that set it goes off."""
    own = [timer.timer for timer in verdict.timers]
    right(self, replace(verdict, cancelled=[number for number in verdict.cancelled if number not in own]))


@plant(Rule, "_note_timers")
def timers_cannot_be_cancelled(right: Any, self: Rule, verdict: Verdict) -> None:
    """No timer is ever cancelled."""
    right(self, replace(verdict, cancelled=[]))


@plant(Head, "take_office")
def new_head_forgets_timers(right: Any, self: Head, now: int, spaces: Any) -> None:
    """Timers that were set under an earlier head never go off."""
    right(self, now, [])


@plant(Head, "_ring")
def timer_goes_off_twice(right: Any, self: Head, now: int, space: Space, number: int) -> None:
    """A new head fires what the old one has fired already."""
    timer = space.timers.get(number)
    if timer is not None:
        self.door.put(now, space, "@timer", number, timer.name, timer.payload)


@plant(Rule, "attempt")
def timers_are_not_looked_up(right: Any, self: Rule, event: Event) -> Any:
    """A timer that has gone off is computed as often as it comes."""
    if event.device == TIMER:
        self.timers[event.sequencer] = None
    return right(self, event)


# Alone each is harmless: the head does not ring twice, and the tail would not answer twice.
together(PLANTS, timer_goes_off_twice, timers_are_not_looked_up)


# The journal.


@plant(Backlog, "publish_anew")
def heir_publishes_only_what_is_new(right: Any, self: Backlog) -> None:
    """A new head takes it that the old one has published everything."""
    self.published = self._entries[-1].version if self._entries else self.journaled


@plant(Backlog, "unpublished")
def forgotten_once_published(right: Any, self: Backlog) -> Any:
    """What was handed over counts as being in the journal."""
    entries = right(self)
    self.on_journaled(self.published)
    return entries


@plant(Publishing, "committable")
def told_before_it_is_journaled(right: Any, self: Publishing, space: Space) -> int:
    """Devices do not wait for the journal."""
    return space.version


@plant(JournalReader, "start")
def generation_begins_without_a_start(right: Any, self: JournalReader) -> Any:
    """The journal is not told that a generation has taken over."""
    snapshot = right(self)
    return structs.replace(snapshot, journaled=snapshot.version, backlog=[])


@plant(Space, "hold")
def deferred_events_not_restored(right: Any, self: Space, events: Any) -> None:
    """What the app deferred is taken for done once a chain begins anew."""


@plant(Backlog, "events_since")
def newcomer_lacks_consumed_events(right: Any, self: Backlog, version: int) -> list[Event]:
    """A link that catches up gets the changes without the events that they consumed."""
    return []


@plant(Audience, "welcome")
def outcomes_told_early(
    right: Any, self: Audience, connection: int, welcome: Any, hold: int = 0, following: Any = ()
) -> Any:
    """A device that comes back is told what became of its events before that is committed."""
    return right(self, connection, welcome, following=following)


@plant(Publishing, "settled")
def settled_without_commit(right: Any, self: Publishing, space: Space) -> Any:
    """What a change settles is told with the next commit, whether or not that is its own."""
    return list(self._unsettled.pop(space.name, ()))


@plant(Audience, "welcome")
def busy_overtakes_the_welcome(
    right: Any, self: Audience, connection: int, welcome: Any, hold: int = 0, following: Any = ()
) -> Any:
    """What follows a welcome does not wait for it: the device is told to come again, and then forgets it."""
    return [*right(self, connection, welcome, hold), *(Tell(connection, message) for message in following)]
