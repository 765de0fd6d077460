"""The head's door: lets devices in, takes their events in order, and fires what is due.

1. A device bootstraps first. The answer settles which of its events live, which are done and how they ended, and from
   which number on it goes on: above all that was asked, is live or is done, so a device that lost its store never
   reuses a number.
2. After that the door takes `sequencer == expected` only. Lower: a duplicate, dropped. Higher: `gap(expected)`.
3. A newer connection of the same device fences the older one.
4. At a bound the sender gets `busy(expected)`, not silence; what can never be taken gets an error that names its
   number. Either way nothing has changed.
5. Time and dice are stamped here. Time never goes back within a space, whichever link is the head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from octoloom.core import device_messages as say
from octoloom.core.event import Event, digest_of
from octoloom.core.merge_patch import nests_deeper
from octoloom.core.space import Space, Standing

DICE_STEP = 0x9E3779B97F4A7C15
DICE_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a link. At each the sender is told, and nothing else changes."""

    payload_max: int = 64 * 1024
    depth_max: int = 32
    name_max: int = 128
    event_name_max: int = 64
    device_pending_max: int = 256
    space_pending_max: int = 65_536
    devices_max: int = 100_000
    spaces_max: int = 100_000
    rate_max: int = 2_000
    backlog_max: int = 16 * 1024 * 1024
    """What a space may have ahead of the journal, in bytes."""
    busy_retry_ms: int = 50
    leave_grace_ms: int = 5_000
    secret: bytes = b""
    """With a secret, a device must show the token that was made for its name."""


@dataclass(slots=True)
class Session:
    """One device's connection to one space."""

    connection: int
    space: str
    device: str
    allowance: float
    allowance_ms: int
    expected: int = 1
    contested: dict[int, None] = field(default_factory=dict)
    """Numbers under which the device holds something else than the live event."""


