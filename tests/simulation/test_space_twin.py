"""The rule of a space at its simplest."""

from __future__ import annotations

from typing import Any

from octoloom.core.event import TIMER, Event, Outcome
from octoloom.core.space import encode_json
from octoloom.simulation.game import make_game
from octoloom.simulation.space_twin import SpaceTwin


def event(place: int, name: str, device: str = "ada", sequencer: int = 0, **payload: Any) -> Event:
    text = encode_json({"token": f"{device}.{place}", **payload})
    return Event(place, device, sequencer or place, name, text, 1000 + place, place)


def settled(*events: Event) -> list[tuple[int, str]]:
    return [(each.chain_sequencer, outcome.word) for each, outcome in SpaceTwin(make_game(), events).settled]


def test_what_waits_goes_on_right_after_the_event_that_freed_it() -> None:
    events = [event(1, "wait", until=2), event(2, "wait", until=1), event(3, "put"), event(4, "put")]
    assert settled(*events) == [(3, "applied"), (2, "applied"), (1, "applied"), (4, "applied")]
    assert settled(*reversed(events)) == settled(*events), "they have their places"


def test_the_first_that_does_not_wait_is_next() -> None:
    """The third frees the second, which frees the first: the fourth, free as well by then, comes behind both."""
    events = [event(1, "wait", until=2), event(2, "wait", until=1), event(3, "wait", until=1), event(4, "put")]
    assert [place for place, _ in settled(*events)] == [4, 2, 1, 3]


def test_what_is_refused_in_the_end_frees_nobody() -> None:
    events = [event(1, "wait", until=1, refused=True), event(2, "wait", until=2), event(3, "put")]
    assert settled(*events) == [(3, "applied"), (1, "rejected")]


def test_a_timer_goes_off_once_and_not_if_it_was_cancelled() -> None:
    fires = event(3, "ring", TIMER, 1)
    twin = SpaceTwin(make_game(), [event(1, "alarm", ms=5), event(2, "put")])
    assert (list(twin.timers), twin.next_timer) == ([1], 2)
    assert settled(event(1, "alarm", ms=5), fires) == [(1, "applied"), (3, "applied")]
    assert settled(event(1, "alarm", ms=50), event(2, "snooze"), fires) == [
        (1, "applied"),
        (2, "applied"),
        (3, "superseded"),
    ]
    assert settled(event(1, "hush"), fires) == [(1, "applied"), (3, "superseded")]


def test_the_state_is_what_was_applied() -> None:
    twin = SpaceTwin(make_game(), [event(1, "put"), event(2, "refuse"), event(3, "unknown")])
    assert [outcome for _, outcome in twin.settled] == [Outcome.APPLIED, Outcome.REJECTED, Outcome.REJECTED]
    assert (twin.state["count"], twin.state["last"]) == (1, {"ada": "ada.1"})
