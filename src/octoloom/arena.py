"""The game of the demo: players hold the cells of a board, and may take them from each other.

It is what `octoloom up` runs when no app is named.
"""

from __future__ import annotations

from typing import Any

from octoloom.core.app import App, AppEvent, Reject

CELLS = [f"{column}{row}" for row in range(1, 9) for column in "abcdefghijkl"]
TRAIL_MAX = 2**31 - 1

app = App("arena", state={"cells": {}, "players": {}})


def follow_trail(trail: int, number: int) -> int:
    """A checksum over the numbers of a player's moves. One move more, one less or two swapped give another."""
    return (trail * 31 + number) % TRAIL_MAX


@app.on_join
def enter(state: Any, event: AppEvent) -> None:
    state["players"].setdefault(event.device, {"cells": 0, "moves": 0, "trail": 0})


@app.on("claim")
def claim(state: Any, event: AppEvent) -> None:
    """A free cell is yours; one that somebody holds is yours if the dice say so."""
    cell, cells, players = event.payload["cell"], state["cells"], state["players"]
    if cell not in CELLS:
        raise Reject("off the board")
    holder = cells.get(cell)
    if holder == event.device:
        raise Reject("yours already")
    if holder and event.random.random() < 0.5:
        raise Reject("well defended")
    if holder:
        players[holder]["cells"] -= 1
    cells[cell] = event.device
    me = players[event.device]
    me["cells"] += 1
    me["moves"] += 1
    me["trail"] = follow_trail(me["trail"], event.payload["number"])
