"""The app of these tests: it remembers what was applied, so that the state itself is the proof.

``act`` carries a number and leaves, per device, a count, the last number and a trail: a running hash in which every
number and its place counts. A lost, doubled or swapped action leaves another trail, and the state stays small.

``note`` carries (life, number) and is remembered by itself with its place. It is for devices that die and forget, of
which nobody knows beforehand what will be applied.

The others are reducers as bad as they come.
"""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Any

from octoloom import App, Reject
from octoloom.core.app import AppEvent

TRAIL_MODULUS = (1 << 53) - 111
REFUSED = 7
"""Every number that this divides is rejected, so that outcomes differ."""

app = App("ledger", state={"devices": {}, "notes": {}, "doubles": 0})


def follow(trail: int, number: int) -> int:
    return (trail * 1_000_003 + number) % TRAIL_MODULUS


@app.on("act")
def act(state: Any, event: AppEvent) -> None:
    number = event.payload
    before = state["devices"].get(event.device, {"count": 0, "last": 0, "trail": 0})
    trail = follow(before["trail"], number)
    # Written before it is refused: a rejection has to take it back.
    state["devices"][event.device] = {"count": before["count"] + 1, "last": number, "trail": trail}
    if number % REFUSED == 0:
        raise Reject("sevens are refused")


@app.on("note")
def note(state: Any, event: AppEvent) -> None:
    life, number = event.payload
    if event.device not in state["notes"]:
        state["notes"][event.device] = {}
    notes, key = state["notes"][event.device], f"{life}.{number}"
    if key in notes:
        state["doubles"] += 1
    notes[key] = len(notes)
    if number % REFUSED == 0:
        raise Reject("sevens are refused")


@app.on("raise")
def fail(state: Any, event: AppEvent) -> None:
    state["doubles"] = 1_000
    raise ZeroDivisionError("on purpose")


@app.on("spin")
def spin(state: Any, event: AppEvent) -> None:
    state["doubles"] = 1_000
    while True:
        pass


@app.on("exit")
def leave(state: Any, event: AppEvent) -> None:
    os._exit(3)


@app.on("kill")
def kill(state: Any, event: AppEvent) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.on("segfault")
def segfault(state: Any, event: AppEvent) -> None:
    ctypes.string_at(0)
