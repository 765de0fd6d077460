"""Runs a group member's core on a loop: what comes in, what the app sends, time, and the effects of each turn.

Whatever comes in within one tick of the loop is one turn of the core, at the tick's end. What the app has sent is
handed to the core before anything that came in later. Each part is encoded once, and each member is sent one packet in
a turn. Nothing waits for a timer: they are for what the network lost.

A broken invariant ends the member: a core that is not sure of itself must not speak.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from octoloom.core.errors import ProtocolError
from octoloom.core.filters import FilterFactory, ReceivedMessage, SentMessage
from octoloom.core.group import GroupMember
from octoloom.core.group_effects import Deliver, DeliverDirect, Effect, ToMembers
from octoloom.core.group_messages import Cast, GroupView, Part, Resent
from octoloom.core.roster import name_of
from octoloom.core.steps import Step
from octoloom.runtime.group_carrier import Carrier
from octoloom.runtime.group_inbox import Handed, Inbox, Told
from octoloom.runtime.group_outbox import GroupOutbox
from octoloom.runtime.group_pipeline import Pipeline
from octoloom.runtime.group_steps import StepSink
from octoloom.runtime.sure import Sure
from octoloom.wire.group import decode_bodies, encode_part

TURN_BUNDLES_MAX = 16
"""An app that has sent so many bundles in one tick lets the others have their turn."""

_log = logging.getLogger("octoloom.group")


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Listener(Protocol):
    def obey(self, effect: Effect) -> None:
        """Effects about the member's life."""

    def on_broken(self, error: Exception) -> None: ...
    def on_overrun(self) -> None:
        """The app does not take what it is handed."""

    def check_open(self) -> None:
        """Raises what ended this member, if anything did."""