class Door:
    """The admission of one chain's head. `admit` is called with the events that were taken, in order."""

    def __init__(self, limits: Limits, dice: int, admit: Callable[[Space, list[Event]], None]) -> None:
        self.limits = limits
        self.sessions: dict[int, Session] = {}
        self.owners: dict[str, dict[str, int]] = {}
        self._dice = dice
        self._admit = admit

    def clear(self) -> None:
        self.sessions.clear()
        self.owners.clear()

    def owners_of(self, space: str) -> dict[str, int]:
        return self.owners.get(space, {})

    # Bootstrap.

    def bootstrap(
        self, now: int, connection: int, request: say.Bootstrap, space: Space
    ) -> tuple[say.Welcome, list[say.ToDevice]]:
        """Let a device in. The welcome lacks the state; what follows it (a refusal, busy) comes second."""
        session = Session(connection, space.name, request.device, self.limits.rate_max, now)
        self.sessions[connection] = session
        self.owners.setdefault(space.name, {})[request.device] = connection
        history = space.device(request.device)
        known = dict(history.live)
        following, kills = self._take_pending(now, session, request, space)
        welcome = say.Welcome(
            generation=0,
            epoch=0,
            version=0,
            next=max(request.next, history.next()),
            kills=kills,
            events=self._unknown(request, space, known),
        )
        if not following:
            session.expected = welcome.next
        return welcome, following

    @staticmethod
    def must_wait(request: say.Bootstrap, space: Space) -> bool:
        """Has the device a number that lies below a live one and was never taken? It is settled with that one."""
        history = space.devices.get(request.device)
        return history is not None and any(history.standing(e[0]) is Standing.UNSETTLED for e in request.events)

    def _take_pending(
        self, now: int, session: Session, request: say.Bootstrap, space: Space
    ) -> tuple[list[say.ToDevice], list[say.KillNote]]:
        """Settle or take each event that the device holds; stops at the first that must wait or is refused."""
        history, kills = space.device(request.device), []
        for sequencer, name, raw in request.events:
            payload = bytes(raw)
            standing = history.standing(sequencer)
            if standing is Standing.DONE:
                outcome, reason = history.outcome(sequencer, digest_of(name, payload))
                kills.append((sequencer, outcome.word, reason))
            elif standing is Standing.LIVE:
                # A live event is not committed: if this link is not the head any more, another one may have settled
                # the number otherwise. So that this one is superseded is told when the live one is settled.
                if space.events[history.live[sequencer]].digest != digest_of(name, payload):
                    session.contested[sequencer] = None
            else:
                session.expected = sequencer
                refusal = self._refusal(now, session, space, sequencer, name, payload)
                if refusal is not None:
                    return [refusal], kills
                self._take(now, session, space, sequencer, name, payload)
        return [], kills

    @staticmethod
    def _unknown(request: say.Bootstrap, space: Space, known: dict[int, int]) -> list[say.DeviceEvent]:
        """The device's live events that it has lost."""
        held = {event[0] for event in request.events}
        events = (space.events[number] for number in known.values())
        return [(e.sequencer, e.name, msgspec.Raw(e.payload)) for e in events if e.sequencer not in held]

    # Events.

    def send(self, now: int, session: Session, events: list[say.DeviceEvent], space: Space) -> say.ToDevice | None:
        """Take events in order; the answer, if any, says where to go on."""
        taken: list[Event] = []
        answer = self._take_all(now, session, events, space, taken)
        if taken:
            self._admit(space, taken)
        return answer

    def _take_all(
        self, now: int, session: Session, events: list[say.DeviceEvent], space: Space, taken: list[Event]
    ) -> say.ToDevice | None:
        for sequencer, name, raw in events:
            if sequencer < session.expected:
                continue
            if sequencer > session.expected:
                return say.Gap(session.expected)
            payload = bytes(raw)
            refusal = self._refusal(now, session, space, sequencer, name, payload)
            if refusal is not None:
                return refusal
            taken.append(self._place(now, space, session.device, sequencer, name, payload))
            session.expected = sequencer + 1
        return None

    def _refusal(
        self, now: int, session: Session, space: Space, sequencer: int, name: str, payload: bytes
    ) -> say.ToDevice | None:
        limits = self.limits
        if len(payload) > limits.payload_max:
            detail = f"a payload has at most {limits.payload_max} bytes, this one {len(payload)}"
            return say.Refused("payload-too-large", detail, sequencer)
        if len(payload) > limits.depth_max and nests_deeper(payload, limits.depth_max):
            return say.Refused("too-deep", f"a payload nests at most {limits.depth_max} deep", sequencer)
        if not name or len(name) > limits.event_name_max or name.startswith("@"):
            detail = f"an event's name has 1 to {limits.event_name_max} characters and no leading '@'"
            return say.Refused("bad-event-name", detail, sequencer)
        if len(space.device(session.device).live) >= limits.device_pending_max:
            return self._busy(session, f"{limits.device_pending_max} events of this device are pending")
        if len(space.events) >= limits.space_pending_max:
            return self._busy(session, f"{limits.space_pending_max} events of this space are pending")
        if space.backlog is not None and space.backlog.size >= limits.backlog_max:
            return self._busy(session, "the journal is behind: are its brokers there?")
        if not self._allowed(now, session):
            return self._busy(session, f"at most {limits.rate_max} events a second")
        return None

    def _busy(self, session: Session, detail: str) -> say.Busy:
        return say.Busy(session.expected, self.limits.busy_retry_ms, detail)

    def _allowed(self, now: int, session: Session) -> bool:
        """A bucket that holds one second's events and fills as time goes by."""
        rate = self.limits.rate_max
        if now != session.allowance_ms:
            gained = (now - session.allowance_ms) * rate / 1000
            session.allowance, session.allowance_ms = min(rate, session.allowance + gained), now
        if session.allowance < 1.0:
            return False
        session.allowance -= 1.0
        return True

    def _take(self, now: int, session: Session, space: Space, sequencer: int, name: str, payload: bytes) -> None:
        self.put(now, space, session.device, sequencer, name, payload)
        session.expected = sequencer + 1

    def put(self, now: int, space: Space, device: str, sequencer: int, name: str, payload: bytes) -> None:
        """Give an event its place in the chain, its time and its dice, and pass it on."""
        self._admit(space, [self._place(now, space, device, sequencer, name, payload)])

    def _place(self, now: int, space: Space, device: str, sequencer: int, name: str, payload: bytes) -> Event:
        number = space.next_chain_sequencer
        dice = (self._dice + number * DICE_STEP) & DICE_MASK
        event = Event(number, device, sequencer, name, payload, max(now, space.time_ms), dice)
        space.add(event)
        return event

    def is_contested(self, connection: int, sequencer: int) -> bool:
        session = self.sessions.get(connection)
        return session is not None and bool(session.contested) and session.contested.pop(sequencer, 0) is None

    def close(self, connection: int) -> Session | None:
        """The connection is gone; returns its session if it was a device's current one."""
        session = self.sessions.pop(connection, None)
        if session is None or self.owners_of(session.space).get(session.device) != connection:
            return None
        del self.owners[session.space][session.device]
        return session
