from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvloop

from octoloom.core.app import App, AppEvent
from octoloom.core.compute import Worker
from octoloom.core.errors import UsageError
from octoloom.core.event import Event, Outcome
from octoloom.core.space import Space
from octoloom.runtime.watchdog import Watchdog

app = App("slow")


@app.on("count")
def count(state: Any, event: AppEvent) -> None:
    state["n"] = state.get("n", 0) + 1


@app.on("spin")
def spin(state: Any, event: AppEvent) -> None:
    state["spun"] = True
    while True:
        pass


@app.on("spin-stubbornly")
def spin_stubbornly(state: Any, event: AppEvent) -> None:
    while True:
        with contextlib.suppress(Exception):
            time.sleep(0.001)


@app.on("sleep")
def sleep(state: Any, event: AppEvent) -> None:
    time.sleep(3600)


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    dog = Watchdog([app], budget_ms=40, tick_ms=10)
    dog.start()
    yield dog
    dog.stop()


def compute(*names: str) -> tuple[dict[str, Any], list[Outcome], int]:
    space = Space("s")
    for at, name in enumerate(names, 1):
        space.add(Event(at, "ada", at, name, b"null", 0, 0))
    worker = Worker(app, space)
    change = worker.step(1)
    assert change is not None
    return dict(space.state), [kill.outcome for kill in change.kills], len(worker.faults)


@pytest.mark.usefixtures("watchdog")
@pytest.mark.parametrize("endless", ["spin", "spin-stubbornly", "sleep"])
def test_an_endless_reducer_is_ended_and_the_space_goes_on(endless: str) -> None:
    state, outcomes, faults = compute("count", endless, "count")
    assert outcomes == [Outcome.APPLIED, Outcome.REJECTED, Outcome.APPLIED]
    assert (state, faults) == ({"n": 2}, 1)


@pytest.mark.usefixtures("watchdog")
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_it_works_inside_of_either_loop(run: Callable[..., Any]) -> None:
    async def turn() -> list[Outcome]:
        await asyncio.sleep(0.05)
        outcomes = compute("spin", "count")[1]
        await asyncio.sleep(0.05)
        return outcomes

    assert run(turn()) == [Outcome.REJECTED, Outcome.APPLIED]


@pytest.mark.usefixtures("watchdog")
def test_many_short_events_are_not_one_long_one() -> None:
    deadline = time.monotonic() + 0.2
    while time.monotonic() < deadline:
        assert compute(*["count"] * 100)[1] == [Outcome.APPLIED] * 100


@pytest.mark.usefixtures("watchdog")
def test_nothing_is_raised_outside_of_a_reducer() -> None:
    compute("spin")
    deadline = time.monotonic() + 0.2
    while time.monotonic() < deadline:
        pass


def test_it_leaves_the_signal_as_it_was() -> None:
    before = signal.getsignal(signal.SIGALRM)
    dog = Watchdog([app])
    dog.start()
    dog.stop()
    dog.stop()
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_it_says_where_it_works() -> None:
    errors: list[Exception] = []

    def start() -> None:
        try:
            Watchdog([app]).start()
        except UsageError as error:
            errors.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(errors[0])
    with pytest.raises(UsageError, match="budget"):
        Watchdog([app], budget_ms=1)
