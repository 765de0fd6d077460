from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from octoloom.core.app import App, AppEvent, Reject
from octoloom.core.event import Event
from octoloom.runtime import trial
from octoloom.runtime.trial import Trials
from tests.waiting import PATIENCE_S, async_until, until

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


@app.on("look")
def look(state: Any, event: AppEvent) -> None:
    held = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    handlers = [n for n in signal.valid_signals() if callable(signal.getsignal(n)) or signal.getsignal(n) == 1]
    # One more is the look itself. SIGPIPE and SIGXFSZ are ignored by Python, and by nobody else.
    found = [held[:4], len(held) - 4 <= 1, set(handlers) <= {signal.SIGPIPE, signal.SIGXFSZ}, signal.set_wakeup_fd(-1)]
    # Files are the only way out of here.
    Path(event.payload).write_text(repr(found))


@app.on("crash-when-freed")
def crash_when_freed(state: Any, event: AppEvent) -> None:
    if not state.get("n"):
        event.defer()
    ctypes.string_at(0)


def history(*names: str, payload: Any = None) -> list[Event]:
    text = msgspec.json.encode(payload)
    return [Event(10 + at, "ada", at + 1, name, text, 0, 0) for at, name in enumerate(names)]


@pytest.fixture(scope="module")
def trials() -> Iterator[Trials]:
    made = Trials(f"{__name__}:app")
    yield made
    made.close()


class Judge:
    """The budget is one that a slow machine keeps: what is over it only takes longer to be found."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials

    def __call__(self, *names: str, state: dict[str, Any] | None = None, budget_ms: int = 1000) -> list[int]:
        return asyncio.run(self._trials.judge(state or {}, history(*names), budget_ms))


@pytest.fixture
def judge(trials: Trials) -> Judge:
    return Judge(trials)


def children(trials: Trials) -> list[psutil.Process]:
    return psutil.Process(trials.pid).children()


def descriptors(pid: int) -> set[tuple[str, str]]:
    found = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        # The look itself has one, which is gone when it is read.
        with contextlib.suppress(OSError):
            found.add((each.name, os.readlink(each)))
    return found


def test_an_event_that_waits_and_is_fatal_once_it_is_freed_is_found(judge: Judge) -> None:
    assert judge("crash-when-freed") == [], "nothing frees it"
    assert judge("crash-when-freed", "reject", "count", "count") == [10]
    assert judge("crash-when-freed", "count", "leave", "crash-when-freed") == [10, 12, 13]


def test_harmless_events_are_found_harmless(judge: Judge) -> None:
    assert judge(*["count", "reject", "fail", "unknown"] * 50) == []
    assert judge() == []


@pytest.mark.parametrize("deadly", ["leave", "leave-in-peace", "kill", "crash"])
def test_a_deadly_event_is_found_and_no_other(judge: Judge, deadly: str) -> None:
    assert judge("count", "count", deadly, "count") == [12]


@pytest.mark.parametrize("endless", ["spin", "spin-in-c"])
def test_an_endless_event_is_found(judge: Judge, endless: str) -> None:
    assert judge("count", endless, "count", budget_ms=200) == [11]


def test_one_that_sleeps_is_found(judge: Judge) -> None:
    assert judge("count", "sleep", "count", budget_ms=200) == [11]


def test_all_deadly_events_are_found(judge: Judge) -> None:
    assert judge("leave", "count", "crash", "kill", "count", "leave") == [10, 12, 13, 15]


def test_events_are_computed_one_after_another_on_the_state(judge: Judge) -> None:
    assert judge("crash-if-two", "count", "crash-if-two", state={"n": 1}) == [12]


def test_a_state_of_any_kind_gets_there(judge: Judge) -> None:
    odd = {"n": 1, "big": (1 << 53) - 1, "text": "‖" * 1_000_000, "list": [None, True, 0.5, {"": []}]}
    assert judge("count", "crash-if-two", state=odd) == [11]


def test_what_is_still_untried_after_the_last_round_counts_as_fatal(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "ROUNDS_MAX", 2)
    assert judge("count", "leave", "count", "leave", "count") == [10, 11, 12, 13, 14]


def test_several_trials_at_once_do_not_mix(trials: Trials) -> None:
    async def story() -> list[list[int]]:
        several = (["count"] * number + ["leave", "count"] for number in range(8))
        return await asyncio.gather(*(trials.judge({}, history(*names)) for names in several))

    assert asyncio.run(story()) == [[10 + number] for number in range(8)]


def test_a_trial_leaves_no_process_and_no_descriptor_behind(trials: Trials, judge: Judge) -> None:
    judge("count")
    before = descriptors(os.getpid()), descriptors(trials.pid)
    judge("leave", "count")
    until(lambda: not children(trials), "the children to be gone")
    # What others have left may be closed meanwhile, but nothing is new.
    assert descriptors(os.getpid()) <= before[0]
    assert descriptors(trials.pid) == before[1]


def test_a_cancelled_trial_ends_its_process(trials: Trials, judge: Judge) -> None:
    judge("count")

    async def give_up() -> None:
        judging = asyncio.ensure_future(trials.judge({}, history("sleep"), 600_000))
        await async_until(lambda: len(children(trials)) == 1, "the child to be there")
        judging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await judging

    asyncio.run(give_up())
    until(lambda: not children(trials), "the child to be gone")


def test_the_child_holds_nothing_of_its_parent(trials: Trials, tmp_path: Path) -> None:
    """No descriptor but the pipe, no handler, no wakeup of the parent's loop."""
    events = history("look", payload=str(tmp_path / "seen"))
    assert asyncio.run(trials.judge({}, events)) == []
    assert (tmp_path / "seen").read_text() == "[[0, 1, 2, 3], True, True, -1]"


