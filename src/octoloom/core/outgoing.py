"""What a member's app has sent, on its way out: waiting for a view, forwarded to the coordinator, or cast.

While there is no view to send in, messages wait in the *outbox*, without a number. In a view with an order of its own
for each sender they are cast at once. Under `total` they are numbered, go into the forward-table and to the
coordinator; the coordinator gathers what a turn has brought, its own and the others', and casts it at the turn's end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from octoloom.core.casting import Casting
from octoloom.core.group_effects import Deliver, Dropped, Effect
from octoloom.core.group_messages import Bundle, Forward
from octoloom.core.group_settings import GroupSettings
from octoloom.core.sequencer import Admission, ForwardTable
from octoloom.core.speech import Speech
from octoloom.core.steps import FORWARDED, ORDERED, Step

OUTBOX_BYTES_MAX = 8 * 1024 * 1024


class Outgoing:
    def __init__(self, me: str, settings: GroupSettings, speech: Speech, emit: Callable[[Effect], None]) -> None:
        self._me = me
        self._settings = settings
        self._speech = speech
        self._emit = emit
        self.forwards = ForwardTable()
        self._admission = Admission({})
        self._to_forward: list[Bundle] = []
        self._to_order: list[Bundle] = []
        self._outbox: deque[tuple[bytes, int, bool]] = deque()
        self._outbox_bytes = 0
        self.numbered = 0
        """How many bundles have a number."""

    @property
    def congested(self) -> bool:
        return self._outbox_bytes > OUTBOX_BYTES_MAX or self.forwards.size > self._settings.forward_bytes_max

    @property
    def empty(self) -> bool:
        return not self._outbox and not len(self.forwards)

    def wait(self, payload: bytes, count: int, plain: bool) -> None:
        self._outbox.append((payload, count, plain))
        self._outbox_bytes += len(payload)

    def send(self, now: int, casting: Casting, payload: bytes, count: int, plain: bool) -> None:
        if plain:
            casting.cast(now, [Bundle(self._me, 0, count, payload)], plain=True)
            return
        self.numbered += 1
        self._send_bundle(now, casting, Bundle(self._me, self.numbered, count, payload))

    def _send_bundle(self, now: int, casting: Casting, bundle: Bundle) -> None:
        if not casting.is_total:
            casting.cast(now, [bundle])
            return
        self.forwards.add(bundle)
        if casting.leads:
            self._to_order += self._admission.admit(self._me, [bundle])
        else:
            self._to_forward.append(bundle)

    # Views.

    def freeze(self) -> None:
        """The view ends. What was not cast in it comes again from its senders, one's own from the forward-table."""
        self._to_forward.clear()
        self._to_order.clear()

    def begin(self, received: dict[str, int]) -> None:
        self._admission = Admission(received)

    def resend(self, now: int, casting: Casting, received: int, is_failover: bool) -> None:
        """Send what was not ordered in the view before: first of all, and in order. `received` of one's own were."""
        bundles = self.forwards.take_all()
        if bundles and is_failover and self._settings.failover == "drop":
            self._emit(Dropped(bundles))
            bundles = []
        if not bundles:
            self.numbered = received
        for bundle in bundles:
            self._send_bundle(now, casting, bundle)
            if not casting.is_total:
                self._emit(Deliver(bundle))  # who sent it under `total` waits for it to come back

    def send_outbox(self, now: int, casting: Casting) -> None:
        outbox, self._outbox, self._outbox_bytes = self._outbox, deque(), 0
        for payload, count, plain in outbox:
            self.send(now, casting, payload, count, plain)

    def take_all(self) -> list[Bundle]:
        """All that was sent and not ordered or cast, oldest first; what has no number never left."""
        waiting = [Bundle(self._me, 0, count, payload) for payload, count, _ in self._outbox]
        self._outbox.clear()
        self._outbox_bytes = 0
        return [*self.forwards.take_all(), *waiting]

    # As the coordinator.

    def on_forward(self, peer: str, bundles: list[Bundle]) -> None:
        self._to_order += self._admission.admit(peer, bundles)

    # The end of a turn.

    def flush(self, now: int, casting: Casting) -> None:
        if self._to_forward:
            bundles, self._to_forward = self._to_forward, []
            self._trace(FORWARDED, casting, bundles)
            for batch in self._in_batches(bundles):
                self._speech.say(now, casting.members[0], Forward(casting.epoch, batch))
        if self._to_order:
            bundles, self._to_order = self._to_order, []
            self._trace(ORDERED, casting, bundles)
            for batch in self._in_batches(bundles):
                casting.cast(now, batch)

    def _trace(self, name: str, casting: Casting, bundles: list[Bundle]) -> None:
        if self._settings.tracing:
            for bundle in bundles:
                self._emit(Step(name, self._me, bundle.origin, bundle.number, epoch=casting.epoch))

    def _in_batches(self, bundles: list[Bundle]) -> list[list[Bundle]]:
        batches: list[list[Bundle]] = []
        size_max = size = self._settings.cast_bytes_max
        for bundle in bundles:
            if size + len(bundle.payload) > size_max:
                batches.append([])
                size = 0
            batches[-1].append(bundle)
            size += len(bundle.payload)
        return batches
