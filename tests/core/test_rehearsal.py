"""What is rehearsed is what a tail would do, attempt by attempt."""

from __future__ import annotations

from typing import Any

import pytest

from octoloom.core.app import App, AppEvent
from octoloom.core.event import TIMER, Event
from octoloom.core.rehearsal import rehearse


class Ended(BaseException):
    """The process that ran it."""


def make_app() -> App:
    app = App("mine", state={"count": 0})

    @app.on("count")
    def count(state: Any, event: AppEvent) -> None:
        state["count"] += 1

    @app.on("lurk")
    def lurk(state: Any, event: AppEvent) -> None:
        if state["count"] < 2:
            event.defer()

    return app


def attempts(app: App, *names: str) -> list[int]:
    state, places = {"count": 0}, list[int]()
    events = [Event(10 * at, TIMER, at, name, b"null", 0, 0) for at, name in enumerate(names, start=1)]
    rehearse(app, state, events, places.append)
    return places


def test_every_attempt_is_told_of_and_those_who_wait_are_tried_again() -> None:
    assert attempts(make_app(), "count", "count") == [0, 1]
    assert attempts(make_app(), "lurk", "count", "lurk", "count") == [0, 1, 0, 2, 3, 0, 2]


def test_it_is_told_before_it_is_tried() -> None:
    """Whoever listens knows at which event it ended."""
    places = list[int]()

    def on_attempt(place: int) -> None:
        places.append(place)
        if places.count(0) == 2:
            raise Ended

    events = [Event(1, "ada", 1, "lurk", b"null", 0, 0), Event(2, "ada", 2, "count", b"null", 0, 0)]
    with pytest.raises(Ended):
        rehearse(make_app(), {"count": 1}, events, on_attempt)
    assert places == [0, 1, 0]
