"""The slides' lunch: Ada asks "Done?", Bob thereupon "Lunch?", and Cathy answers both with "Yes, No".

Ada's line to Cathy is slow. Without an order Cathy reads "Lunch?" before "Done?", and in the causal order never. The
steps are those of the real filters.
"""

from __future__ import annotations

import msgspec

import octoloom.core.causal
import octoloom.core.unordered  # noqa: F401  # registers itself
from octoloom.core.filters import Delivery, OrderContext, OrderFilters, orders
from octoloom.core.group_messages import Cast
from octoloom.core.steps import CONCURRENT, PATH_CREATED, SENT, VIEW, Step

ADA, BOB, CATHY = MEMBERS = ("ada#1", "bob#1", "cathy#1")


class Table:
    """Members whose messages are carried by hand."""

    def __init__(self, order: str, members: tuple[str, ...] = MEMBERS, begin_ms: int = 1000) -> None:
        self.members, self.now, self.begin_ms = members, begin_ms, begin_ms
        self.steps: list[Step] = []
        self.casts: dict[tuple[str, int], Cast] = {}
        self.texts: dict[tuple[str, int], str] = {}
        for member in members:
            self._tell(Step(VIEW, member, members=list(members), epoch=1, text=order))
        self.filters = {member: self._filters(order, member) for member in members}

    def at(self, ms: int) -> Table:
        self.now = self.begin_ms + ms
        return self

    def says(self, member: str, text: str) -> None:
        number = 1 + sum(sender == member for sender, _ in self.casts)
        self.texts[member, number] = text
        self.filters[member].send.filter(Cast(1, member, number, []))

    def hears(self, member: str, sender: str, number: int) -> None:
        self.filters[member].receive.filter(self.casts[sender, number])

    def _filters(self, order: str, member: str) -> OrderFilters:
        made = orders.find(order)(OrderContext(member, self.members, {}, self._tell))
        made.send.processor = self._carry
        made.receive.processor = _drop
        return made

    def _carry(self, cast: Cast) -> None:
        self.casts[cast.sender, cast.number] = cast

    def _tell(self, step: Step) -> None:
        text = step.text if step.name in (CONCURRENT, PATH_CREATED, VIEW) else ""
        if step.name == SENT:
            text = self.texts[step.sender, step.number]
        self.steps.append(msgspec.structs.replace(step, at_ms=self.now, text=text))


def _drop(delivery: Delivery) -> None:
    pass


def lunch(order: str, skew_ms: dict[str, int] | None = None, timed: bool = True) -> list[Step]:
    table = Table(order)
    table.at(100).says(ADA, "Done?")
    table.at(120).hears(BOB, ADA, 1)
    table.at(900).says(BOB, "Lunch?")
    table.at(920).hears(ADA, BOB, 1)
    table.at(930).hears(CATHY, BOB, 1)
    table.at(2100).hears(CATHY, ADA, 1)
    table.at(3000).says(CATHY, "Yes, No")
    table.at(3020).hears(ADA, CATHY, 1)
    table.at(3025).hears(BOB, CATHY, 1)
    # Two who speak at once: neither has heard the other.
    table.at(4000).says(ADA, "Where?")
    table.at(4001).says(BOB, "Now!")
    table.at(4020).hears(BOB, ADA, 2)
    table.at(4030).hears(ADA, BOB, 2)
    table.at(4040).hears(CATHY, BOB, 2)
    table.at(4050).hears(CATHY, ADA, 2)
    skew_ms = skew_ms or {}
    return [
        msgspec.structs.replace(step, at_ms=step.at_ms + skew_ms.get(step.member, 0) if timed else 0)
        for step in table.steps
    ]