class GroupDriver:
    """`attach` gives it the carrier before anything else is called."""

    def __init__(
        self,
        core: GroupMember,
        listener: Listener,
        transport: str,
        filters: Sequence[str | FilterFactory] = (),
        sink: StepSink | None = None,
    ) -> None:
        self.core = core
        self.counters: Counter[str] = Counter()
        self.inbox = Inbox(self._on_bad_payload)
        settings = core.settings
        self.outbox = GroupOutbox(self._hand_over, settings.cast_bytes_max // 2, settings.payload_max, transport)
        self.pipeline = Pipeline(name_of(core.me), filters, self._on_filtered, self.inbox.put)
        self._has_filters = bool(self.pipeline)
        self.busy = False
        """Who sends has to wait: for room, or for its next turn."""
        self.closed = False
        self.draining = False
        """Nothing more is taken from the app."""
        self.unsent: list[tuple[bytes, int]] = []
        """Payloads that came too late, and how many messages they have."""
        self._listener = listener
        self._carrier: Carrier | None = None
        self._sink = sink
        self._sure = Sure(listener.on_broken)
        self._loop = asyncio.get_running_loop()
        self._soon = False
        self._timer: asyncio.TimerHandle | None = None
        self._due: int | None = None
        self._filters_due: int | None = None
        self._handed = 0
        self._plain = False
        self._waiters: list[asyncio.Future[None]] = []

    def attach(self, carrier: Carrier) -> None:
        self._carrier = carrier

    def close(self) -> None:
        """Speaks no more. Who waits to send is woken, and finds out."""
        if self.closed:
            return
        self.closed = self.busy = True
        if self._timer is not None:
            self._timer.cancel()
        if self._carrier is not None:
            self._carrier.close()
            self.counters += self._carrier.counters
        if self._sink is not None:
            self._sink.close()
        self._wake()

    def all_counters(self) -> Counter[str]:
        there = self._carrier.counters if self._carrier is not None and not self.closed else Counter[str]()
        return self.core.counters + self.counters + there

    # The app.

    def post(self, body: object, plain: bool) -> None:
        """A message to the others. `busy` says whether it should wait."""
        if self._has_filters:
            self._plain = plain
            try:
                self.pipeline.send(SentMessage(body))
            finally:
                self._plain = False
        else:
            self.outbox.add(body, plain)
        self.mark()

    def post_many(self, bodies: Sequence[object]) -> None:
        if self._has_filters:
            for body in bodies:
                self.pipeline.send(SentMessage(body))
        else:
            self.outbox.add_many(bodies)
        self.mark()

    def _on_filtered(self, message: SentMessage) -> None:
        self.outbox.add(message.body, self._plain)

    def _hand_over(self, payload: bytes, count: int, plain: bool) -> None:
        if self.core.expelled:
            self.unsent.append((payload, count))
            return
        self.core.send(now_ms(), payload, count, plain)
        self._handed += 1
        if self._handed >= TURN_BUNDLES_MAX or self.core.congested:
            self.busy = True

    async def room(self) -> None:
        """Returns when there is room to send; raises if there never will be."""
        self._listener.check_open()
        while self.busy:
            await self.turn()
            self._listener.check_open()

    async def turn(self) -> None:
        """Returns at the end of the next turn."""
        if not self.closed:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # What comes in.

    def begin(self) -> int:
        """Before any input to the core: what was sent earlier goes first. Answers the time."""
        if len(self.outbox):
            with self._sure:
                self.outbox.flush()
        self.mark()
        return now_ms()

    def on_view(self, view: GroupView) -> None:
        if self.closed:
            return
        now = self.begin()
        with self._sure:
            if self._carrier is not None and self.core.me in view.names:
                self._carrier.on_view(view)
            self.core.on_view(now, view)

    def on_peer_up(self, member: str) -> None:
        if not self.closed:
            self.core.on_peer_up(self.begin(), member)

    def on_packet(self, peer: str, parts: list[Part]) -> bool:
        if self.closed:
            return True
        now = self.begin()
        if self.inbox.full and not self.core.frozen:
            self.counters["inbox-full"] += 1
            parts = [part for part in parts if not isinstance(part, Cast | Resent)]  # they are asked for again
        try:
            with self._sure:
                self.core.on_packet(now, peer, parts)
        except ProtocolError as error:
            _log.warning("%s takes no more of a packet from %s: %s", self.core.me, peer, error)
            return False
        return True

    def _on_bad_payload(self, sender: str, error: ProtocolError) -> None:
        self.counters[error.code] += 1
        _log.warning("%s leaves out what came from %s: %s", self.core.me, sender, error)

    # Turns.

    def mark(self) -> None:
        """There is something to do at the end of this tick."""
        if not self._soon and not self.closed:
            self._soon = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._soon = False
        if self.closed:
            return
        now = now_ms()
        with self._sure:
            if self._has_filters:
                self._filters_due = self.pipeline.on_time(now)
            self.outbox.flush()
            self._obey(self.core.flush(now))
        if not self.closed:
            self.inbox.wake()
            self._handed = 0
            self.busy = self.draining or self.core.congested
            self._arm()
            if self.inbox.overrun:
                self._listener.on_overrun()
        self._wake()

    def _obey(self, effects: list[Effect]) -> None:
        packets: dict[str, list[bytes]] = {}
        for effect in effects:
            if isinstance(effect, ToMembers):
                part = encode_part(effect.part)
                for member in effect.members:
                    packets.setdefault(member, []).append(part)
            elif isinstance(effect, Deliver):
                self._deliver(effect)
            elif isinstance(effect, DeliverDirect):
                self.inbox.tell(Told(name_of(effect.sender), effect.payload))
            elif not isinstance(effect, Step):
                self._listener.obey(effect)
        if self._sink is not None:
            self._sink.write(effects)
        if self._carrier is not None:
            for member, parts in packets.items():
                self._carrier.send(member, parts)

    def _deliver(self, deliver: Deliver) -> None:
        bundle, concurrent = deliver.bundle, bool(deliver.concurrent)
        sender = name_of(bundle.origin)
        if not self._has_filters:
            self.inbox.hand(Handed(sender, bundle.payload, bundle.count, concurrent, bundle.number, deliver.path))
            return
        try:
            bodies = decode_bodies(bundle.payload, bundle.count)
        except ProtocolError as error:
            self._on_bad_payload(sender, error)
            return
        for body in bodies:
            try:
                self.pipeline.receive(ReceivedMessage(sender, body, concurrent, False, bundle.number, deliver.path))
            except ProtocolError as error:
                self._on_bad_payload(sender, error)
        self.mark()  # a filter may want to be called at some time now

    def _arm(self) -> None:
        """Wakes up when the core or a filter wants to. A timer that is too early does no harm, and stays."""
        times = [time for time in (self.core.deadline(), self._filters_due) if time is not None]
        due = min(times, default=None)
        if due is None or (self._timer is not None and self._due is not None and self._due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_later(max(due - now_ms(), 0) / 1000, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self.mark()
