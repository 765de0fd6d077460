"""No order: every cast is delivered as it arrives.

The default of the slides, which forwards. It shows what the others are for, and it is right for messages of which only
the newest counts, such as where somebody points. What is delivered is still counted, so that a cast that lies before
the view or was there already is refused: per sender only the numbers beyond a hole are kept, at most `HELD_MAX` in all.
"""

from __future__ import annotations

from octoloom.core.errors import ProtocolError
from octoloom.core.filters import Delivery, OrderContext, TooManyHeld, orders
from octoloom.core.group_messages import Cast
from octoloom.core.steps import DELIVERED, RECEIVED
from octoloom.core.turns import Turns


class Unordered(Turns):
    def __init__(self, context: OrderContext) -> None:
        super().__init__(context)
        self._beyond: set[tuple[int, int]] = set()
        """(place, number) of what was delivered although one before it is missing."""

    def _receive(self, cast: Cast) -> None:
        place = self.place_of(cast)
        if (place, cast.number) in self._beyond:
            raise ProtocolError("old-number", f"cast {cast.number} of {cast.sender} is here already")
        if cast.number != self.vector[place] + 1 and len(self._beyond) >= self._held_max:
            text = f"{len(self._beyond)} casts came out of sequence"
            raise TooManyHeld(f"{text}: {cast.sender}'s cast {self.vector[place] + 1} is missing")
        if self._tells:
            self.tell(RECEIVED, cast)
        self._count(place, cast.number)
        if self._tells:
            self.tell(DELIVERED, cast)
        self.receive.processor(Delivery(cast))

    def _count(self, place: int, number: int) -> None:
        vector, beyond = self.vector, self._beyond
        if number != vector[place] + 1:
            beyond.add((place, number))
            return
        vector[place] = number
        while beyond and (place, vector[place] + 1) in beyond:
            vector[place] += 1
            beyond.remove((place, vector[place]))


orders.add("none", Unordered)
