"""Where other code would have come to by itself: as if it had computed these events from the first difference on."""

from __future__ import annotations

from typing import Any

import pytest

from octoloom.core.app import App, AppEvent
from octoloom.core.event import RULE, Event
from octoloom.core.merge_patch import same
from octoloom.core.own_way import OwnWay
from octoloom.core.replay import Replayer
from octoloom.core.space import Space
from tests.core.audit_story import history, make_app


@pytest.mark.parametrize("seed", range(5))
def test_it_ends_where_the_other_code_ends_by_itself(seed: int) -> None:
    """Up to the first event that waits the other code does the same, and counts twice as much."""
    entries = history(seed)
    waits = next(at for at, (_, entry) in enumerate(entries) if any(e.name == "wait" for e in entry.events))
    replayer = Replayer("table", make_app(step=2))
    for generation, entry in entries[:waits]:
        replayer.read(generation, entry)
    assert same(replayer.own_state, {**replayer.state, "count": 2 * replayer.state["count"]})


def waiting_app(until: int) -> App:
    app = App("waits", state={"count": 0, "done": []})

    @app.on("count")
    def count(state: Any, event: AppEvent) -> None:
        state["count"] += 1

    @app.on("wait")
    def wait(state: Any, event: AppEvent) -> None:
        if state["count"] < until:
            event.defer()
        state["done"].append(event.sequencer)

    return app


def event(number: int, name: str) -> Event:
    return Event(number, "ada", number, name, b"null", number, 0)


def test_what_it_has_settled_early_is_not_taken_again() -> None:
    fork = Space("table")
    fork.events[2] = event(2, "wait")
    way = OwnWay(waiting_app(until=1), fork, None, ())
    way.go(RULE, [event(3, "count")], [])
    assert way.state == {"count": 1, "done": [2]}
    way.go(RULE, [event(2, "wait"), event(4, "count")], [])
    assert way.state == {"count": 2, "done": [2]}


def test_what_still_waits_goes_on_when_it_may() -> None:
    way = OwnWay(waiting_app(until=3), Space("table"), None, ())
    way.go(RULE, [event(1, "wait"), event(2, "count")], [])
    assert way.state == {"count": 1, "done": []}
    way.go(RULE, [event(3, "count"), event(4, "count")], [])
    assert way.state == {"count": 3, "done": [1]}


def test_what_is_imposed_does_not_run() -> None:
    way = OwnWay(waiting_app(until=3), Space("table"), None, ())
    way.go(RULE, [event(1, "count"), event(2, "count")], [2])
    assert way.state["count"] == 1
