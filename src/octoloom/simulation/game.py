"""The app that simulated devices play: it keeps enough to tell whether anything was lost, doubled or reordered."""

from __future__ import annotations

from typing import Any
from zlib import crc32

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
    state = {"count": 0, "order": 0, "last": {}, "rung": {}, "present": {}, "cells": {}, "alarms": {}}
    app = Game("simulated", state=state)
    app.on("put")(_put)
    app.on("hush")(_hush)
    app.on("snooze")(_snooze)
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
    state["order"] = crc32(event.payload["token"].encode(), state["order"])
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
    """A move out of turn: it waits until the state has come far enough, and may be refused then."""
    event.cancel(event.after(5, "ring", {"token": event.payload["token"]}))
    if state["count"] < event.payload["until"]:
        event.defer()
    _apply(state, event)
    if event.payload.get("refused"):
        raise Reject("too late")


def _empty(state: Any, event: AppEvent) -> None:
    """No merge patch can write a null."""
    _apply(state, event)
    state["cells"]["none"] = {"nothing": None}


def _alarm(state: Any, event: AppEvent) -> None:
    _apply(state, event)
    _set(state, event, event.payload["ms"])


def _set(state: Any, event: AppEvent, delay_ms: int) -> None:
    number = event.after(delay_ms, "ring", {"token": event.payload["token"]})
    state["alarms"][event.device] = [number, event.time_ms + delay_ms]


def _hush(state: Any, event: AppEvent) -> None:
    """Sets an alarm and thinks better of it: it must never ring."""
    _put(state, event)
    event.cancel(event.after(5, "ring", {"token": event.payload["token"]}))


def _snooze(state: Any, event: AppEvent) -> None:
    """One alarm for another: the last that anybody has set, unless it has rung."""
    _put(state, event)
    alarms = state["alarms"]
    if alarms:
        number, due_ms = alarms.pop(max(alarms, key=lambda device: alarms[device][0]))
        event.cancel(number)
        if due_ms > event.time_ms:
            _set(state, event, due_ms - event.time_ms)


def _ring(state: Any, event: AppEvent) -> None:
    token = event.payload["token"]
    state["rung"][token] = state["rung"].get(token, 0) + 1


def _join(state: Any, event: AppEvent) -> None:
    state["present"][event.device] = state["present"].get(event.device, 0) + 1


def _leave(state: Any, event: AppEvent) -> None:
    state["present"].pop(event.device, None)
