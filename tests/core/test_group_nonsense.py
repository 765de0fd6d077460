"""Random nonsense from a member: whatever it says, the others refuse it in the words of the protocol, or ignore it.

Who lies well enough can still do harm, for members of a group trust each other. But nobody's process ends by it.
"""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from octoloom.core.errors import ProtocolError
from octoloom.core.group_messages import (
    Acked,
    Bundle,
    Cast,
    Cut,
    Delay,
    Direct,
    Fetch,
    Fill,
    Forward,
    Have,
    Install,
    Nak,
    Numbered,
    Part,
    Ready,
    Refused,
    Reliable,
    Report,
    Resent,
    Stable,
    State,
)
from tests.core.group_table import table_of, view_of


class Liar:
    """Parts whose every field is drawn from what is nearly right and what is not at all."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    def name(self) -> str:
        return self.dice.choice("AABBCCX")

    def number(self) -> int:
        return self.dice.choice([-(2**40), -1, 0, 1, 1, 2, 2, 3, 4, 5, 1_000])

    def epoch(self) -> int:
        return self.dice.choice([0, 1, 1, 2, 2, 3])

    def numbers(self) -> list[int]:
        return [self.number() for _ in range(self.dice.choice([0, 1, 2, 3, 3, 3, 4]))]

    def bundles(self) -> list[Bundle]:
        return [Bundle(self.name(), self.number(), 1, b"lie") for _ in range(self.dice.choice([0, 1, 1, 2]))]

    def cast(self) -> Cast:
        plain = self.dice.random() < 0.2
        return Cast(self.epoch(), self.name(), self.number(), self.bundles(), self.numbers(), plain)

    def casts(self) -> list[Cast]:
        return [self.cast() for _ in range(self.dice.randrange(3))]

    def holdings(self) -> dict[str, tuple[int, list[int]]]:
        return {self.name(): (self.number(), self.numbers()) for _ in range(self.dice.randrange(4))}

    def install(self) -> Install:
        view = view_of(
            self.dice.choice(["A B C", "A B", "B C", "X", ""]), self.epoch(), self.dice.choice(["fifo", "?"])
        )
        vector = {self.name(): (self.number(), self.number()) for _ in range(self.dice.randrange(6))}
        return Install(view, self.epoch(), self.holdings(), vector, [self.name()])

    def reliable(self) -> Reliable:
        installed = self.install() if self.dice.random() < 0.7 else None
        parts: list[Reliable] = [
            Forward(self.epoch(), self.bundles()),
            Refused(self.epoch(), "no", "no"),
            Direct(b"lie"),
            Delay(self.dice.choice([-1, 0, 5])),
            Report(self.epoch(), installed, self.holdings(), self.dice.random() < 0.3),
            Fetch(self.epoch(), [(self.name(), self.number())]),
            Fill(self.epoch(), self.casts()),
            Cut(self.epoch(), self.holdings()),
            Ready(self.epoch()),
            self.install(),
            State(self.epoch(), b"lie"),
        ]
        return self.dice.choice(parts)

    def part(self, next_number: int) -> Part:
        parts: list[Part] = [
            self.cast(),
            Resent(self.casts()),
            Nak(self.epoch(), [(self.name(), self.number(), self.number())]),
            Have(self.epoch(), self.numbers()),
            Stable(self.epoch(), self.numbers(), self.numbers()),
            Acked(self.number()),
        ]
        if self.dice.random() < 0.6:
            return Numbered(next_number if self.dice.random() < 0.9 else self.number(), self.reliable())
        return self.dice.choice(parts)


@pytest.mark.parametrize("order", ["none", "fifo", "causal", "total"])
def test_nonsense_ends_nobodys_process(order: str) -> None:
    for seed in range(100):
        dice = random.Random(seed)
        table = table_of("A B C", order)
        table.send("A", "1 2")
        table.send("B", "3")
        table.run(dice.choice([0, 100]))
        to, liar = dice.choice([("A", "B"), ("A", "C"), ("B", "A"), ("C", "A"), ("B", "C")])
        if dice.random() < 0.6:
            table.hold(liar, to)
            table.view("A B C")
        words = Liar(dice)
        unicast = table[to].speech._with(liar)
        for _ in range(40):
            with suppress(ProtocolError):
                table.hand(to, liar, words.part(unicast._next))
            if dice.random() < 0.1:
                table.send(to, "x")
            if dice.random() < 0.1:
                table.run(dice.choice([0, 30]))
        table.view("A B C".replace(liar, "").replace("  ", " ").strip(), ms=50)
