"""A device: numbers what its user does, says it until it is settled, and follows the shared state.

Theory. A number is given once, and the chain is the authority on which numbers are taken. A device may have forgotten
them (a wiped store, an older copy of it), so it numbers nothing until the chain has answered its bootstrap. From then
on it says every event in order and keeps it until a committed change kills it.

::

    OFFLINE ──on_connected: bootstrap──▶ AWAITING ──welcome──▶ READY ──lost its place: bootstrap──▶ AWAITING
       ▲                                    │                    │
       └────────────on_disconnected─────────┴────────────────────┘        refused for good ──▶ STOPPED

A device without a name is an observer: it says `Observe` where a device says `Bootstrap`, and cannot act.

Invariants (those of the data are in `device_book`)
1. Numbers are given only in READY and outside a busy wait; until then actions stay queued, in order.
2. A pending event leaves only through a kill, or because the chain said that it can never take it.
3. Kills and the state that they belong to change in one step and in one `Persist`.
4. A change that does not start at the device's version is not applied: the device asks for its place again.
5. A resent event has the text it had before.
6. A message that breaks the protocol raises before anything has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

import msgspec

from octoloom.core import device_messages as m
from octoloom.core.device_book import DeviceBook, Draft, Kill
from octoloom.core.device_effects import (
    Advanced,
    Dial,
    Effect,
    Hangup,
    Limits,
    PendingEvent,
    Reset,
    Saved,
    Send,
    Stopped,
    check_event,
)
from octoloom.core.device_patience import Due, Patience
from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.event import Outcome

FINAL_CODES = ("fenced", "forbidden", "bad-name", "bad-number")
"""Refusals that another connection would meet again."""


class Phase(Enum):
    OFFLINE = "offline"
    AWAITING = "awaiting"
    READY = "ready"
    STOPPED = "stopped"


class DeviceCore:
    """The pure core of a device, or of an observer if `device` is empty. Times are milliseconds."""

    def __init__(
        self, space: str, device: str = "", token: str = "", saved: Saved | None = None, limits: Limits | None = None
    ) -> None:
        self.space, self.device, self.limits = space, device, limits or Limits()
        self.phase = Phase.OFFLINE
        self.links: list[str] = []
        self._book = DeviceBook(device, saved or Saved(), self.limits)
        self._patience = Patience(self.limits)
        self._token = token
        self._asked_version = self.version
        self._resume_from = 0
        self._redirects = 0

    def snapshot(self) -> Saved:
        """All that is kept; a core made from it goes on where this one was. The state is shared, not copied."""
        return self._book.saved()

    @property
    def state(self) -> Any:
        return self._book.state

    @property
    def version(self) -> int:
        return self._book.version

    @property
    def generation(self) -> int:
        return self._book.generation

    @property
    def next_sequencer(self) -> int:
        return self._book.next_sequencer

    @property
    def pending(self) -> dict[int, PendingEvent]:
        """Numbered events that are not settled, by sequencer, in order."""
        return self._book.pending

    def unsettled(self) -> list[PendingEvent]:
        """Every event that is not settled, numbered or not, in the order in which they were done."""
        return [*self._book.pending.values(), *self._book.queue]

    # What the application does.

    def act(self, name: str, payload: bytes) -> tuple[int, list[Effect]]:
        """Takes an action and answers its ticket. It gets its number now, or as soon as the chain has answered."""
        if not self.device:
            raise UsageError("an observer cannot send: connect as a Device, with a name")
        check_event(name, payload)
        draft = Draft()
        action = self._book.enqueue(draft, name, payload)
        return action.ticket, self._close(draft)

    # What the connection does.

    def on_connected(self, now: int) -> list[Effect]:
        if self.phase is Phase.STOPPED:
            return []
        self._patience.on_connected(now)
        return self._bootstrap(now)

    def on_disconnected(self, now: int) -> list[Effect]:
        if self.phase is not Phase.STOPPED:
            self.phase = Phase.OFFLINE
        return []

    def on_message(self, now: int, message: m.ToDevice) -> list[Effect]:
        """Raises ProtocolError, with nothing changed, if the link said what it may not say."""
        if self.phase in (Phase.OFFLINE, Phase.STOPPED):
            return []
        self._patience.on_heard(now)
        match message:
            case m.Welcome():
                return self._on_welcome(now, message)
            case m.Changed():
                return self._on_changed(now, message)
            case m.Gap():
                # After a busy wait everything is sent again anyway.
                return [] if self._patience.waiting else self._resend(now, message.expected)
            case m.Busy():
                return self._wait(now, message.retry_ms, message.expected)
            case m.Redirect():
                return self._on_redirect(now, message)
            case m.Refused():
                return self._on_refused(now, message)
            case m.Pong():
                return []

    def on_time(self, now: int) -> list[Effect]:
        """May be called too early or too late; does what is due."""
        effects: list[Effect] = []
        for due in [] if self.deadline() is None else self._patience.due(now):
            if due is Due.PING:
                effects.append(Send(m.Ping()))
            elif due is Due.RESUME:
                effects += self._resend(now, self._resume_from) if self._ready else self._bootstrap(now)
            else:
                effects += self._hang_up(now, due.value)
        return effects

    def deadline(self) -> int | None:
        """When `on_time` wants to be called."""
        return None if self.phase in (Phase.OFFLINE, Phase.STOPPED) else self._patience.deadline()

    # The chain's messages. Each is opened and checked first; then all of it is applied.

    def _on_welcome(self, now: int, welcome: m.Welcome) -> list[Effect]:
        kills, state, patches = _kills(welcome.kills), _text(welcome.state), _texts(welcome.patches)
        book = self._book
        # Behind what was asked: this chain does not know the history that the device has seen.
        fresh = welcome.generation != book.generation or welcome.version < self._asked_version
        moves = fresh or welcome.version > book.version or not book.version
        if fresh and book.version and state is None:
            raise ProtocolError("no-state", "a welcome to another history must bring the state")
        if moves and state is None and self._asked_version != book.version:
            # It answers an older bootstrap, and its patches start elsewhere.
            return self._bootstrap(now)
        lost = fresh and book.generation != 0
        draft = Draft()
        book.generation = welcome.generation
        if moves:
            book.assume(draft, state, patches, welcome.version)
        # Kills come first: where a number was used twice, the chain's own event is taken back in its place.
        book.kill(draft, kills)
        if welcome.next > book.next_sequencer:
            book.doubt_queue(draft)
        book.adopt(draft, welcome.events)
        book.skip_to(welcome.next)
        self._enter(welcome.links)
        return self._close(draft, Reset(book.generation) if lost else None, Advanced(book.version))

    def _enter(self, links: list[str]) -> None:
        self.phase, self._redirects, self.links = Phase.READY, 0, list(links)
        self._patience.on_answered()

    def _on_changed(self, now: int, changed: m.Changed) -> list[Effect]:
        # While a welcome is on its way it tells all of this too, counted from the version that was asked for.
        if not self._ready or changed.version < self.version:
            return []
        kills, state, patches = _kills(changed.kills), _text(changed.state), _texts(changed.patches)
        draft = Draft()
        if changed.version == self.version:
            self._book.kill(draft, kills)
            return self._close(draft) if draft.removed else []
        if changed.since != self.version:
            return self._bootstrap(now)
        self._book.assume(draft, state, patches, changed.version)
        self._book.kill(draft, kills)
        return self._close(draft, None, Advanced(self.version))

    def _on_redirect(self, now: int, redirect: m.Redirect) -> list[Effect]:
        if not redirect.url:
            self.phase = Phase.AWAITING
            return self._wait(now, redirect.retry_ms, 0)
        self._redirects += 1
        if self._redirects > self.limits.redirects_max:
            # Two links that point at each other must not be called in a tight circle.
            self._redirects = 0
            return self._hang_up(now, "too many redirects")
        return [*self.on_disconnected(now), Dial(redirect.url)]

    def _on_refused(self, now: int, refused: m.Refused) -> list[Effect]:
        if refused.sequencer in self.pending:
            draft = Draft()
            self._book.kill(draft, [(refused.sequencer, Outcome.REJECTED, f"{refused.code}: {refused.detail}")])
            # Only a bootstrap can skip a number. Until its answer, nothing is numbered.
            bootstrap = self._bootstrap(now)
            return [*self._close(draft), *bootstrap]
        if refused.sequencer and self._ready:
            return []
        if refused.code in FINAL_CODES:
            self.phase = Phase.STOPPED
            return [Stopped(refused.code, refused.detail)]
        return self._hang_up(now, f"{refused.code}: {refused.detail}")

    # Steps that several of the above share.

    @property
    def _ready(self) -> bool:
        return self.phase is Phase.READY

    def _close(self, draft: Draft, reset: Reset | None = None, advanced: Advanced | None = None) -> list[Effect]:
        """Numbers what may be numbered, and turns the draft into effects: first durable, then told, then said."""
        if self._ready and not self._patience.waiting:
            self._book.number_queue(draft)
        told = [effect for effect in (reset, *draft.settled, advanced) if effect is not None]
        return [self._book.close(draft), *told, *self._say(draft.numbered)]

    def _bootstrap(self, now: int) -> list[Effect]:
        self.phase, self._asked_version = Phase.AWAITING, self.version
        self._patience.on_asked(now)
        if not self.device:
            return [Send(m.Observe(self.space, self.generation, self.version))]
        events, place = _on_wire(self.pending.values()), (self.generation, self.version)
        return [Send(m.Bootstrap(self.space, self.device, self.next_sequencer, events, *place, self._token))]

    def _wait(self, now: int, retry_ms: int, resume_from: int) -> list[Effect]:
        self._resume_from = resume_from
        self._patience.on_wait(now, retry_ms)
        return []

    def _hang_up(self, now: int, detail: str) -> list[Effect]:
        return [*self.on_disconnected(now), Hangup(detail)]

    def _resend(self, now: int, expected: int) -> list[Effect]:
        """Says all from `expected` on again, and what was queued meanwhile; asks if that number is unknown here."""
        if not self._ready:
            return []
        if expected not in self.pending and expected != self.next_sequencer:
            return self._bootstrap(now)
        draft = Draft()
        self._book.number_queue(draft)
        again = self._say(event for event in self.pending.values() if event.sequencer >= expected)
        return [self._book.close(draft), *again] if draft.numbered else [*again]

    def _say(self, events: Iterable[PendingEvent]) -> list[Send]:
        notes, step = _on_wire(events), self.limits.send_max
        return [Send(m.Send(notes[start : start + step])) for start in range(0, len(notes), step)]


def _on_wire(events: Iterable[PendingEvent]) -> list[m.DeviceEvent]:
    return [(event.sequencer, event.name, msgspec.Raw(event.payload)) for event in events]


def _text(raw: msgspec.Raw | msgspec.UnsetType) -> bytes | None:
    # A copy: a Raw keeps the whole message alive.
    return None if isinstance(raw, msgspec.UnsetType) else bytes(raw)


def _texts(raws: list[msgspec.Raw]) -> tuple[bytes, ...]:
    return tuple(bytes(raw) for raw in raws)


def _kills(notes: list[m.KillNote]) -> list[Kill]:
    try:
        return [(sequencer, Outcome[word.upper()], reason) for sequencer, word, reason in notes]
    except KeyError as error:
        raise ProtocolError("unknown-outcome", f"an event cannot end as {error}") from None
