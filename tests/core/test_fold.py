"""A fold of events gives what a tail computes of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core import fold as fold_module
from octoloom.core.compute import Worker
from octoloom.core.event import TIMER, Event, Outcome
from octoloom.core.fold import Fold, TooManyDeferred
from octoloom.core.space import Space, encode_json
from tests.core.test_compute import make_app

NAMES = st.sampled_from(["move", "turn", "refuse", "fail", "null", "throw", "fuse", "bang", "wet", "unknown"])
EVENTS = st.lists(st.tuples(NAMES, st.integers(0, 6), st.booleans()), max_size=30)


def history(drawn: list[tuple[str, int, bool]]) -> list[Event]:
    """Some of the events are timers that go off, whether or not they were ever set."""
    return [
        Event(place, TIMER if timer else "ada", payload or 1 if timer else place, name, encode_json(payload), place, 7)
        for place, (name, payload, timer) in enumerate(drawn, start=1)
    ]


@given(EVENTS)
def test_a_fold_equals_a_tail_that_takes_one_event_at_a_time(drawn: list[tuple[str, int, bool]]) -> None:
    space = Space("hall")
    worker = Worker(make_app(), space)
    fold = Fold(make_app())
    kills: list[Outcome] = []
    for event in history(drawn):
        space.add(event)
        worker.inbox.append(event)
        change = worker.step(1, batch_max=1)
        kills += [kill.outcome for kill in change.kills] if change is not None else []
        fold.take(event)
    assert fold.applied == kills.count(Outcome.APPLIED)
    assert fold.rejected == len(kills) - fold.applied
    assert [event.chain_sequencer for event in fold.deferred] == [
        event.chain_sequencer for event in worker.rule.waiting
    ]
    assert sorted(fold.timers) == sorted(space.timers)
    if kills:
        assert (fold.state, fold.next_timer) == (space.state, space.next_timer)


@given(EVENTS, st.integers(0, 30))
def test_a_fold_goes_on_from_its_snapshot(drawn: list[tuple[str, int, bool]], cut: int) -> None:
    events = history(drawn)
    whole, broken = Fold(make_app()), Fold(make_app())
    for event in events:
        whole.take(event)
    for event in events[:cut]:
        broken.take(event)
    broken = Fold.restore(make_app(), broken.snapshot())
    for event in events[cut:]:
        broken.take(event)
        broken.settle()
    assert broken.snapshot() == whole.snapshot()


def test_an_app_that_defers_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_module, "DEFERRED_MAX", 3)
    fold = Fold(make_app())

    def turn(number: int) -> Any:
        return Event(number, "ada", number, "turn", b"99", 0, 0)

    for number in range(3):
        assert fold.take(turn(number)).outcome is None
    with pytest.raises(TooManyDeferred, match="3 events wait"):
        fold.take(turn(3))
    assert len(fold.deferred) == 3
