"""Two groups are measured in turn, what warms them up does not count, and a failing one does not stop the other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import group
from group_case import Failover, FailoverCase, GroupCase, GroupError, Latency, Throughput
from group_figures import BLACKOUT, JGROUPS, OURS

SCRIPT = Path(group.__file__)
PLAN = group.Plan(rounds=2, warm_ups=1, seconds=1.0, latencies=10, failovers=2)


class Scripted:
    """Answers with figures that rise by one from run to run."""

    def __init__(self, name: str, calls: list[str], fails: str = "") -> None:
        self.name = name
        self._calls = calls
        self._fails = fails
        self._runs = 0

    def _call(self, what: str) -> int:
        self._calls.append(f"{self.name} {what}")
        if what == self._fails:
            raise GroupError("as told")
        self._runs += 1
        return self._runs

    def start(self, members: int, bundled: bool) -> None:
        self._call(f"start {members} {'bundled' if bundled else 'alone'}")

    def throughput(self, case: GroupCase) -> Throughput:
        return Throughput(1, [self._call(str(case)), 1000])

    def latency(self, case: GroupCase) -> Latency:
        return Latency(1, self._call(f"latency {case}"), 1)

    def failover(self, case: FailoverCase) -> Failover:
        self._call("failover")
        return Failover(
            sent=1, blackouts_ms=[2, 7], agree=True, differ_at=None, duplicates=0, inversions=0, missing=0, unsent=0,
            stuck=0,
        )  # fmt: skip

    def close(self) -> None:
        self._calls.append(f"{self.name} close")


Measured = tuple[group.Runs, list[str]]


def measured(work: Callable[[group.Runs], None], fails: str = "") -> Measured:
    calls: list[str] = []
    runs = group.Runs(PLAN, [Scripted(OURS, calls, fails), Scripted(JGROUPS, calls)], lambda _: None)
    work(runs)
    return runs, calls


@pytest.mark.slow
def test_groups_take_turns_and_warm_ups_do_not_count() -> None:
    runs, calls = measured(group.Runs.throughput)
    assert runs.failures == []
    assert calls[:2] == [f"{OURS} start 4 bundled", f"{JGROUPS} start 4 bundled"]
    measuring = calls[2:-2]
    assert len(measuring) == 3 * 4 * 2
    for ours, theirs in zip(measuring[::2], measuring[1::2], strict=True):
        assert (ours.split()[0], theirs.split()[0]) == (OURS, JGROUPS)
        assert ours.split()[1:] == theirs.split()[1:]
    assert sorted(calls[-2:]) == [f"{JGROUPS} close", f"{OURS} close"]
    figure = runs.figures().of("1 sender, 100 B", OURS)
    # The start was its first call and the warm-up its next four.
    assert figure is not None
    assert figure.rounds == [6, 10]
    assert len(runs.figures().cases) == 4


@pytest.mark.slow
def test_latency_and_failover_are_measured_without_bundling() -> None:
    runs, calls = measured(group.Runs.latency)
    assert calls[:2] == [f"{OURS} start 4 alone", f"{JGROUPS} start 4 alone"]
    assert calls[2:6] == [
        f"{name} {what}" for name in (OURS, JGROUPS) for what in ("3 senders, 100 B", "latency 1 sender, 100 B")
    ]
    assert runs.figures().cases == [
        f"latency {cut}, 1 sender, {size}" for size in ("100 B", "1 KB") for cut in ("p50", "p99")
    ]
    runs, calls = measured(group.Runs.failover)
    each = ["start 4 alone", "3 senders, 100 B", "failover", "close"]
    assert calls == [f"{name} {what}" for _ in range(2) for name in (OURS, JGROUPS) for what in each]
    assert runs.figures().ratio(BLACKOUT) == 1


@pytest.mark.slow
@pytest.mark.parametrize("fails", ["start 4 bundled", "3 senders, 1 KB"])
def test_a_group_that_fails_is_named_and_the_other_goes_on(fails: str) -> None:
    runs, calls = measured(group.Runs.throughput, fails)
    assert runs.failures
    assert all("ours: GroupError: as told" in failure for failure in runs.failures)
    assert {case for case in runs.figures().cases if runs.figures().of(case, JGROUPS)} == {
        f"{senders}, {size}" for senders in ("1 sender", "3 senders") for size in ("100 B", "1 KB")
    }
    assert runs.figures().of("3 senders, 1 KB", OURS) is None
    assert f"{OURS} close" in calls


def test_a_failover_that_fails_has_no_blackout_and_is_closed() -> None:
    runs, calls = measured(group.Runs.failover, "failover")
    assert len(runs.failures) == 2
    assert runs.figures().of(BLACKOUT, OURS) is None
    assert calls.count(f"{OURS} close") == 2


def test_figures_are_told_to_programs() -> None:
    runs, _ = measured(group.Runs.failover)
    said = json.loads(group.as_json({"cores": "2"}, runs.figures(), []))
    assert said["failovers"][OURS][0]["clean"] is True
    assert said["failovers"][OURS][0]["blackout_ms"] == 7
    assert said["ratios"] == {BLACKOUT: 1}
    assert {aim["aim"]: aim["met"] for aim in said["aims"]} == {
        "blackout: a third of JGroups' at most": False,
        "ours: one order, nothing lost, twice or swapped": True,
    }


def test_the_script_tells_its_options_and_refuses_others() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--help"], capture_output=True, text=True, check=True)
    assert "Examples:" in done.stdout
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--only", "someone"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
