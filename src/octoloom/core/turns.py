"""What all orders share: they take casts in any sequence and hand on each in its turn.

An order says of each cast which one thing it lacks: a (place, count), the `count`-th cast of the member at that place
in the view. A cast that lacks nothing is delivered at once. Another is held under what it lacks, and is looked at again
when that has been delivered, and only then: waking costs the same however many are held. Invariants:

1. `vector` counts what was delivered here of each member, and one's own casts once they are sent;
2. each held cast is filed under exactly one (place, count), which has not been delivered yet;
3. each delivery raises one count by one, so that no (place, count) is ever passed over;
4. a cast that is refused changes nothing.

A cast of one's own never comes to `receive`. Casts that pass by the order (`plain`) were shown at once by the layer
above; here they are counted in their turn like all others.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from octoloom.core.errors import ProtocolError
from octoloom.core.filters import HELD_MAX, Delivery, Filter, OrderContext, TooManyHeld
from octoloom.core.group_messages import Cast
from octoloom.core.steps import (
    BUFFERED,
    COUNT_INCREMENTED,
    DELIVERED,
    RECEIVED,
    SENT,
    UNBUFFERED,
    USER_ADDED,
    VECTOR_CREATED,
    Step,
)

Taken = TypeVar("Taken")
Given = TypeVar("Given")

Lack = tuple[int, int]
"""(place in the view, count)"""
ANYBODY = -1
"""The place of whoever comes next, for orders that do not know who that will be."""


class Stage(Generic[Taken, Given]):
    """A filter whose work is done by a function of its pair, through which the two share their state."""

    __slots__ = ("filter", "processor")

    def __init__(self, work: Callable[[Taken], None]) -> None:
        self.filter = work
        self.processor: Callable[[Given], None] = _nowhere


def _nowhere(given: object) -> None:
    raise AssertionError(f"a filter without a processor hands on {given!r}")


class Turns:
    """An order for one view. What differs from order to order is below: `stamp`, `check`, `lack` and `deliver`."""

    def __init__(self, context: OrderContext) -> None:
        self.context = context
        self.names = list(context.members)
        self.places = {name: place for place, name in enumerate(self.names)}
        self.mine = self.places[context.me]
        self.begin = [context.counts.get(name, 0) for name in self.names]
        self.vector = self.begin.copy()
        self.send: Filter[Cast, Cast] = Stage(self._send)
        self.receive: Filter[Cast, Delivery] = Stage(self._receive)
        self._held_max: int = context.settings.get("held_max", HELD_MAX)
        self._held: OrderedDict[tuple[int, int], Lack] = OrderedDict()
        """What each lacks, by (place of the sender, number), oldest first. An OrderedDict finds its first in O(1)."""
        self._waiting: dict[Lack, list[Cast]] = {}
        self._tells = context.step is not None
        if self._tells:
            self._tell_beginning()

    @property
    def held(self) -> int:
        return len(self._held)

    def waits_for(self) -> tuple[str, int] | None:
        for lack in self._held.values():
            return self.named(lack)
        return None

    def delivered(self) -> Sequence[int] | None:
        return self.vector

    def named(self, lack: Lack) -> tuple[str, int]:
        place, count = lack
        return ("anybody" if place == ANYBODY else self.names[place], count)

    def snapshot(self) -> tuple[list[int], list[Cast]]:
        """The vector, and what is held back, oldest first: with the view, all that `fifo` and `causal` remember."""
        casts = {(cast.sender, cast.number): cast for waiting in self._waiting.values() for cast in waiting}
        return self.vector.copy(), [casts[self.names[place], number] for place, number in self._held]

    def restore(self, vector: Sequence[int], held: Iterable[Cast]) -> None:
        """Go on from a snapshot, right after being made for the same view."""
        self.vector[:] = vector
        for cast in held:
            place = self.places[cast.sender]
            lack = self.lack(place, cast)
            assert lack is not None, "what is held lacks something"
            self._hold(place, cast, lack)

    # What an order decides.

    def stamp(self, cast: Cast) -> list[int]:
        """For a cast of one's own, which is counted already. It belongs to the cast: nothing may change it later."""
        return []

    def check(self, place: int, cast: Cast) -> None:
        """Refuse a stamp that cannot be, before anything changes."""

    def lack(self, place: int, cast: Cast, last: Lack | None = None) -> Lack | None:
        """What the cast waits for. `last` is what it waited for before, which is there now."""
        previous = cast.number - 1
        return (place, previous) if self.vector[place] < previous else None

    def deliver(self, place: int, cast: Cast) -> Delivery:
        """Count the cast."""
        self.vector[place] = cast.number
        return Delivery(cast)

    def reached(self, place: int, number: int) -> list[Cast]:
        """Who waited for this cast, and is now no longer filed."""
        return self._waiting.pop((place, number), [])

    # The two ways.

    def _send(self, cast: Cast) -> None:
        vector, mine = self.vector, self.mine
        assert (cast.sender, cast.number) == (self.context.me, vector[mine] + 1), "one's own casts come in sequence"
        vector[mine] = cast.number
        if self._tells:
            self.tell(COUNT_INCREMENTED, cast)
        stamped = Cast(cast.epoch, cast.sender, cast.number, cast.bundles, self.stamp(cast), cast.plain)
        if self._tells:
            self.tell(SENT, cast)
        self.send.processor(stamped)
        if self._waiting:
            self._wake(self.mine, cast.number)

    def _receive(self, cast: Cast) -> None:
        place = self.place_of(cast)
        self.check(place, cast)
        lack = self.lack(place, cast)
        if lack is not None and len(self._held) >= self._held_max:
            member, count = self.waits_for() or self.named(lack)
            raise TooManyHeld(f"{len(self._held)} casts are held back: the oldest waits for cast {count} of {member}")
        if self._tells:
            self.tell(RECEIVED, cast)
        if lack is None:
            self._hand_on(place, cast)
            if self._waiting:
                self._wake(place, cast.number)
        else:
            self._hold(place, cast, lack)

    def place_of(self, cast: Cast) -> int:
        """Where the sender stands in the view; refuses who does not, and what is here already."""
        place = self.places.get(cast.sender)
        if place is None:
            raise ProtocolError("not-a-member", f"{cast.sender} is not in this view")
        if cast.number <= self.vector[place] or (place, cast.number) in self._held:
            raise ProtocolError("old-number", f"cast {cast.number} of {cast.sender} is here already")
        if place == self.mine:
            raise ProtocolError("own-cast", f"cast {cast.number} was never sent by {cast.sender}")
        return place

    def _hold(self, place: int, cast: Cast, lack: Lack) -> None:
        self._held[place, cast.number] = lack
        self._waiting.setdefault(lack, []).append(cast)
        if self._tells:
            self.tell(BUFFERED, cast, self.named(lack))

    def _wake(self, place: int, number: int) -> None:
        """Look again at what waited for this cast, and so on, without recursion: chains may be long."""
        woken = deque(self.reached(place, number))
        while woken:
            cast = woken.popleft()
            key = place, number = self.places[cast.sender], cast.number
            lack = self.lack(place, cast, self._held[key])
            if lack is not None:
                self._hold(place, cast, lack)
                continue
            del self._held[key]
            if self._tells:
                self.tell(UNBUFFERED, cast)
            self._hand_on(place, cast)
            woken.extend(self.reached(place, number))

    def _hand_on(self, place: int, cast: Cast) -> None:
        delivery = self.deliver(place, cast)
        if self._tells:
            self.tell(DELIVERED, cast)
        self.receive.processor(delivery)

    # Telling the steps.

    def tell(self, name: str, cast: Cast, waits_for: tuple[str, int] | None = None, text: str = "") -> None:
        step = self.context.step
        if step is not None:
            vector = dict(zip(self.names, self.vector, strict=True))
            step(Step(name, self.context.me, cast.sender, cast.number, vector, waits_for, epoch=cast.epoch, text=text))

    def _tell_beginning(self) -> None:
        step, me = self.context.step, self.context.me
        assert step is not None
        step(Step(VECTOR_CREATED, me))
        for place, name in enumerate(self.names):
            vector = dict(zip(self.names[: place + 1], self.begin, strict=False))
            step(Step(USER_ADDED, me, sender=name, vector=vector))
