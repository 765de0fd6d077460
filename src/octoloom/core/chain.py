"""A link's place in one chain: between the neighbour above, which is nearer the devices, and the one below.

Events flow down, changes flow up, and two invariants hold in every view:

1. *Events.* A link holds every live event that the links below it hold.
2. *State.* Versions rise towards the tail: a link's version is at least that of the link above it.

A change is committed once the head has it: by (2) every whole link then has it, so any one of them can go on. Only
the tail computes, and only while it is whole; only the head numbers events.

3. Every message names the epoch of the view that it was said in. One of another epoch is never obeyed: an older one
   is answered with `Stale`, a hello from a newer one waits until this link knows that view too.
4. In each view the lower neighbour says `Hello` with its positions. The upper answers with its own, then sends what
   the lower lacks, then `Synced`. The lower sends what the upper lacks. From then on both stream.
5. A view comes into force once a whole link has taken it up and the register knows. Until then nobody serves in it,
   and a whole link that it leaves out forgets nothing: those who were to go on may be dead as well, and then the
   register goes back to it. Since every commit passes every link, nothing can commit in the older view any more.
6. A link joins at the tail. As a *learner*, outside of the view, it takes a snapshot from the tail and follows it;
   it reports `Ready` and is appended. In the view that it joined it catches up with its upper neighbour, reports
   `Whole`, and only then computes. So the only link that can lag behind a commit is one that never counts as whole.
7. A link that a view in force leaves out forgets everything and may learn again.

Inputs may come in any number between two calls of `flush`: the driver calls it once per turn, and all that
the turn brought leaves as one batch per neighbour and per space.
"""

from __future__ import annotations

from collections.abc import Callable

from octoloom.core import link_messages as say
from octoloom.core.admission import Limits
from octoloom.core.app import App
from octoloom.core.effects import Effect, ToPeer
from octoloom.core.event import Change, Event, SpaceSnapshot
from octoloom.core.head import Head
from octoloom.core.journal import Durability
from octoloom.core.neighbours import Neighbours
from octoloom.core.pace import FanPace
from octoloom.core.place import NO_VIEW, find
from octoloom.core.publishing import Publishing
from octoloom.core.register_messages import Adopted, Directory, Ready, View, Whole
from octoloom.core.reports import Reports
from octoloom.core.service import Service
from octoloom.core.space import Space
from octoloom.core.tail import Tail


