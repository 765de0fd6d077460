"""What one small change costs, from the reducer's write to a replica that has it, by the size of the state.

The promise is that the last column stays near 1: a change costs its own size, not the state's.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter_ns
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from octoloom.core.merge_patch import apply
from octoloom.core.recorder import Recorder

SIZES = {"1 KB": 1_000, "10 KB": 10_000, "100 KB": 100_000, "1 MB": 1_000_000, "10 MB": 10_000_000}
CELL_SIZE = 23
ROUNDS, CHANGES_PER_ROUND = 25, 200


def state_of(size: int) -> dict[str, Any]:
    """A board whose JSON text has about `size` bytes: many cells, some of them objects."""
    cells = {f"c{number:06}": {"by": f"p{number % 50:02}"} for number in range(size // CELL_SIZE)}
    return {"cells": cells, "turn": 0}


def change(recorder: Recorder, replica: dict[str, Any], turn: int, cells: int) -> None:
    """One event: two writes, the patch, its text, and a replica that parses and applies it."""
    cell = f"c{turn * 7919 % cells:06}"
    recorder.begin()
    recorder.state["turn"] = turn
    recorder.state["cells"][cell]["by"] = f"q{turn}"
    recorder.keep()
    _, patch = recorder.take()
    apply(replica, msgspec.json.decode(msgspec.json.encode(patch)))


def cost_us(size: int) -> tuple[int, float]:
    """(bytes of the state's text, microseconds per change)"""
    state = state_of(size)
    recorder, replica, cells = Recorder(state), state, len(state["cells"])
    rounds = []
    for number in range(ROUNDS):
        start = perf_counter_ns()
        for turn in range(number * CHANGES_PER_ROUND, (number + 1) * CHANGES_PER_ROUND):
            change(recorder, replica, turn + 1, cells)
        rounds.append((perf_counter_ns() - start) / CHANGES_PER_ROUND / 1_000)
    assert replica == recorder.state, "the replica has what the recorder has"
    return len(msgspec.json.encode(replica)), median(rounds)


def main() -> None:
    table = Table("state", "bytes", "µs per change", "ratio to 1 KB", title="One small change")
    base = 0.0
    for name, size in SIZES.items():
        length, cost = cost_us(size)
        base = base or cost
        table.add_row(name, f"{length:,}", f"{cost:.1f}", f"{cost / base:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
