"""How a link and its neighbours come to agree in each view, and what streams between them afterwards.

The lower one (or a learner, which follows the tail) says `Hello` with its positions. The upper one answers with its
own, sends what the lower lacks, then `Synced`; the lower sends what the upper lacks. From then on both stream what
each turn brought, as one batch per space: events and acknowledgements down, changes up. A learner gets events and
changes. A neighbour that is not connected, or has not said hello yet, gets nothing: it will say where it stands.

Nobody says hello before the view is in force: if it never is, and the register goes back to links that it had left
out, no link may have got ahead of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from octoloom.core import link_messages as say
from octoloom.core.effects import ToPeer
from octoloom.core.event import Change, Event
from octoloom.core.space import Space

if TYPE_CHECKING:
    from octoloom.core.chain import Chain


class Neighbours:
    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self.connected: dict[str, None] = {}
        self.following: dict[str, None] = {}
        """Who gets our stream: the lower neighbour, and the learner if this is the tail."""
        self.up_open = False
        self._early: dict[str, say.Hello] = {}
        self._events: dict[str, list[Event]] = {}
        self._changes: dict[str, list[Change]] = {}
        self._acks: dict[str, int] = {}
        self._journaled: dict[str, int] = {}
        self._replaced: dict[str, None] = {}

    def forget_batches(self) -> None:
        for batch in (self._events, self._changes, self._acks, self._journaled, self._replaced):
            batch.clear()

    def on_down(self, peer: str) -> None:
        for table in (self.connected, self.following, self._early):
            table.pop(peer, None)
        if peer == self._chain.place.upper:
            self.up_open = False

    def on_new_epoch(self) -> None:
        self.up_open = False
        self.following.clear()

    # What the turn brought.

    def queue_events(self, space: Space, events: list[Event]) -> None:
        self._events.setdefault(space.name, []).extend(events)

    def queue_change(self, space: Space, change: Change) -> None:
        self._changes.setdefault(space.name, []).append(change)

    def queue_ack(self, space: Space) -> None:
        self._acks[space.name] = space.committed

    def queue_journaled(self, space: Space, version: int) -> None:
        self._journaled[space.name] = version

    def queue_replaced(self, space: Space) -> None:
        """The space jumped ahead: what is above gets all of it instead of changes."""
        self._changes.pop(space.name, None)
        self._replaced[space.name] = None

    # Hello.

    def say_hello(self) -> None:
        upper = self._chain.place.upper
        if upper and upper in self.connected and self._chain.view.in_force:
            self._send(upper, say.Hello(self._chain.chain, self._chain.epoch, self.positions()))

    def positions(self) -> list[say.Position]:
        return [say.Position(s.name, s.next_chain_sequencer, s.version) for s in self._chain.spaces.values()]

    def on_hello(self, peer: str, hello: say.Hello) -> None:
        """Send the lower neighbour (or the learner) what it lacks, and stream from here on."""
        chain = self._chain
        expected = peer == chain.place.lower or self._may_teach(peer)
        if hello.epoch != chain.epoch or not chain.view.in_force or not expected:
            self._early[peer] = hello
            return
        chain.reports.missing.pop(peer, None)
        self.following[peer] = None
        self._send(peer, say.Welcome(chain.chain, chain.epoch, self.positions()))
        theirs = {position.space: position for position in hello.positions}
        for space in chain.spaces.values():
            self._bring_down(peer, space, theirs.get(space.name, say.Position(space.name, 1, 0)))
        committed = [(space.name, space.committed) for space in chain.spaces.values()]
        journaled = [(s.name, s.backlog.journaled) for s in chain.spaces.values() if s.backlog is not None]
        self._send(peer, say.Ack(chain.chain, chain.epoch, committed, journaled))
        self._send(peer, say.Synced(chain.chain, chain.epoch))

    def _may_teach(self, peer: str) -> bool:
        """Only the tail teaches, and not while it has doubts: the learner would take over what is on trial."""
        chain = self._chain
        return chain.place.is_tail and peer == chain.view.learner and not chain.tail.doubting

    def greet_early(self) -> None:
        """Answer those who said hello before this link knew that they would."""
        for peer in [peer for peer, hello in self._early.items() if hello.epoch <= self._chain.epoch]:
            hello = self._early.pop(peer)
            if hello.epoch == self._chain.epoch:
                self.on_hello(peer, hello)  # or keep it for later still

    def _bring_down(self, peer: str, space: Space, at: say.Position) -> None:
        chain = self._chain
        behind = at.version < space.version
        assert not behind or peer not in chain.view.whole, "a whole link lacks a version that is held above it"
        changes = space.ring.since(at.version) if at.version else None
        if behind and changes is None:
            self._send(peer, say.Snapshot(chain.chain, chain.epoch, space.snapshot()))
            return
        # Events first: a kill moves the receiver's next number beyond events that it has not got yet.
        events = space.events_from(at.next_chain_sequencer)
        if events:
            self._send(peer, say.Events(chain.chain, chain.epoch, space.name, events))
        if behind and changes:
            consumed = space.backlog.events_since(at.version) if space.backlog is not None else []
            self._send(peer, say.Changes(chain.chain, chain.epoch, space.name, changes, consumed))

    def on_welcome(self, welcome: say.Welcome) -> None:
        """Send the upper neighbour what it lacks, and stream from here on."""
        if self._chain.place.is_learner:
            return
        theirs = {position.space: position.version for position in welcome.positions}
        for space in self._chain.spaces.values():
            version = theirs.get(space.name, 0)
            if version < space.version:
                self._bring_up(space, version)
        self.up_open = True

    def _bring_up(self, space: Space, version: int) -> None:
        chain = self._chain
        changes = space.ring.since(version)
        if changes is None:
            self._send(chain.place.upper, say.Snapshot(chain.chain, chain.epoch, space.snapshot()))
        else:
            self._send(chain.place.upper, say.Changes(chain.chain, chain.epoch, space.name, changes))

    def ask_again(self, peer: str) -> None:
        """A change is missing: have the lower neighbour bring this link up to date."""
        self._send(peer, say.Welcome(self._chain.chain, self._chain.epoch, self.positions()))

    # Streams.

    def stream(self) -> None:
        """Hand out what the turn brought, to those who follow."""
        chain = self._chain
        for peer in self.following:
            self._stream_down(peer)
        if self.up_open:
            for name in self._replaced:
                snapshot = chain.spaces[name].snapshot()
                self._send(chain.place.upper, say.Snapshot(chain.chain, chain.epoch, snapshot))
            for name, changes in self._changes.items():
                self._send(chain.place.upper, say.Changes(chain.chain, chain.epoch, name, changes))
        self._events, self._changes, self._acks, self._journaled, self._replaced = {}, {}, {}, {}, {}

    def _stream_down(self, peer: str) -> None:
        chain = self._chain
        for name, events in self._events.items():
            self._send(peer, say.Events(chain.chain, chain.epoch, name, events))
        if peer != chain.place.lower:
            for name, changes in self._changes.items():
                self._send(peer, say.Changes(chain.chain, chain.epoch, name, changes))
        elif self._acks or self._journaled:
            acks, journaled = list(self._acks.items()), list(self._journaled.items())
            self._send(peer, say.Ack(chain.chain, chain.epoch, acks, journaled))

    def _send(self, peer: str, message: say.LinkMessage) -> None:
        self._chain.emit(ToPeer(peer, message))