@pytest.mark.parametrize("app_name", ["", "no_such_module:app"])
def test_no_process_to_be_had_is_no_verdict(app_name: str) -> None:
    nobody = Trials(app_name)
    assert Judge(nobody)("leave") == []
    nobody.close()


def test_a_lost_process_is_replaced(trials: Trials, judge: Judge) -> None:
    assert judge("count") == []
    lost = trials.pid
    psutil.Process(lost).kill()
    assert judge("count", "leave") == [11]
    assert trials.pid != lost
    assert not psutil.pid_exists(lost)


def test_what_is_closed_is_gone_with_all_its_children() -> None:
    ended = Trials(f"{__name__}:app")

    async def story() -> list[psutil.Process]:
        judging = asyncio.ensure_future(ended.judge({}, history("sleep"), 600_000))
        await async_until(lambda: ended.pid and children(ended), "the child to be there")
        found = [psutil.Process(ended.pid), *children(ended)]
        ended.close()
        assert await judging == [10]
        return found

    found = asyncio.run(story())
    until(lambda: not any(each.is_running() for each in found), "all to be gone")


FORKED = """
import asyncio, os, sys, threading
from octoloom.core.app import App
from octoloom.core.event import Event
from octoloom.runtime.trial import Trials

app = App("nameless")

@app.on("leave")
def leave(state, event):
    os._exit(1)

@app.on("count")
def count(state, event):
    # Whatever a child says reaches nobody.
    print("counting", file=sys.stderr)
    print("counting", flush=True)

trials = Trials.forked(app)
for _ in range(4):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
events = [Event(at, "ada", at, name, b"null", 0, 0) for at, name in enumerate(["count", "leave", "leave"])]
print(asyncio.run(trials.judge({}, events)), trials.pid, flush=True)
sys.stdin.read()
"""


def test_one_that_is_forked_in_time_serves_a_process_with_threads(tmp_path: Path) -> None:
    """An app without a name, no warning that somebody forked beside threads, and nothing is left of it."""
    process = subprocess.Popen(
        [sys.executable, "-W", "always::DeprecationWarning", "-c", FORKED], cwd=tmp_path, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    *verdict, pid = process.stdout.readline().rsplit(maxsplit=1)
    helper = psutil.Process(int(pid))
    process.kill()
    assert (*verdict, *process.communicate(timeout=PATIENCE_S)) == ("[1, 2]", "", "")
    until(lambda: not helper.is_running(), "the process to end with its parent")
