"""What a link says to devices and observers: who is let in, who is sent elsewhere, what each is told.

Devices talk to the head only, any other link redirects them. Observers watch on any whole link. A peer's fault is
answered with a typed error and counted; it changes nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from octoloom.core import device_messages as say
from octoloom.core import tokens
from octoloom.core.audience import Audience
from octoloom.core.effects import Effect, Tell
from octoloom.core.event import SYSTEM, Change
from octoloom.core.space import Space

if TYPE_CHECKING:
    from octoloom.core.chain import Chain

RETRY_MS = 100
SEQUENCER_MAX = 1 << 53
LATER = say.Redirect("", RETRY_MS)
"""Whoever serves the space now, it is not this link: ask another one."""


class Service:
    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self.links: dict[str, str] = {}
        self.refused: Counter[str] = Counter()
        self._audiences: dict[str, Audience] = {}
        self._places: dict[int, str] = {}
        self._stirred: dict[str, None] = {}
        self._now = 0
        """The time of the input that is being handled."""

    def __len__(self) -> int:
        return len(self._places)

    # From devices.

    def on_message(self, now: int, connection: int, message: say.FromDevice) -> None:
        self._now = now
        if isinstance(message, say.Send):
            self._on_send(now, connection, message)
        elif isinstance(message, say.Ping):
            self._tell(connection, say.Pong())
        elif isinstance(message, say.Bootstrap):
            self._on_bootstrap(now, connection, message)
        else:
            self._on_observe(connection, message)

    def on_closed(self, now: int, connection: int) -> None:
        self._now = now
        self._let_out(connection)

    def _let_out(self, connection: int) -> None:
        session = self._chain.head.door.close(connection)
        if session is not None:
            self._chain.head.gone(self._now, session.space, session.device)
        place = self._places.pop(connection, None)
        if place is not None:
            self._audiences[place].drop(connection)

    def on_congested(self, connection: int) -> None:
        if connection in self._places:
            self._audiences[self._places[connection]].congested(connection)

    def on_drained(self, connection: int) -> None:
        if connection in self._places:
            self._audiences[self._places[connection]].drained(connection)
            self._stirred[self._places[connection]] = None

    def _on_send(self, now: int, connection: int, message: say.Send) -> None:
        session = self._chain.head.door.sessions.get(connection)
        if session is None:
            self._refuse(connection, "bootstrap-first", "send a bootstrap before events")
            return
        answer = self._chain.head.door.send(now, session, message.events, self._chain.spaces[session.space])
        if answer is not None:
            if isinstance(answer, say.Refused):
                self.refused[answer.code] += 1
            self._tell(connection, answer)

    def _on_bootstrap(self, now: int, connection: int, request: say.Bootstrap) -> None:
        chain = self._chain
        fault = self._fault(request.space) or self._device_fault(request)
        if fault is not None:
            self._refuse(connection, *fault)
        elif not chain.place.is_head or not chain.serving:
            self._redirect(connection)
        elif self._is_ahead(request) or chain.head.door.must_wait(request, chain.space(request.space)):
            self._end(connection, LATER)
        else:
            self._let_in(now, connection, request, chain.space(request.space))

    def _let_in(self, now: int, connection: int, request: say.Bootstrap, space: Space) -> None:
        door = self._chain.head.door
        older = door.owners_of(space.name).get(request.device)
        if older is not None and older != connection:
            self._refuse(older, "fenced", "a newer connection of this device has taken over")
        self._let_out(connection)
        audience = self._audience(space)
        self._extend(audience.publish())
        # The join comes before the events that the device brings along.
        self._chain.head.joined(now, space, request.device)
        welcome, following = door.bootstrap(now, connection, request, space)
        self._welcome(connection, audience, welcome, request, following)

    def _on_observe(self, connection: int, request: say.Observe) -> None:
        fault = self._fault(request.space)
        if fault is not None:
            self._refuse(connection, *fault)
        elif not self._chain.serving:
            self._redirect(connection)
        elif self._is_ahead(request):
            self._end(connection, LATER)
        else:
            self._let_out(connection)
            audience = self._audience(self._chain.space(request.space))
            self._extend(audience.publish())
            self._welcome(connection, audience, say.Welcome(0, 0, 0), request)

    def _welcome(
        self,
        connection: int,
        audience: Audience,
        welcome: say.Welcome,
        request: say.Bootstrap | say.Observe,
        following: Sequence[say.ToDevice] = (),
    ) -> None:
        view = self._chain.view
        known = request.generation == view.generation and 0 < request.version <= audience.space.committed
        content = audience.content(request.version if known else None)
        complete = msgspec.structs.replace(
            welcome,
            generation=view.generation,
            epoch=view.epoch,
            version=content.version,
            state=msgspec.UNSET if content.state is None else msgspec.Raw(content.state),
            patches=[msgspec.Raw(patch) for patch in content.patches],
            links=[self.links[link] for link in view.links if link in self.links],
        )
        self._places[connection] = audience.space.name
        # What became of its events may be known here before it is committed: then its welcome waits.
        hold = audience.space.version if welcome.kills else 0
        self._extend(audience.welcome(connection, complete, hold, following))

    def _is_ahead(self, request: say.Bootstrap | say.Observe) -> bool:
        """Has it seen, on another link, what this one does not know to be committed?

        An observer may have come from a link that heard of it earlier. For a device it means that this link is not
        the head any more and does not know it yet: serving it would show a state that goes back.
        """
        space = self._chain.space(request.space)
        return request.generation == self._chain.view.generation and request.version > space.committed

    # Bad input.

    def _fault(self, space: str) -> tuple[str, str] | None:
        limits = self._chain.limits
        if not 0 < len(space) <= limits.name_max:
            return "bad-name", f"a space's name has 1 to {limits.name_max} characters"
        if space not in self._chain.spaces and len(self._chain.spaces) >= limits.spaces_max:
            return "too-many-spaces", f"this chain holds {limits.spaces_max} spaces already"
        return None

    def _device_fault(self, request: say.Bootstrap) -> tuple[str, str] | None:
        limits = self._chain.limits
        if not 0 < len(request.device) <= limits.name_max or request.device.startswith(SYSTEM):
            return "bad-name", f"a device's name has 1 to {limits.name_max} characters and no leading '@'"
        if limits.secret and not tokens.verify(limits.secret, request.device, request.token):
            return "forbidden", f"the token does not belong to {request.device!r}"
        numbers = [event[0] for event in request.events]
        if any(a >= b for a, b in zip([0, *numbers], [*numbers, request.next], strict=True)):
            return "bad-number", "sequencers start at 1 and rise, and `next` is above all of them"
        if request.next > SEQUENCER_MAX:
            return "bad-number", f"sequencers end at {SEQUENCER_MAX}"
        space = self._chain.spaces.get(request.space)
        if space is not None and request.device not in space.devices and len(space.devices) >= limits.devices_max:
            return "too-many-devices", f"this space has {limits.devices_max} devices already"
        return None

    def _refuse(self, connection: int, code: str, detail: str) -> None:
        self.refused[code] += 1
        self._end(connection, say.Refused(code, detail))

    def _redirect(self, connection: int) -> None:
        self._end(connection, self._elsewhere())

    def _elsewhere(self) -> say.Redirect:
        """Where the head is, if this link knows it and is not it."""
        head = self._chain.view.head
        if self._chain.suspended or head == self._chain.me or head not in self.links:
            return LATER
        return say.Redirect(self.links[head])

    def _end(self, connection: int, message: say.ToDevice) -> None:
        """Say a last thing. What the connection still brings in this turn is not heard: it may be fenced."""
        self._let_out(connection)
        self._tell(connection, message, close=True)

    # From the chain.

    def note(self, space: Space, change: Change) -> None:
        audience = self._audiences.get(space.name)
        if audience is not None:
            door = self._chain.head.door
            audience.note(change, door.owners_of(space.name), door.is_contested)

    def committed(self, space: Space) -> None:
        if space.name in self._audiences:
            self._stirred[space.name] = None

    @property
    def has_news(self) -> bool:
        """Is there something to publish?"""
        return bool(self._stirred)

    def publish(self) -> None:
        for name in self._stirred:
            self._extend(self._audiences[name].publish())
        self._stirred.clear()

    def start_over(self, now: int, space: Space) -> None:
        """The space jumped ahead, so whose events were settled is not known: devices bootstrap again and are told."""
        self._now = now
        self._chain.head.on_replaced(now, space)
        for connection in list(self._chain.head.door.owners_of(space.name).values()):
            self._end(connection, LATER)

    def send_all_away(self) -> None:
        """This link serves nobody any more."""
        for connection in list(self._places):
            self._redirect(connection)
        self._chain.head.door.clear()
        self._audiences.clear()
        self._places.clear()
        self._stirred.clear()

    def _audience(self, space: Space) -> Audience:
        audience = self._audiences.get(space.name)
        if audience is None:
            audience = self._audiences[space.name] = Audience(space)
        return audience

    def _tell(self, connection: int, message: say.ToDevice, close: bool = False) -> None:
        self._chain.emit(Tell(connection, message, close))

    def _extend(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._chain.emit(effect)
