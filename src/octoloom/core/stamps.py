"""The simpler stamps of the slides, on the way to vector time. They work, until they do not.

- `history`: the ids of all causes. Exact, but it grows with every message. When it is longer than `HISTORY_MAX` it is
  compressed to the newest of each member, which stands for those before it: by then it is a vector, written as pairs.
- `scalar`: one logical clock. A send moves it on, a delivery sets it, and a message is delivered if it shows the next
  time. That is enough while nothing is concurrent. Two concurrent messages show the same time: by the letter (setting
  `late` = `hold`) the second is held for ever. Delivered late (the default) it is flagged; but who saw both and answers
  shows only one tick more, so that the answer can come before one of its causes.
- `last-sender`: the last message that the sender received. Of several causes it names only one; the others may come
  after their effect. It cannot tell what is concurrent.

All of them also wait for the one before of the same sender, whose number is in the cast anyway, so that counts hold.
"""

from __future__ import annotations

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.filters import Delivery, OrderContext, orders
from octoloom.core.group_messages import Cast
from octoloom.core.steps import CONCURRENT
from octoloom.core.turns import ANYBODY, Lack, Turns
from octoloom.core.vector_time import ahead

HISTORY_MAX = 256
"""How many ids a history has at most, unless there are more members."""


class History(Turns):
    """stamp: place, number, place, number… of the causes, oldest first."""

    def __init__(self, context: OrderContext) -> None:
        super().__init__(context)
        self._history: list[tuple[int, int]] = []
        self._ids_max = max(HISTORY_MAX, len(self.names))

    def stamp(self, cast: Cast) -> list[int]:
        flat = [each for cause in self._history for each in cause]
        self._remember(self.mine, cast.number)
        return flat

    def check(self, place: int, cast: Cast) -> None:
        stamp = cast.stamp
        if len(stamp) % 2 or len(stamp) > 2 * self._ids_max:
            raise ProtocolError("bad-stamp", f"a history of {len(stamp)} numbers is not one")
        for other, number in pairs(stamp):
            check_cause(self, place, cast, other, number)

    def lack(self, place: int, cast: Cast, last: Lack | None = None) -> Lack | None:
        vector = self.vector
        for other, number in pairs(cast.stamp):
            if number > vector[other]:
                return other, number
        return super().lack(place, cast)

    def deliver(self, place: int, cast: Cast) -> Delivery:
        seen = self.begin.copy()
        for other, number in pairs(cast.stamp):
            seen[other] = max(seen[other], number)
        seen[place] = cast.number
        unseen = tuple([(self.names[k], seen[k] + 1, self.vector[k]) for k in ahead(self.vector, seen)])
        self.vector[place] = cast.number
        self._remember(place, cast.number)
        if unseen and self._tells:
            self.tell(CONCURRENT, cast)
        return Delivery(cast, unseen)

    def _remember(self, place: int, number: int) -> None:
        self._history.append((place, number))
        if len(self._history) > self._ids_max:
            newest = dict(self._history)
            self._history = list(newest.items())


class Scalar(Turns):
    """stamp: the time that the sender's clock shows after the send."""

    def __init__(self, context: OrderContext) -> None:
        super().__init__(context)
        late = context.settings.get("late", "deliver")
        if late not in ("deliver", "hold"):
            raise UsageError(f"late casts cannot be {late!r}: use deliver or hold")
        self._holds_late = late == "hold"
        self._clock = 0

    def stamp(self, cast: Cast) -> list[int]:
        self._clock += 1
        return [self._clock]

    def check(self, place: int, cast: Cast) -> None:
        # A clock shows at least what its owner has sent in this view.
        if len(cast.stamp) != 1 or cast.stamp[0] < cast.number - self.begin[place]:
            raise ProtocolError("bad-stamp", f"{cast.stamp} is no time of cast {cast.number} of {cast.sender}")

    def lack(self, place: int, cast: Cast, last: Lack | None = None) -> Lack | None:
        before = cast.stamp[0] - 1
        if before > self._clock or (self._holds_late and before < self._clock):
            return ANYBODY, before
        return super().lack(place, cast)

    def deliver(self, place: int, cast: Cast) -> Delivery:
        is_late = cast.stamp[0] <= self._clock
        unseen = self._unseen(place) if is_late else ()
        self._clock = max(self._clock, cast.stamp[0])
        self.vector[place] = cast.number
        if is_late and self._tells:
            self.tell(CONCURRENT, cast)
        return Delivery(cast, unseen)

    def _unseen(self, place: int) -> tuple[tuple[str, int, int], ...]:
        """It is concurrent with something of somebody: a clock cannot say more, so the last of each is named."""
        others = [k for k, begin in enumerate(self.begin) if k != place and self.vector[k] > begin]
        return tuple([(self.names[k], self.vector[k], self.vector[k]) for k in others])

    def reached(self, place: int, number: int) -> list[Cast]:
        return super().reached(place, number) + self._waiting.pop((ANYBODY, self._clock), [])


class LastSender(Turns):
    """stamp: the place and number of the last cast that the sender received, nothing if there is none."""

    def __init__(self, context: OrderContext) -> None:
        super().__init__(context)
        self._last: list[int] = []

    def stamp(self, cast: Cast) -> list[int]:
        return self._last.copy()

    def check(self, place: int, cast: Cast) -> None:
        if len(cast.stamp) not in (0, 2):
            raise ProtocolError("bad-stamp", f"{cast.stamp} is no last cast")
        for other, number in pairs(cast.stamp):
            check_cause(self, place, cast, other, number)

    def lack(self, place: int, cast: Cast, last: Lack | None = None) -> Lack | None:
        # The slides want the count to be the same. More than that is fine: it was received, and others after it.
        for other, number in pairs(cast.stamp):
            if number > self.vector[other]:
                return other, number
        return super().lack(place, cast)

    def deliver(self, place: int, cast: Cast) -> Delivery:
        self._last = [place, cast.number]
        return super().deliver(place, cast)


def pairs(flat: list[int]) -> list[tuple[int, int]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def check_cause(turns: Turns, place: int, cast: Cast, other: int, number: int) -> None:
    """Refuse a cause that cannot be: of nobody, of before the view, of mine that I never sent, or no cause at all."""
    if not 0 <= other < len(turns.names) or number <= turns.begin[other]:
        raise ProtocolError("bad-stamp", f"cast {cast.number} of {cast.sender} names a cause that is none")
    if other == turns.mine and number > turns.vector[other]:
        raise ProtocolError("bad-stamp", f"{cast.sender} names cast {number} of mine")
    if other == place and number >= cast.number:
        raise ProtocolError("bad-stamp", f"cast {cast.number} of {cast.sender} names cast {number} as its cause")


orders.add("history", History)
orders.add("scalar", Scalar)
orders.add("last-sender", LastSender)