class Chain:
    """The core of a link in one chain; see the module's text for what it promises."""

    make_space: Callable[[str], Space] = Space

    def __init__(
        self,
        chain: str,
        me: str,
        app: App,
        limits: Limits | None = None,
        dice: int = 0,
        durability: Durability = Durability.NONE,
    ) -> None:
        self.chain = chain
        self.me = me
        self.limits = limits or Limits()
        self.view = NO_VIEW
        self.place = find(me, NO_VIEW)
        self.whole = False
        self.suspended = False
        """Another link knows a newer view: serve nobody until this one knows it too."""
        self.spaces: dict[str, Space] = {}
        self.head = Head(self.limits, dice, self._on_new_events)
        self.tail = Tail(app)
        self.service = Service(self)
        self.neighbours = Neighbours(self)
        self.pace = FanPace()
        """The driver says what telling a large audience has cost."""
        self.reports = Reports()
        self.publishing = Publishing(durability)
        self._heading = False
        self._computing = False
        self._learnt = False
        self._joined_in = 0
        """The epoch in which this link became whole."""
        self._out: list[Effect] = []

    @property
    def epoch(self) -> int:
        return self.view.epoch

    @property
    def serving(self) -> bool:
        """May this link talk to devices (as head) and observers?"""
        restoring = self.publishing.restoring
        return self.whole and self.place.is_member and self.view.in_force and not self.suspended and not restoring

    @property
    def _is_last_copy(self) -> bool:
        """Is this the only link left of several? An event that ends it would end everything."""
        return len(self.view.links) == 1 and self.view.replicas > 1

    def space(self, name: str) -> Space:
        space = self.spaces.get(name)
        if space is None:
            space = self.spaces[name] = self.make_space(name)
            self.publishing.keep(space)
        return space

    def emit(self, effect: Effect) -> None:
        self._out.append(effect)

    # Views.

    def on_directory(self, now: int, directory: Directory) -> None:
        view = directory.views.get(self.chain)
        self.service.links = {link: address.url for link, address in directory.links.items()}
        if view is None or view.epoch < self.epoch:
            return
        if view.epoch == self.epoch:
            self._on_same_epoch(now, view)
        else:
            self._on_new_epoch(now, view)

    def _on_same_epoch(self, now: int, view: View) -> None:
        """Within an epoch a view comes into force; the learner and who is whole can change."""
        before, was_in_force = self.place, self.view.in_force
        self.view, self.place = view, find(self.me, view)
        if view.in_force and not was_in_force and not self.publishing.restoring:
            self._come_into_force(now)
        if before.is_learner != self.place.is_learner:
            self._forget()
            self.neighbours.say_hello()
        for peer in [peer for peer in self.neighbours.following if peer not in (self.place.lower, view.learner)]:
            del self.neighbours.following[peer]
        self.neighbours.greet_early()

    def _on_new_epoch(self, now: int, view: View) -> None:
        """Take up a view. What was said in an older one is not obeyed from here on, so nothing commits there."""
        new_generation, place = view.generation != self.view.generation, find(self.me, view)
        self._heading = self._heading and place.is_head and not self.suspended
        self.view, self.place = view, place
        self.suspended, self._learnt = False, False
        if new_generation or not (place.is_member or self._stays_on_call()):
            self._forget()
        elif not place.is_member:
            self.service.send_all_away()
        if self._computing and not place.is_tail:
            self._computing = False
            self.tail.leave_office()
        self.neighbours.on_new_epoch()
        self.reports.missing = {peer: now for peer in (place.upper, place.lower) if peer and place.is_member}
        self.whole = self.whole or self.me in view.whole
        if new_generation and place.is_member and self.whole:
            self._out.extend(self.publishing.begin(view.generation))
        if view.in_force and not self.publishing.restoring:
            self._come_into_force(now)

    def _stays_on_call(self) -> bool:
        """A whole link that the view leaves out keeps what it has until somebody has taken over for certain."""
        return self.whole and not self.place.is_member and not self.view.in_force

    def _come_into_force(self, now: int) -> None:
        """The register knows that a whole link has taken up the view: from here on it serves."""
        if self.whole and not self.place.is_member:
            self._forget()  # it was on call, and is not needed any more
        if self.place.is_head:
            if not self._heading:
                self._heading = True
                self.head.take_office(now, self.spaces.values())
                self.publishing.take_office(self.spaces.values())
            for space in self.spaces.values():
                self._commit_at_head(space)
        self._take_tail()
        self.neighbours.say_hello()
        self.neighbours.greet_early()

    def _take_tail(self) -> None:
        if self.place.is_tail and self.whole and self.view.in_force and not self._computing:
            self._computing = True
            # Whoever did not just join takes over from a tail that was lost.
            suspicious = self._joined_in != self.epoch
            self._out.extend(self.tail.take_office(self.spaces, suspicious))

    def _forget(self) -> None:
        """This link is out of the view, or history starts anew: nothing that it holds counts any more."""
        self.service.send_all_away()
        self.tail.leave_office()
        self.neighbours.on_new_epoch()
        self.neighbours.forget_batches()
        self.whole = self._learnt = self._heading = self._computing = False
        self.spaces = {}
        self.publishing.forget()

    def _standing(self) -> Ready | Whole | Adopted | None:
        """What the register's view does not show yet."""
        if self.place.is_learner and self._learnt:
            return Ready(self.chain, self.epoch)
        if not self.place.is_member or not self.whole or self.publishing.restoring:
            return None
        if not self.view.in_force:
            return Adopted(self.chain, self.epoch)
        return None if self.me in self.view.whole else Whole(self.chain, self.epoch)

    def on_register_up(self, now: int) -> None:
        self.reports.repeat()

    # Neighbours.

    def on_peer_up(self, now: int, peer: str) -> None:
        self.neighbours.connected[peer] = None
        if peer == self.place.upper:
            self.neighbours.say_hello()

    def on_peer_down(self, now: int, peer: str) -> None:
        self.neighbours.on_down(peer)
        if self.place.is_member and peer in (self.place.upper, self.place.lower):
            self.reports.missing.setdefault(peer, now)
        if peer == self.place.upper and self.place.is_learner:
            self._forget()

    def on_message(self, now: int, peer: str, message: say.LinkMessage) -> None:
        if message.epoch != self.epoch:
            self._on_other_epoch(peer, message)
        elif isinstance(message, say.Hello):
            self.neighbours.on_hello(peer, message)
        elif peer == self.place.upper:
            self.reports.missing.pop(peer, None)
            self._on_message_from_above(message)
        elif peer == self.place.lower:
            self._on_message_from_below(now, peer, message)

    def _on_other_epoch(self, peer: str, message: say.LinkMessage) -> None:
        if isinstance(message, say.Stale):
            if message.epoch > self.epoch and not self.suspended:
                self.suspended = True
                self.service.send_all_away()
        elif message.epoch < self.epoch:
            self._out.append(ToPeer(peer, say.Stale(self.chain, self.epoch)))
        elif isinstance(message, say.Hello):
            self.neighbours.on_hello(peer, message)

    def _on_message_from_above(self, message: say.LinkMessage) -> None:
        if isinstance(message, say.Events):
            self._on_events(message)
        elif isinstance(message, say.Ack):
            for name, version in message.versions:
                self._on_ack(self.space(name), version)
            for name, version in message.journaled:
                self._on_known_journaled(self.space(name), version)
        elif isinstance(message, say.Welcome):
            self.neighbours.on_welcome(message)
        elif isinstance(message, say.Synced):
            self._on_synced()
        elif not self.whole:
            self._learn(message)

    def _on_message_from_below(self, now: int, peer: str, message: say.LinkMessage) -> None:
        if isinstance(message, say.Changes):
            self._on_changes(peer, message)
        elif isinstance(message, say.Snapshot):
            space = self.space(message.snapshot.space)
            if message.snapshot.version > space.version:
                space.restore(message.snapshot)
                self._on_replaced(now, space)

    def _on_synced(self) -> None:
        if self.place.is_learner:
            self._learnt = True
        elif not self.whole:
            self.whole = True
            self._joined_in = self.epoch
            self._take_tail()

    def _learn(self, message: say.LinkMessage) -> None:
        """A link that is not whole yet takes changes and snapshots from above."""
        if isinstance(message, say.Snapshot):
            self.space(message.snapshot.space).restore(message.snapshot)
        elif isinstance(message, say.Changes):
            space = self.space(message.space)
            space.lent = {event.chain_sequencer: event for event in message.consumed}
            for change in message.changes:
                if change.version == space.version + 1:
                    space.apply(change)
            space.lent = {}

    # Events down, changes up.

    def _on_new_events(self, space: Space, events: list[Event]) -> None:
        """The replica has new events: pass them on, and compute them if this is the tail."""
        self.neighbours.queue_events(space, events)
        if self._computing:
            self.tail.on_events(space, events)

    def _on_events(self, message: say.Events) -> None:
        space = self.space(message.space)
        events = [event for event in message.events if space.add(event)]
        if events:
            self._on_new_events(space, events)

    def _on_changes(self, peer: str, message: say.Changes) -> None:
        space = self.space(message.space)
        for change in message.changes:
            if change.version == space.version + 1:
                space.apply(change)
                self._on_change(space, change)
            elif change.version > space.version:
                self.neighbours.ask_again(peer)
                return

    def _on_change(self, space: Space, change: Change) -> None:
        """The replica has a new version: pass it on, or commit it if this is the head."""
        self.neighbours.queue_change(space, change)
        if self._heading:
            self.head.on_change(space, change)
            self.publishing.on_change(space, change)
        self._commit_at_head(space)

    def _on_replaced(self, now: int, space: Space) -> None:
        """The replica jumped to a later version: so must the links above, and devices here start over."""
        self.neighbours.queue_replaced(space)
        if self._heading:
            self.publishing.on_replaced(space)
            self.service.start_over(now, space)
        self._commit_at_head(space)

    def _commit_at_head(self, space: Space) -> None:
        if self.place.is_head and self.view.in_force:
            version = self.publishing.committable(space)
            if version > space.committed:
                self._commit(space, version)

    def _commit(self, space: Space, version: int) -> None:
        space.committed = version
        for change in self.publishing.settled(space):
            self.service.note(space, change)
        self.neighbours.queue_ack(space)
        self.service.committed(space)

    def _on_ack(self, space: Space, version: int) -> None:
        if version > space.committed:
            self._commit(space, min(version, space.version))

    # The journal.

    def on_journaled(self, now: int, space: str, generation: int, version: int) -> None:
        """The journal has everything of the space up to `version`."""
        if generation == self.view.generation and space in self.spaces:
            self._on_known_journaled(self.spaces[space], version)

    def _on_known_journaled(self, space: Space, version: int) -> None:
        if space.backlog is not None and version > space.backlog.journaled:
            space.backlog.on_journaled(version)
            self.neighbours.queue_journaled(space, version)
            self._commit_at_head(space)

    def on_restored(self, now: int, generation: int, snapshots: list[SpaceSnapshot]) -> None:
        """What the journal held when this generation began."""
        if generation == self.view.generation and self.publishing.restoring:
            self.publishing.restoring = False
            for snapshot in snapshots:
                self.space(snapshot.space).restore(snapshot)
            if self.view.in_force:
                self._come_into_force(now)

    # Turns.

    def on_trial(self, now: int, space: str, fatal: list[int]) -> None:
        self.tail.on_trial(space, fatal)
        self.neighbours.greet_early()

    def deadline(self) -> int | None:
        """When `flush` wants to be called, if nothing else happens before."""
        if self._computing and self.serving and self.tail.busy:
            return 0
        times = [self.reports.deadline(self._standing())]
        if self.place.is_head and self.serving:
            times.append(self.head.deadline())
        if self.service.has_news:
            times.append(self.pace.fan_from)
        return min((time for time in times if time is not None), default=None)

    def flush(self, now: int) -> list[Effect]:
        """End the turn: compute, and hand out everything that the turn brought."""
        if self.place.is_head and self.serving:
            self.head.fire(now, self.spaces)
        if self._computing and self.serving:
            for space, change in self.tail.compute(self.epoch, careful=self._is_last_copy, out=self._out):
                self._on_change(space, change)
        if self._heading:
            self._out.extend(self.publishing.publish(self.view.generation, self.spaces))
        self.neighbours.stream()
        if self.pace.may_fan(now):
            self.service.publish()
        self._out.extend(self.reports.due(now, self.chain, self.epoch, self._standing()))
        out, self._out = self._out, []
        return out
