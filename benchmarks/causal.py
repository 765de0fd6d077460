"""What causal order costs per message, by the number of members and by how many casts are held back.

The promise is that the ratios stay near 1: a held cast waits on the one thing that it lacks, and nobody else looks at
it. The cost grows with the members, for a stamp counts each of them.

- *passes*: a cast that may be delivered at once, one third of them concurrent with others;
- *waits*: a cast that comes before its cause, is held, and is released by it (the cause's own passing included);
- *released*: one of all those that were held from the beginning, when what they lack arrives at last.
"""

from __future__ import annotations

import gc
from time import perf_counter_ns

from rich.console import Console
from rich.table import Table

from octoloom.core.causal import Causal
from octoloom.core.filters import Delivery, OrderContext
from octoloom.core.group_messages import Cast

MEMBERS = (8, 64, 256)
HELD = (16, 256, 4_096, 65_536)
READERS, ROUNDS, CASTS_PER_ROUND = 3, 10, 400
SLOW = 0
"""The place of the member whose first cast is late, so that all its others are held."""


class Reader:
    """A member that only reads, with `held` casts held back. It is the last of the view."""

    def __init__(self, members: int, held: int) -> None:
        self.names = [f"m{number:03}#1" for number in range(members)]
        context = OrderContext(self.names[-1], self.names, {}, settings={"held_max": held + CASTS_PER_ROUND})
        self.order = Causal(context)
        self.delivered = 0
        self.order.receive.processor = self._count
        self.vector = [0] * members
        self.turn = 0
        for number in range(2, held + 2):
            self.order.receive.filter(self.slow(number))
        # Until all have spoken nobody can have missed anything.
        for _ in range(2 * members):
            self.order.receive.filter(self.next_cast())
        assert self.order.held == held

    def _count(self, delivery: Delivery) -> None:
        self.delivered += 1

    def slow(self, number: int) -> Cast:
        stamp = [0] * len(self.names)
        stamp[SLOW] = number
        return Cast(1, self.names[SLOW], number, [], stamp)

    def next_cast(self) -> Cast:
        """The others talk in turn; every third has not seen the last two."""
        self.turn += 1
        others = len(self.names) - 2
        place = 1 + self.turn % others
        unseen = (
            [1 + (self.turn - back) % others for back in (1, 2)] if self.turn > others and self.turn % 3 == 0 else []
        )
        self.vector[place] += 1
        stamp = self.vector.copy()
        for other in unseen:
            stamp[other] -= other != place
        return Cast(1, self.names[place], self.vector[place], [], stamp)

    def next_chain(self) -> Cast:
        """A cast that has seen all before it."""
        self.turn += 1
        place = 1 + self.turn % (len(self.names) - 2)
        self.vector[place] += 1
        return Cast(1, self.names[place], self.vector[place], [], self.vector.copy())

    def timed_us(self, casts: list[Cast]) -> float:
        """Microseconds per cast."""
        take, before = self.order.receive.filter, self.delivered
        start = perf_counter_ns()
        for cast in casts:
            take(cast)
        took = perf_counter_ns() - start
        assert self.delivered == before + len(casts), "all of them were delivered"
        return took / len(casts) / 1_000

    def release_us(self, held: int) -> float:
        """What all that were held from the beginning lack comes at last: microseconds per cast."""
        before, late = self.delivered, self.slow(1)
        start = perf_counter_ns()
        self.order.receive.filter(late)
        took = perf_counter_ns() - start
        assert (self.order.held, self.delivered) == (0, before + held + 1), "all of them were released"
        return took / (held + 1) / 1_000


def costs_us(members: int, held: int) -> tuple[float, float, float]:
    """The best of all rounds: what disturbs only ever adds."""
    passes, waits, released = [], [], []
    for _ in range(READERS):
        gc.collect()
        reader = Reader(members, held)
        for _ in range(ROUNDS):
            passes.append(reader.timed_us([reader.next_cast() for _ in range(CASTS_PER_ROUND)]))
            chain = [reader.next_chain() for _ in range(CASTS_PER_ROUND)]
            swapped = [cast for start in range(0, CASTS_PER_ROUND, 2) for cast in (chain[start + 1], chain[start])]
            # Half of them wait: what two cost is what one that waits and its cause cost.
            waits.append(2 * reader.timed_us(swapped))
        released.append(reader.release_us(held))
    return min(passes), min(waits), min(released)


def main() -> None:
    console = Console()
    table = Table("members", "held", "passes µs", "waits µs", "released µs", "ratios to 16 held", title="One cast")
    for members in MEMBERS:
        base: tuple[float, ...] = ()
        for held in HELD:
            costs = costs_us(members, held)
            base = base or costs
            ratios = "  ".join(f"{cost / first:.2f}" for cost, first in zip(costs, base, strict=True))
            table.add_row(f"{members}", f"{held:,}", *(f"{cost:.2f}" for cost in costs), ratios)
    console.print(table)


if __name__ == "__main__":
    main()
