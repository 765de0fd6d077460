"""A game in one screen: hold as many cells as you can.

    octoloom up examples/arena.py:app --replicas 3
    python examples/watch.py ws://127.0.0.1:7080 arena

The rules look at nothing but the state and the event. Time and dice come with the event, so every replica, and every
replay, computes the same.
"""

from __future__ import annotations

from typing import Any

from octoloom import App, AppEvent, Reject

app = App("arena", state={"cells": {}, "scores": {}, "round": 1})

ROUND_MS = 60_000


@app.on_join
def enter(state: Any, event: AppEvent) -> None:
    if not state["scores"]:
        event.after(ROUND_MS, "bell")
    state["scores"].setdefault(event.device, 0)


@app.on_leave
def leave(state: Any, event: AppEvent) -> None:
    for cell in [cell for cell, holder in sorted(state["cells"].items()) if holder == event.device]:
        del state["cells"][cell]


@app.on("claim")
def claim(state: Any, event: AppEvent) -> None:
    """A free cell is yours; one that somebody holds is yours if the dice say so."""
    cell = event.payload["cell"]
    holder = state["cells"].get(cell)
    if holder == event.device:
        raise Reject("yours already")
    if holder is not None and event.random.random() < 0.5:
        raise Reject(f"{holder} defends it")
    state["cells"][cell] = event.device
    state["scores"][event.device] += 1


@app.on("bell")
def bell(state: Any, event: AppEvent) -> None:
    """The timer that `enter` set: a new round begins, and sets the next one."""
    if not event.device.startswith("@"):
        raise Reject("only the clock rings the bell")
    state["round"] += 1
    state["cells"] = {}
    event.after(ROUND_MS, "bell")
