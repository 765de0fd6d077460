"""One replica of one space: the live events, what is remembered of each device, the state and its version.

Every link of a chain holds one of these per space. The head adds events, the tail consumes them; in between a
replica takes events from above and changes from below, in order.

1. Live events are keyed by chain sequencer and never change. An event below `next_chain_sequencer` that is not live
   was killed: the seed's tombstone is this absence, so a lookup can never mistake one for a live event.
2. The head takes a device's events in ascending order of their sequencers. A sequencer is therefore done if it lies
   at or below the device's watermark, or in the sparse set of those killed above it, which exists because a reducer
   may defer an event and consume later ones first. A deferred event is live, never done.
3. Kills, timers and presence come only with changes, so two replicas of the same version remember the same.
4. `version` rises by one with each change. A replica never goes back.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from octoloom.core import merge_patch
from octoloom.core.backlog import Backlog
from octoloom.core.event import (
    TIMER,
    Change,
    DeviceRecord,
    Event,
    JournalEntry,
    Kill,
    Outcome,
    Settled,
    SpaceSnapshot,
    Timer,
)
from octoloom.core.ring import Ring
from octoloom.core.tags import Seen

RECENT_MAX = 64
"""How many settled events of each device a space can still name the outcome of."""

State = dict[str, Any]
decode_json = msgspec.json.Decoder().decode
encode_json = msgspec.json.Encoder().encode


class Standing(Enum):
    NEW = "new"
    LIVE = "live"
    DONE = "done"
    UNSETTLED = "unsettled"
    """Another live event is in the way; what becomes of this one shows when that one is settled."""


class DeviceHistory:
    """What a space knows of one device: which events live, which are done, and how the last ones ended."""

    __slots__ = ("live", "recent", "seen")

    def __init__(self) -> None:
        self.live: dict[int, int] = {}
        self.seen = Seen()
        self.recent: dict[int, Settled | Kill] = {}
        """A kill says what is kept of it, and more: it is made smaller when a snapshot is taken."""

    def standing(self, sequencer: int) -> Standing:
        if self.seen.has(sequencer):
            return Standing.DONE
        if sequencer in self.live:
            return Standing.LIVE
        if sequencer >= self.next():
            return Standing.NEW
        # Below what was taken already it was never sent here, and comes too late: the order would suffer.
        return Standing.DONE if sequencer < self.highest_done() else Standing.UNSETTLED

    def next(self) -> int:
        """The lowest sequencer that is above all that the space has ever taken from this device."""
        return max(next(reversed(self.live), 0), self.highest_done()) + 1

    def highest_done(self) -> int:
        return max(self.seen.above, default=self.seen.watermark)

    def settle(self, kill: Kill) -> None:
        sequencer, live, recent = kill.sequencer, self.live, self.recent
        live.pop(sequencer, None)
        self.seen.add(sequencer)
        # The head takes events in ascending order, so what is neither live nor done below the lowest live event
        # (or, with none, below the highest done) was never sent and never will be.
        if live:
            self.seen.advance(next(iter(live)) - 1)
        elif self.seen.above:
            self.seen.advance(self.highest_done())
        recent[sequencer] = kill
        if len(recent) > RECENT_MAX:
            del recent[next(iter(recent))]

    def settled(self) -> list[Settled]:
        return [Settled(each.sequencer, each.outcome, each.reason, each.digest) for each in self.recent.values()]

    def outcome(self, sequencer: int, digest: int) -> tuple[Outcome, str]:
        """How a done event ended, as told to a device that resends it."""
        settled = self.recent.get(sequencer)
        if not self.seen.has(sequencer):
            return Outcome.SUPERSEDED, "the device has gone on beyond this number"
        if settled is None:
            return Outcome.FORGOTTEN, "settled too long ago to say how"
        if settled.digest != digest:
            return Outcome.SUPERSEDED, "another event took this number"
        return settled.outcome, settled.reason


class Space:
    """See the module's text. `committed` is the highest version that this link knows the head to hold."""

    __slots__ = (
        "_snapshot_text",
        "backlog",
        "committed",
        "devices",
        "events",
        "lent",
        "name",
        "next_chain_sequencer",
        "next_timer",
        "present",
        "ring",
        "state",
        "time_ms",
        "timers",
        "version",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.events: dict[int, Event] = {}
        self.devices: dict[str, DeviceHistory] = {}
        self.next_chain_sequencer = 1
        self.version = 0
        self.committed = 0
        self.state: State = {}
        self.timers: dict[int, Timer] = {}
        self.next_timer = 1
        self.present: dict[str, None] = {}
        self.time_ms = 0
        self.ring = Ring()
        self._snapshot_text: tuple[int, bytes] = (0, b"{}")
        self.backlog: Backlog | None = None
        """What the journal may not have yet, if there is one."""
        self.lent: dict[int, Event] = {}
        """Events that this replica never held, while changes that consumed them are applied."""

    @property
    def trim(self) -> int:
        """Every event below this was killed."""
        return next(iter(self.events), self.next_chain_sequencer)

    def device(self, device: str) -> DeviceHistory:
        history = self.devices.get(device)
        if history is None:
            history = self.devices[device] = DeviceHistory()
        return history

    # Events, from above.

    def add(self, event: Event) -> bool:
        """Take the next event in the chain's order; False for one that was taken before."""
        number = event.chain_sequencer
        if number < self.next_chain_sequencer:
            return False
        self.events[number] = event
        self.device(event.device).live[event.sequencer] = number
        self.next_chain_sequencer = number + 1
        self.time_ms = event.time_ms
        return True

    def events_from(self, chain_sequencer: int) -> list[Event]:
        """The live events at or above `chain_sequencer`, in order; costs what it returns."""
        newest_first: list[Event] = []
        for number in reversed(self.events):
            if number < chain_sequencer:
                break
            newest_first.append(self.events[number])
        newest_first.reverse()
        return newest_first

    # Changes, from below.

    def apply(self, change: Change) -> None:
        """Take the change to the next version; costs the size of the change."""
        assert change.version == self.version + 1
        value = decode_json(change.merge)
        self.state = value if change.replace else merge_patch.apply(self.state, value)
        self.settle(change)

    def settle(self, change: Change) -> None:
        """All of `apply` but the state: for the tail, whose state has the change already."""
        assert change.version == self.version + 1
        self.version = change.version
        if self.backlog is not None:
            self._journal(change, self.backlog)
        # A number is given once, so what is set by a change and has ended in it, has ended.
        for timer in change.timers:
            self.timers[timer.timer] = timer
            self.next_timer = max(self.next_timer, timer.timer + 1)
        for kill in change.kills:
            self._kill(kill)
        for number in change.cancelled:
            self.timers.pop(number, None)
        for device, present in change.presence:
            if present:
                self.present[device] = None
            else:
                self.present.pop(device, None)
        self.ring.push(change)

    def _consumed(self, change: Change) -> list[Event]:
        held = (self.events.get(k.chain_sequencer) or self.lent.get(k.chain_sequencer) for k in change.kills)
        return [event for event in held if event is not None]

    def _journal(self, change: Change, backlog: Backlog) -> None:
        waiting: list[Event] = []
        for kill in change.kills:
            backlog.passed_over.pop(kill.chain_sequencer, None)
            history = self.devices.get(kill.device)
            for sequencer, number in history.live.items() if history is not None else ():
                if sequencer >= kill.sequencer:
                    break
                if number not in backlog.passed_over and number in self.events:
                    backlog.passed_over[number] = None
                    waiting.append(self.events[number])
        killed = {kill.chain_sequencer for kill in change.kills}
        waiting = [event for event in waiting if event.chain_sequencer not in killed]
        backlog.push(JournalEntry(change.version, change, self._consumed(change), waiting))

    def hold(self, events: list[Event]) -> None:
        """Take events that are older than what was killed: those that the journal says to be live still."""
        for event in events:
            self.events[event.chain_sequencer] = event
            live = self.device(event.device).live
            live[event.sequencer] = event.chain_sequencer
            self.device(event.device).live = dict(sorted(live.items()))
            self.next_chain_sequencer = max(self.next_chain_sequencer, event.chain_sequencer + 1)
        if events:
            self.events = dict(sorted(self.events.items()))

    def _kill(self, kill: Kill) -> None:
        number = kill.chain_sequencer
        self.events.pop(number, None)
        if number >= self.next_chain_sequencer:
            self.next_chain_sequencer = number + 1
        if kill.device == TIMER:
            # Timers fire in the order of their due times, not of their numbers: the table itself is their memory.
            self.timers.pop(kill.sequencer, None)
            self.device(TIMER).live.pop(kill.sequencer, None)
        else:
            self.device(kill.device).settle(kill)

    # The whole of it.

    def state_text(self) -> tuple[int, bytes]:
        """Some version of the state as JSON, from which the ring reaches the newest; encoded once for many readers."""
        version, text = self._snapshot_text
        behind = self.ring.since(version)
        if version != self.version and (behind is None or sum(c.size for c in behind) > len(text) // 2):
            version, text = self._snapshot_text = (self.version, encode_json(self.state))
        return version, text

    def snapshot(self) -> SpaceSnapshot:
        records = [
            DeviceRecord(name, history.seen.watermark, sorted(history.seen.above), history.settled())
            for name, history in self.devices.items()
        ]
        return SpaceSnapshot(
            space=self.name,
            version=self.version,
            state=encode_json(self.state),
            next_chain_sequencer=self.next_chain_sequencer,
            events=list(self.events.values()),
            devices=records,
            timers=list(self.timers.values()),
            next_timer=self.next_timer,
            present=list(self.present),
            time_ms=self.time_ms,
            journaled=self.backlog.journaled if self.backlog else 0,
            backlog=self.backlog.entries() if self.backlog else [],
        )

    def restore(self, snapshot: SpaceSnapshot) -> None:
        """Become what the snapshot says, but keep the live events that its origin never had.

        A link that is brought up to date from below may hold events that have not come down yet; those that the
        snapshot knows as done are gone.
        """
        assert snapshot.version >= self.version
        kept = [event for event in self.events.values() if event.chain_sequencer >= snapshot.next_chain_sequencer]
        self.version, self.state = snapshot.version, decode_json(snapshot.state)
        self.events, self.devices = {}, {}
        self.next_chain_sequencer = 1
        for record in snapshot.devices:
            history = self.device(record.device)
            history.seen = Seen(record.watermark, record.done)
            history.recent = {settled.sequencer: settled for settled in record.recent}
        for event in [*snapshot.events, *kept]:
            self.add(event)
        self.next_chain_sequencer = max(self.next_chain_sequencer, snapshot.next_chain_sequencer)
        self.timers = {timer.timer: timer for timer in snapshot.timers}
        self.next_timer = snapshot.next_timer
        self.present = dict.fromkeys(snapshot.present)
        self.time_ms = max(self.time_ms, snapshot.time_ms)
        if self.backlog is not None:
            self._restore_backlog(snapshot, self.backlog)
        self.ring.clear()
        self._snapshot_text = (snapshot.version, snapshot.state)

    def _restore_backlog(self, snapshot: SpaceSnapshot, old: Backlog) -> None:
        """Keep what the journal lacks; this link may know better than the other how far the journal is."""
        self.backlog = Backlog(max(snapshot.journaled, old.journaled))
        backlog = snapshot.backlog
        if snapshot.version and not self.backlog.journaled and not backlog:
            # Nobody has kept a journal so far: it begins with all that there is.
            self.backlog = Backlog(snapshot.version - 1)
            backlog = [JournalEntry(snapshot.version, None, [], start=snapshot)]
        for entry in backlog:
            self.backlog.push(entry)
        self.backlog.published = max(old.published, self.backlog.journaled)
