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
5. A link joins at the tail. As a *learner*, outside of the view, it takes a snapshot from the tail and follows it;
   it reports `Ready` and is appended. In the view that it joined it catches up with its upper neighbour, reports
   `Whole`, and only then computes. So the only link that can lag behind a commit is one that never counts as whole.
6. A link that is taken out of the view forgets everything and may learn again.

Inputs may come in any number between two calls of `flush`: the driver calls it once per turn, and all that
the turn brought leaves as one batch per neighbour and per space.
"""

from __future__ import annotations

from collections.abc import Callable

from octoloom.core import link_messages as say
from octoloom.core.admission import Limits
from octoloom.core.app import App
from octoloom.core.effects import Effect, Report, ToPeer
from octoloom.core.event import Change, Event
from octoloom.core.head import Head
from octoloom.core.register_messages import Directory, Ready, Suspect, View, Whole
from octoloom.core.service import Service
from octoloom.core.space import Space
from octoloom.core.tail import Tail

SUSPECT_AFTER_MS = 400
SUSPECT_EVERY_MS = 200
REPORT_EVERY_MS = 500

NO_VIEW = View(chain="", epoch=0, generation=0, links=[], whole=[])


class Chain:
    """The core of a link in one chain; see the module's text for what it promises."""

    make_space: Callable[[str], Space] = Space

    def __init__(self, chain: str, me: str, app: App, limits: Limits | None = None, dice: int = 0) -> None:
        self.chain = chain
        self.me = me
        self.limits = limits or Limits()
        self.view = NO_VIEW
        self.whole = False
        self.suspended = False
        """Another link knows a newer view: serve nobody until this one knows it too."""
        self.spaces: dict[str, Space] = {}
        self.head = Head(self.limits, dice, self._on_event)
        self.tail = Tail(app)
        self.service = Service(self)
        self._out: list[Effect] = []
        self._events: dict[str, list[Event]] = {}
        self._changes: dict[str, list[Change]] = {}
        self._acks: dict[str, int] = {}
        self._replaced: dict[str, None] = {}
        self._connected: dict[str, None] = {}
        self._early: dict[str, say.Hello] = {}
        self._following: dict[str, None] = {}
        """Who gets our stream: the lower neighbour, and the learner if this is the tail."""
        self._up_open = False
        self._learnt = False
        self._missing_since: dict[str, int] = {}
        self._complained_ms = 0
        self._reported: Ready | Whole | None = None
        self._reported_ms = 0

    # Where this link stands.

    @property
    def epoch(self) -> int:
        return self.view.epoch

    @property
    def is_member(self) -> bool:
        return self.me in self.view.links

    @property
    def is_head(self) -> bool:
        return self.view.head == self.me

    @property
    def is_tail(self) -> bool:
        return self.view.tail == self.me

    @property
    def is_learner(self) -> bool:
        return self.view.learner == self.me

    @property
    def upper(self) -> str:
        """The link to keep a connection to: the neighbour above, or the tail that a learner follows."""
        if self.is_learner:
            return self.view.tail
        if not self.is_member or self.is_head:
            return ""
        return self.view.links[self.view.links.index(self.me) - 1]

    @property
    def lower(self) -> str:
        if not self.is_member or self.is_tail:
            return ""
        return self.view.links[self.view.links.index(self.me) + 1]

    @property
    def serving(self) -> bool:
        """May this link talk to devices (as head) and observers?"""
        return self.is_member and self.whole and not self.suspended

    @property
    def _is_last_copy(self) -> bool:
        """Is this the only link left of several? An event that ends it would end everything."""
        return len(self.view.links) == 1 and self.view.replicas > 1

    def space(self, name: str) -> Space:
        space = self.spaces.get(name)
        if space is None:
            space = self.spaces[name] = self.make_space(name)
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
            self._on_same_epoch(view)
        else:
            self._on_new_epoch(now, view)

    def _on_same_epoch(self, view: View) -> None:
        was_learner, self.view = self.is_learner, view
        if view.learner != self.me and was_learner:
            self._forget()
        for peer in [peer for peer in self._following if peer not in (self.lower, view.learner)]:
            del self._following[peer]
        if self.is_learner and not was_learner:
            self._forget()
            self._say_hello()
        self._greet_early()

    def _on_new_epoch(self, now: int, view: View) -> None:
        was_head, was_tail, was_member = self.is_head, self.is_tail, self.is_member
        joined = self.me in view.links and not was_member
        if view.generation != self.view.generation or self.me not in view.links:
            self._forget()
        self.view, self.suspended = view, False
        self._up_open, self._learnt = False, False
        self._following.clear()
        self._missing_since = {peer: now for peer in (self.upper, self.lower) if peer}
        if not self.is_member:
            self._say_hello()
            return
        self.whole = self.whole or self.me in view.whole
        if self.is_head and not was_head:
            self._become_head(now)
        self._change_tail(was_tail, joined)
        self._say_hello()
        self._greet_early()

    def _greet_early(self) -> None:
        """Answer those who said hello before this link knew that they would."""
        for peer in [peer for peer, hello in self._early.items() if hello.epoch <= self.epoch]:
            hello = self._early.pop(peer)
            if hello.epoch == self.epoch:
                self._on_hello(peer, hello)

    def _become_head(self, now: int) -> None:
        self.head.take_office(now, self.spaces.values())
        for space in self.spaces.values():
            self._commit(space, space.version)

    def _change_tail(self, was_tail: bool, joined: bool) -> None:
        if was_tail and not self.is_tail:
            self.tail.leave_office()
        elif self.is_tail and self.whole and not was_tail:
            self._out.extend(self.tail.take_office(self.spaces, suspicious=not joined))

    def _forget(self) -> None:
        """This link is out of the view, or history starts anew: nothing that it holds counts any more."""
        self.service.send_all_away()
        self.tail.leave_office()
        self.whole = self._learnt = self._up_open = False
        self.spaces = {}
        for batch in (self._events, self._changes, self._acks, self._replaced, self._following):
            batch.clear()

    def _standing(self) -> Ready | Whole | None:
        """What the register does not know yet."""
        if self.is_learner and self._learnt:
            return Ready(self.chain, self.epoch)
        if self.is_member and self.whole and self.me not in self.view.whole:
            return Whole(self.chain, self.epoch)
        return None

    def _report_standing(self, now: int) -> None:
        """Tell the register, and again and again until it knows: a report can be lost, or come too early."""
        standing = self._standing()
        if standing is None:
            self._reported = None
        elif standing != self._reported or now >= self._reported_ms + REPORT_EVERY_MS:
            self._reported, self._reported_ms = standing, now
            self._out.append(Report(standing))

    def on_register_up(self, now: int) -> None:
        """The register is there again: it may have missed the last report."""
        self._reported = None

    # Neighbours.

    def on_peer_up(self, now: int, peer: str) -> None:
        self._connected[peer] = None
        if peer == self.upper:
            self._say_hello()

    def on_peer_down(self, now: int, peer: str) -> None:
        self._connected.pop(peer, None)
        self._following.pop(peer, None)
        self._early.pop(peer, None)
        if peer in (self.upper, self.lower):
            self._missing_since.setdefault(peer, now)
        if peer == self.upper:
            self._up_open = self._learnt = False
            if self.is_learner:
                self._forget()

    def on_message(self, now: int, peer: str, message: say.LinkMessage) -> None:
        if message.epoch != self.epoch:
            self._on_other_epoch(peer, message)
        elif isinstance(message, say.Hello):
            self._on_hello(peer, message)
        elif peer == self.upper:
            self._missing_since.pop(peer, None)
            self._on_message_from_above(message)
        elif peer == self.lower:
            self._on_message_from_below(now, peer, message)

    def _on_other_epoch(self, peer: str, message: say.LinkMessage) -> None:
        if isinstance(message, say.Stale):
            if message.epoch > self.epoch and not self.suspended:
                self.suspended = True
                self.service.send_all_away()
        elif message.epoch < self.epoch:
            self._out.append(ToPeer(peer, say.Stale(self.chain, self.epoch)))
        elif isinstance(message, say.Hello):
            self._early[peer] = message

    def _on_message_from_above(self, message: say.LinkMessage) -> None:
        if isinstance(message, say.Events):
            self._on_events(message)
        elif isinstance(message, say.Ack):
            for name, version in message.versions:
                self._on_ack(self.space(name), version)
        elif isinstance(message, say.Welcome):
            self._on_welcome(message)
        elif isinstance(message, say.Synced):
            self._on_synced()
        elif not self.whole:
            self._learn(message)

    def _on_message_from_below(self, now: int, peer: str, message: say.LinkMessage) -> None:
        if isinstance(message, say.Changes):
            self._on_changes(peer, message)
        elif (
            isinstance(message, say.Snapshot) and message.snapshot.version > self.space(message.snapshot.space).version
        ):
            space = self.space(message.snapshot.space)
            space.restore(message.snapshot)
            self._on_replaced(now, space)

    # Making two neighbours agree.

    def _say_hello(self) -> None:
        if not self.upper or self.upper not in self._connected:
            return
        self._out.append(ToPeer(self.upper, say.Hello(self.chain, self.epoch, self._positions())))

    def _positions(self) -> list[say.Position]:
        return [say.Position(s.name, s.next_chain_sequencer, s.version) for s in self.spaces.values()]

    def _on_hello(self, peer: str, hello: say.Hello) -> None:
        """Send the lower neighbour (or the learner) what it lacks, and stream from here on."""
        if peer != self.lower and not self._may_teach(peer):
            self._early[peer] = hello
            return
        self._missing_since.pop(peer, None)
        self._following[peer] = None
        self._out.append(ToPeer(peer, say.Welcome(self.chain, self.epoch, self._positions())))
        theirs = {position.space: position for position in hello.positions}
        for space in self.spaces.values():
            at = theirs.get(space.name, say.Position(space.name, 1, 0))
            self._bring_down(peer, space, at)
        committed = [(space.name, space.committed) for space in self.spaces.values()]
        self._out.append(ToPeer(peer, say.Ack(self.chain, self.epoch, committed)))
        self._out.append(ToPeer(peer, say.Synced(self.chain, self.epoch)))

    def _may_teach(self, peer: str) -> bool:
        """Only the tail teaches, and not while it has doubts: the learner would take over what is on trial."""
        return self.is_tail and peer == self.view.learner and not self.tail.trying

    def _bring_down(self, peer: str, space: Space, at: say.Position) -> None:
        assert at.version >= space.version or peer not in self.view.whole, "a whole link lacks a version held above it"
        changes = space.ring.since(at.version) if at.version else None
        if at.version < space.version and changes is None:
            self._out.append(ToPeer(peer, say.Snapshot(self.chain, self.epoch, space.snapshot())))
            return
        # Events first: a kill moves the receiver's next number beyond events that it has not got yet.
        events = space.events_from(at.next_chain_sequencer)
        if events:
            self._out.append(ToPeer(peer, say.Events(self.chain, self.epoch, space.name, events)))
        if at.version < space.version and changes:
            self._out.append(ToPeer(peer, say.Changes(self.chain, self.epoch, space.name, changes)))

    def _on_welcome(self, welcome: say.Welcome) -> None:
        """Send the upper neighbour what it lacks, and stream from here on."""
        if self.is_learner:
            return
        theirs = {position.space: position.version for position in welcome.positions}
        for space in self.spaces.values():
            version = theirs.get(space.name, 0)
            if version < space.version:
                self._bring_up(space, version)
        self._up_open = True

    def _bring_up(self, space: Space, version: int) -> None:
        changes = space.ring.since(version)
        if changes is None:
            self._out.append(ToPeer(self.upper, say.Snapshot(self.chain, self.epoch, space.snapshot())))
        else:
            self._out.append(ToPeer(self.upper, say.Changes(self.chain, self.epoch, space.name, changes)))

    def _on_synced(self) -> None:
        if self.is_learner:
            self._learnt = True
        elif not self.whole:
            self.whole = True
            if self.is_tail:
                self._out.extend(self.tail.take_office(self.spaces, suspicious=False))

    def _learn(self, message: say.LinkMessage) -> None:
        """A link that is not whole yet takes changes and snapshots from above."""
        if isinstance(message, say.Snapshot):
            self.space(message.snapshot.space).restore(message.snapshot)
        elif isinstance(message, say.Changes):
            space = self.space(message.space)
            for change in message.changes:
                if change.version == space.version + 1:
                    space.apply(change)

    # The streams.

    def _on_event(self, space: Space, event: Event) -> None:
        """The replica has a new event: pass it on, and compute it if this is the tail."""
        self._events.setdefault(space.name, []).append(event)
        if self.is_tail and self.whole:
            self.tail.on_event(space, event)

    def _on_events(self, message: say.Events) -> None:
        space = self.space(message.space)
        for event in message.events:
            if space.add(event):
                self._on_event(space, event)

    def _on_changes(self, peer: str, message: say.Changes) -> None:
        space = self.space(message.space)
        for change in message.changes:
            if change.version == space.version + 1:
                space.apply(change)
                self._on_change(space, change)
            elif change.version > space.version:
                # Something is missing in between: ask to be brought up to date.
                self._out.append(ToPeer(peer, say.Welcome(self.chain, self.epoch, self._positions())))
                return

    def _on_change(self, space: Space, change: Change) -> None:
        """The replica has a new version: pass it on, or commit it if this is the head."""
        self._changes.setdefault(space.name, []).append(change)
        if self.is_head:
            self.head.on_change(space, change)
            self.service.note(space, change)
            self._commit(space, change.version)

    def _on_replaced(self, now: int, space: Space) -> None:
        """The replica jumped to a later version: so must the links above, and devices here start over."""
        self._changes.pop(space.name, None)
        self._replaced[space.name] = None
        if self.is_head:
            self.service.start_over(now, space)
            self._commit(space, space.version)

    def _commit(self, space: Space, version: int) -> None:
        space.committed = version
        self._acks[space.name] = version
        self.service.committed(space)

    def _on_ack(self, space: Space, version: int) -> None:
        if version > space.committed:
            self._commit(space, min(version, space.version))

    # Turns.

    def on_trial(self, now: int, space: str, fatal: list[int]) -> None:
        self.tail.on_trial(space, fatal)
        self._greet_early()

    def deadline(self) -> int | None:
        """When `flush` wants to be called, if nothing else happens before."""
        if self.is_tail and self.tail.busy and not self.suspended:
            return 0
        times = []
        if self.is_head and self.serving and (due := self.head.deadline()) is not None:
            times.append(due)
        if self._standing() is not None:
            times.append(self._reported_ms + REPORT_EVERY_MS)
        if self._missing_since:
            times.append(
                max(min(self._missing_since.values()) + SUSPECT_AFTER_MS, self._complained_ms + SUSPECT_EVERY_MS)
            )
        return min(times, default=None)

    def flush(self, now: int) -> list[Effect]:
        """End the turn: compute, and hand out everything that the turn brought."""
        if self.is_head and self.serving:
            self.head.fire(now, self.spaces)
        if self.is_tail and self.serving:
            for space, change in self.tail.compute(self.epoch, careful=self._is_last_copy, out=self._out):
                self._on_change(space, change)
        self._stream()
        self.service.publish()
        self._complain(now)
        self._report_standing(now)
        out, self._out = self._out, []
        return out

    def _stream(self) -> None:
        for peer in self._following:
            self._stream_down(peer)
        if self._up_open:
            for name in self._replaced:
                self._out.append(ToPeer(self.upper, say.Snapshot(self.chain, self.epoch, self.spaces[name].snapshot())))
            for name, changes in self._changes.items():
                self._out.append(ToPeer(self.upper, say.Changes(self.chain, self.epoch, name, changes)))
        self._events, self._changes, self._acks, self._replaced = {}, {}, {}, {}

    def _stream_down(self, peer: str) -> None:
        for name, events in self._events.items():
            self._out.append(ToPeer(peer, say.Events(self.chain, self.epoch, name, events)))
        if peer != self.lower:
            for name, changes in self._changes.items():
                self._out.append(ToPeer(peer, say.Changes(self.chain, self.epoch, name, changes)))
        elif self._acks:
            self._out.append(ToPeer(peer, say.Ack(self.chain, self.epoch, list(self._acks.items()))))

    def _complain(self, now: int) -> None:
        """Tell the register of neighbours that have been out of reach for too long."""
        if now < self._complained_ms + SUSPECT_EVERY_MS:
            return
        for peer, since in self._missing_since.items():
            if now >= since + SUSPECT_AFTER_MS:
                self._complained_ms = now
                self._out.append(Report(Suspect(self.chain, self.epoch, peer)))
