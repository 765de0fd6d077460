from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octoloom.core.app import App, AppEvent, Reject
from octoloom.core.event import Event
from octoloom.runtime import trial as trials
from octoloom.runtime.trial import trial

app = App("deadly")


@app.on("count")
def count(state: Any, event: AppEvent) -> None:
    state["n"] = state.get("n", 0) + 1


@app.on("reject")
def reject(state: Any, event: AppEvent) -> None:
    raise Reject("no")


@app.on("fail")
def fail(state: Any, event: AppEvent) -> None:
    raise RuntimeError("an ordinary fault")


@app.on("leave")
def leave(state: Any, event: AppEvent) -> None:
    os._exit(1)


@app.on("leave-in-peace")
def leave_in_peace(state: Any, event: AppEvent) -> None:
    os._exit(0)


@app.on("kill")
def kill(state: Any, event: AppEvent) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.on("spin")
def spin(state: Any, event: AppEvent) -> None:
    while True:
        pass


@app.on("spin-in-c")
def spin_in_c(state: Any, event: AppEvent) -> None:
    sum(range(1 << 60))


@app.on("sleep")
def sleep(state: Any, event: AppEvent) -> None:
    time.sleep(3600)


@app.on("crash")
def crash(state: Any, event: AppEvent) -> None:
    ctypes.string_at(0)


@app.on("crash-if-two")
def crash_if_two(state: Any, event: AppEvent) -> None:
    if state.get("n") == 2:
        ctypes.string_at(0)


def history(*names: str) -> list[Event]:
    return [Event(10 + at, "ada", at + 1, name, b"null", 0, 0) for at, name in enumerate(names)]


def judge(*names: str, state: dict[str, Any] | None = None, budget_ms: int = 1000) -> list[int]:
    return asyncio.run(trial(app, state or {}, history(*names), budget_ms))


def test_harmless_events_are_found_harmless() -> None:
    assert judge(*["count", "reject", "fail", "unknown"] * 50) == []
    assert judge() == []


@pytest.mark.parametrize("deadly", ["leave", "leave-in-peace", "kill", "crash"])
def test_a_deadly_event_is_found_and_no_other(deadly: str) -> None:
    assert judge("count", "count", deadly, "count") == [12]


@pytest.mark.parametrize("endless", ["spin", "spin-in-c"])
def test_an_endless_event_is_found(endless: str) -> None:
    assert judge("count", endless, "count", budget_ms=50) == [11]


def test_one_that_sleeps_is_found() -> None:
    assert judge("count", "sleep", "count", budget_ms=20) == [11]


def test_all_deadly_events_are_found() -> None:
    assert judge("leave", "count", "crash", "kill", "count", "leave") == [10, 12, 13, 15]


def test_events_are_computed_one_after_another_on_the_state() -> None:
    assert judge("crash-if-two", "count", "crash-if-two", state={"n": 1}) == [12]


def test_what_is_still_untried_after_the_last_round_counts_as_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "ROUNDS_MAX", 2)
    assert judge("count", "leave", "count", "leave", "count") == [10, 11, 12, 13, 14]


def test_a_trial_leaves_no_process_and_no_descriptor_behind() -> None:
    before = len(os.listdir("/proc/self/fd"))
    judge("leave", "count")
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_cancelled_trial_ends_its_process() -> None:
    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(trial(app, {}, history("sleep"), 60_000), 0.1)

    asyncio.run(give_up())
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_the_child_holds_nothing_of_its_parent(tmp_path: Path) -> None:
    """No descriptor but the pipe, no handler, no wakeup of the parent's loop."""
    nosy = App("nosy")

    @nosy.on("look")
    def look(state: Any, event: AppEvent) -> None:
        held = sorted(int(name) for name in os.listdir("/proc/self/fd"))
        handlers = [n for n in signal.valid_signals() if callable(signal.getsignal(n))]
        found = [held[:4], len(held) - 4 <= 1, handlers, signal.set_wakeup_fd(-1)]
        # Files are the only way out of here.
        (tmp_path / "seen").write_text(repr(found))

    async def run(handler: Callable[[], None]) -> list[int]:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, handler)
        return await trial(nosy, {}, history("look"))

    assert asyncio.run(run(lambda: None)) == []
    assert (tmp_path / "seen").read_text() == "[[0, 1, 2, 3], True, [], -1]"


def test_no_process_to_be_had_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OSError("no more processes")

    monkeypatch.setattr(os, "fork", refuse)
    assert judge("leave") == []
