"""The app that simulated devices play: it keeps enough to tell whether anything was lost, doubled or reordered."""

from __future__ import annotations

from typing import Any

from octoloom.core.app import App, AppEvent, Reject, Verdict
from octoloom.core.event import Event
from octoloom.core.recorder import Recorder


class ProcessDied(Exception):  # noqa: N818 - it is what happened
    """A reducer ended the process that ran it."""


class Game(App):
    """An app whose event `poison` ends the process, unless it is computed on trial."""

    def run(self, recorder: Recorder, event: Event, next_timer: int, timers_left: int = 1000) -> Verdict:
        if event.name == "poison":
            raise ProcessDied
        return super().run(recorder, event, next_timer, timers_left)


def make_game() -> Game:
    app = Game("simulated", state={"count": 0, "last": {}, "rung": {}, "present": {}, "cells": {}})
    app.on("put")(_put)
    app.on("refuse")(_refuse)
    app.on("wait")(_wait)
    app.on("empty")(_empty)
    app.on("alarm")(_alarm)
    app.on("ring")(_ring)
    app.on_join(_join)
    app.on_leave(_leave)
    return app


def _apply(state: Any, event: AppEvent) -> None:
    state["count"] += 1
    state["last"][event.device] = event.payload["token"]


def _put(state: Any, event: AppEvent) -> None:
    _apply(state, event)
    cell = str(event.random.randrange(5))
    state["cells"][cell] = {"by": event.device, "at": event.time_ms}


def _refuse(state: Any, event: AppEvent) -> None:
    _apply(state, event)
    state["cells"].clear()
    raise Reject("on purpose")


def _wait(state: Any, event: AppEvent) -> None:
    """A move out of turn: it waits until the state has come far enough."""
    if state["count"] < event.payload["until"]:
        event.defer()
    _apply(state, event)


def _empty(state: Any, event: AppEvent) -> None:
    """No merge patch can write a null."""
    _apply(state, event)
    state["cells"]["none"] = {"nothing": None}


def _alarm(state: Any, event: AppEvent) -> None:
    _apply(state, event)
    event.after(event.payload["ms"], "ring", {"token": event.payload["token"]})


def _ring(state: Any, event: AppEvent) -> None:
    token = event.payload["token"]
    state["rung"][token] = state["rung"].get(token, 0) + 1


def _join(state: Any, event: AppEvent) -> None:
    state["present"][event.device] = state["present"].get(event.device, 0) + 1


def _leave(state: Any, event: AppEvent) -> None:
    state["present"].pop(event.device, None)
