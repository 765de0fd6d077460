"""SEQUENCER: one order for all, through a coordinator.

A member forwards what it sends to the coordinator, which casts it on its behalf. Only the coordinator casts, its casts
arrive in sequence, and so everybody has the same order; the origin travels in the bundle.

- The *forward-table* holds what a member sent and has not got back yet, by number.
- The *received-table* holds the highest number delivered of each origin. It is the same at all members wherever a view
  begins, so whoever becomes coordinator knows what to expect of everybody.

1. The coordinator admits an origin's bundles in sequence, so none ever passes another, and the highest number is
   enough to drop what comes twice.
2. A bundle leaves the forward-table when it is delivered here. From then on it is kept with the cast that brought it,
   until all members have that.
3. When a view ends, everything of it that any survivor has is delivered at all of them before the next begins. What is
   in the forward-table then was not ordered, and nobody will deliver it: it is forwarded again, in order and ahead of
   new sends, and cannot come twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from octoloom.core.errors import ProtocolError
from octoloom.core.filters import HELD_MAX, Delivery, Forwarder, OrderContext, TooManyHeld, orders
from octoloom.core.group_messages import Bundle, Cast


class CoordinatorFirst:
    """The receive filter: the coordinator's casts in sequence. Other members' casts are all plain."""

    def __init__(self, coordinator: str, count: int) -> None:
        self.processor: Callable[[Delivery], None]
        self._coordinator = coordinator
        self._delivered = count
        self._held: dict[int, Cast] = {}

    @property
    def held(self) -> int:
        return len(self._held)

    def waits_for(self) -> tuple[str, int] | None:
        return (self._coordinator, self._delivered + 1) if self._held else None

    def filter(self, message: Cast) -> None:
        if message.sender != self._coordinator:
            if not message.plain:
                raise ProtocolError("not-coordinator", f"{message.sender} casts, {self._coordinator} is coordinator")
            self.processor(Delivery(message))
            return
        if message.number <= self._delivered:
            raise ProtocolError("old-number", f"cast {message.number} of {message.sender} was delivered already")
        if message.number > self._delivered + 1:
            self._hold(message)
            return
        self._deliver(message)
        while self._held and self._delivered + 1 in self._held:
            self._deliver(self._held.pop(self._delivered + 1))

    def _hold(self, message: Cast) -> None:
        if len(self._held) >= HELD_MAX:
            raise TooManyHeld(f"{HELD_MAX} casts wait for {self._coordinator}:{self._delivered + 1}")
        self._held[message.number] = message

    def _deliver(self, message: Cast) -> None:
        self._delivered = message.number
        self.processor(Delivery(message))


class TotalOrder:
    """The pair of filters. Nothing is stamped: the coordinator's numbers are the order."""

    def __init__(self, context: OrderContext) -> None:
        coordinator = context.members[0]
        self.send: Forwarder[Cast] = Forwarder()
        self.receive = CoordinatorFirst(coordinator, context.counts[coordinator])

    @property
    def held(self) -> int:
        return self.receive.held

    def waits_for(self) -> tuple[str, int] | None:
        return self.receive.waits_for()

    def delivered(self) -> Sequence[int] | None:
        return None


orders.add("total", TotalOrder)


class ForwardTable:
    """What this member has sent to be ordered and has not got back yet, in the order of its numbers."""

    def __init__(self) -> None:
        self._bundles: dict[int, Bundle] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._bundles)

    def add(self, bundle: Bundle) -> None:
        self._bundles[bundle.number] = bundle
        self.size += len(bundle.payload)

    def remove(self, number: int) -> None:
        bundle = self._bundles.pop(number, None)
        if bundle is not None:
            self.size -= len(bundle.payload)

    def bundles(self) -> list[Bundle]:
        return list(self._bundles.values())

    def take_all(self) -> list[Bundle]:
        bundles = self.bundles()
        self._bundles.clear()
        self.size = 0
        return bundles


class Admission:
    """The coordinator's side: whose bundle is next. Begins, with each view, at the received-table."""

    def __init__(self, received: dict[str, int]) -> None:
        self._admitted = dict(received)

    def admit(self, origin: str, bundles: Sequence[Bundle]) -> list[Bundle]:
        """Those that are new. A gap or a foreign origin is the peer's fault, and then none is taken."""
        last = self._admitted.get(origin, 0)
        new = [bundle for bundle in bundles if bundle.number > last]
        for bundle in new:
            last += 1
            if bundle.origin != origin or bundle.number != last:
                detail = f"{origin} forwarded {bundle.origin}:{bundle.number} where its {last} is next"
                raise ProtocolError("forged-sequence", detail)
        self._admitted[origin] = last
        return new
