"""Members of one view in a network that loses nothing and keeps no order, for the tests of orders.

`Twin` is the dumb twin: it keeps of every cast the full set of its causes, and decides everything by sets.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import octoloom.core.causal
import octoloom.core.fifo
import octoloom.core.stamps
import octoloom.core.unordered  # noqa: F401
from octoloom.core.filters import Delivery, OrderContext, orders
from octoloom.core.group_messages import Cast
from octoloom.core.steps import Step

Id = tuple[str, int]


class Site:
    """One member: its order, and what it gave on."""

    def __init__(
        self,
        order: str,
        me: str,
        members: Sequence[str] = "abc",
        counts: dict[str, int] | None = None,
        step: Callable[[Step], None] | None = None,
        **settings: Any,
    ) -> None:
        self.me = me
        self.counts = counts or {}
        self.order = orders.find(order)(OrderContext(me, list(members), self.counts, step, settings))
        self.sent: list[Cast] = []
        self.delivered: list[Delivery] = []
        self.order.send.processor = self.sent.append
        self.order.receive.processor = self.delivered.append

    def send(self, plain: bool = False) -> Cast:
        number = self.counts.get(self.me, 0) + len(self.sent) + 1
        self.order.send.filter(Cast(1, self.me, number, [], plain=plain))
        return self.sent[-1]

    def take(self, *casts: Cast) -> list[str]:
        """What each delivered in its turn, such as a1 for the first of a."""
        before = len(self.delivered)
        for cast in casts:
            self.order.receive.filter(cast)
        return self.texts()[before:]

    def texts(self) -> list[str]:
        return [f"{delivery.cast.sender}{delivery.cast.number}" for delivery in self.delivered]

    def ids(self) -> list[Id]:
        return [id_of(delivery.cast) for delivery in self.delivered]

    def past(self) -> list[Id]:
        """What it sent and delivered: the causes of what it sends next."""
        return [*map(id_of, self.sent), *self.ids()]


def sites(order: str, members: str = "abc", **settings: Any) -> list[Site]:
    return [Site(order, me, members, **settings) for me in members]


def id_of(cast: Cast) -> Id:
    return cast.sender, cast.number


class Twin:
    """What a member has delivered or sent, as a list; `causes` are all that a cast's sender had, as a set."""

    def __init__(self, causes: dict[Id, frozenset[Id]]) -> None:
        self.causes = causes
        self.past: list[Id] = []
        self.waiting: list[Id] = []

    def copy(self) -> Twin:
        twin = Twin(self.causes)
        twin.past, twin.waiting = self.past.copy(), self.waiting.copy()
        return twin

    def take(self, cast: Id) -> list[tuple[Id, list[Id]]]:
        """The casts that may be delivered now, in turn, each with those of its past that it is concurrent with."""
        self.waiting.append(cast)
        delivered = []
        while ready := [each for each in self.waiting if self.causes[each] <= set(self.past)]:
            self.waiting.remove(ready[0])
            delivered.append((ready[0], [each for each in self.past if each not in self.causes[ready[0]]]))
            self.past.append(ready[0])
        return delivered


class Run:
    """A random run: members send and deliver, and each arrival is one that its receiver has not had, of any sender."""

    def __init__(self, seed: int, order: str, **settings: Any) -> None:
        self.dice = random.Random(seed)
        members = "abcdef"[: self.dice.randint(2, 6)]
        self.sites = sites(order, members, **settings)
        self.causes: dict[Id, frozenset[Id]] = {}
        self.twins = [Twin(self.causes) for _ in members]
        self.flying: list[tuple[int, Cast]] = []
        self.talkative = self.dice.choice([0.1, 0.3, 0.6])

    def step(self, may_send: bool = True) -> tuple[int, Id] | None:
        """One send or one arrival; says where what arrived."""
        if may_send and (not self.flying or self.dice.random() < self.talkative):
            place = self.dice.randrange(len(self.sites))
            causes = frozenset(self.sites[place].past())
            cast = self.sites[place].send()
            self.causes[id_of(cast)] = causes
            self.twins[place].past.append(id_of(cast))
            self.flying += [(other, cast) for other in range(len(self.sites)) if other != place]
            return None
        # The newest first is the most hostile, but for luck.
        newest = self.dice.random() < 0.5
        place, cast = self.flying.pop(-1 if newest else self.dice.randrange(len(self.flying)))
        self.sites[place].take(cast)
        return place, id_of(cast)

    def to_the_end(self, sends: int = 30) -> None:
        for _ in range(sends):
            self.step()
        while self.flying:
            self.step(may_send=False)
