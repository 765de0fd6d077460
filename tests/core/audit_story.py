"""A game whose history has all that a journal can hold: moves, refusals, failures, events that wait, timers, joins.

`history` plays it with the real worker, and gives the entries as the head would publish them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from octoloom.core.app import App, AppEvent, Reject
from octoloom.core.event import Change, Event, JournalEntry, Kill
from tests.spark.journals import Move, Play

Entries = list[tuple[int, JournalEntry]]


def make_app(step: int = 1, patience: int = 3, fuse_ms: int = 500, refusal: str = "seven is taken") -> App:
    """`step` is what a move adds, `patience` how far the count must be for an event that waits to go on."""
    app = App("story", state={"count": 0, "by": {}})

    @app.on("move")
    def move(state: Any, event: AppEvent) -> None:
        if event.payload["square"] == 7:
            raise Reject(refusal)
        state["count"] += step
        state["by"][event.device] = state["by"].get(event.device, 0) + event.random.randrange(1, 7)

    @app.on("wait")
    def wait(state: Any, event: AppEvent) -> None:
        if state["count"] < event.payload["until"] + patience:
            event.defer()
        state["waited"] = event.sequencer

    @app.on("fuse")
    def fuse(state: Any, event: AppEvent) -> None:
        if event.payload["wet"] and "fuse" in state:
            event.cancel(state["fuse"])
        state["fuse"] = event.after(fuse_ms, "bang", {"by": event.device})

    @app.on("bang")
    def bang(state: Any, event: AppEvent) -> None:
        state["bangs"] = state.get("bangs", 0) + 1

    @app.on("fail")
    def fail(state: Any, event: AppEvent) -> None:
        state["count"] = 0
        state["by"][event.payload["nobody"]] += 1

    @app.on_join
    def join(state: Any, event: AppEvent) -> None:
        state["by"].setdefault(event.device, 0)

    return app


def moves(dice: random.Random, device: str, number: int) -> Move:
    drawn = dice.random()
    if drawn < 0.65:
        return "move", {"square": dice.randrange(9)}
    if drawn < 0.8:
        return "wait", {"until": 2 * number}
    if drawn < 0.95:
        return "fuse", {"wet": dice.random() < 0.5}
    return "fail", {"nobody": "there"}


def play(seed: int = 1, app: App | None = None) -> Play:
    return Play(app or make_app(), "table", 3, seed, moves)


@cache
def history(seed: int = 1, events: int = 120) -> Entries:
    """Do not change it: there is one for all who ask."""
    return entries_of(played(seed, events))


def played(seed: int = 1, events: int = 120, app: App | None = None) -> Play:
    one = play(seed, app)
    one.play(events)
    return one


def entries_of(one: Play) -> Entries:
    return [(record.generation, record.entry) for record in one.records]


# Damage.


def change_at(entries: Entries, at: int) -> Change:
    change = entries[at][1].change
    assert change is not None
    return change


def rewritten(
    entries: Entries, at: int, events: list[Event] | None = None, version: int | None = None, **fields: Any
) -> Entries:
    """The same history with one change of it altered."""
    generation, entry = entries[at]
    number = entry.version if version is None else version
    change = msgspec.structs.replace(change_at(entries, at), version=number, **fields)
    altered = msgspec.structs.replace(
        entry, version=number, change=change, events=entry.events if events is None else events
    )
    return [*entries[:at], (generation, altered), *entries[at + 1 :]]


def find(entries: Entries, wanted: Any, first: int = 5) -> int:
    """Where the first change stands that is as wanted, not too near the beginning."""
    return next(at for at in range(first, len(entries)) if wanted(change_at(entries, at), entries[at][1].events))


def kills_of(entries: Iterable[tuple[int, JournalEntry]]) -> list[tuple[int, Kill]]:
    return [(entry.version, kill) for _, entry in entries if entry.change for kill in entry.change.kills]
