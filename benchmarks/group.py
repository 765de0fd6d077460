"""Our total order beside JGroups' SEQUENCER, in one run: messages per second, latency, and a coordinator's death.

Both groups run at the same time, and one is idle while the other is measured. Rounds are interleaved: each case goes
through both groups before the next one, so that whatever else the machine does hits both alike. Rounds before the first
that counts warm both up, which matters to a Java process most. Every failover has groups of its own, one after the
other. `group_case` says what is measured.
"""

from __future__ import annotations

import gc
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import msgspec

import group_figures
import group_octoloom
import jgroups_peer
from group_case import MEMBERS, SENDERS, SIZES, Failover, FailoverCase, GroupCase, GroupUnderTest
from group_figures import JGROUPS, MS, NAMES, OURS, PER_SECOND, Figure, Figures
from printed_tables import show

GROUPS: dict[str, Callable[[Path], GroupUnderTest]] = {OURS: group_octoloom.Octoloom, JGROUPS: jgroups_peer.JGroups}
SIDES: dict[str, Any] = {OURS: group_octoloom, JGROUPS: jgroups_peer}
CASES = ("throughput", "latency", "failover")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    rounds: int = 5
    warm_ups: int = 4
    seconds: float = 2.0
    latencies: int = 3_000
    failovers: int = 5
    failover: FailoverCase = FailoverCase()


QUICK = Plan(
    rounds=1, warm_ups=4, seconds=0.8, latencies=1_000, failovers=1, failover=FailoverCase(before_s=1.0, after_s=5.0)
)


class Runs:
    """Runs, and what came of them. A group that fails is named, and does not take the other down."""

    def __init__(self, plan: Plan, groups: list[GroupUnderTest], say: Callable[[str], None]) -> None:
        self.failures: list[str] = []
        self._plan = plan
        self._groups = groups
        self._say = say
        self._found: dict[tuple[str, str, str], list[float]] = {}
        self._failovers: dict[str, list[Failover]] = {group.name: [] for group in groups}

    def throughput(self) -> None:
        cases = [
            GroupCase(senders=senders, size=size, seconds=self._plan.seconds) for size in SIZES for senders in SENDERS
        ]
        self._rounds("throughput", True, cases, self._throughput)

    def latency(self) -> None:
        cases = [GroupCase(senders=1, size=size, count=self._plan.latencies) for size in SIZES]
        self._rounds("latency", False, cases, self._latency)

    def failover(self) -> None:
        for number in range(1, self._plan.failovers + 1):
            for group in self._groups:
                try:
                    self._guarded(group, f"failover {number}", self._failover, group)
                finally:
                    group.close()

    def _rounds(self, kind: str, bundled: bool, cases: list[GroupCase], work: Any) -> None:
        with self._started(kind, bundled) as groups:
            for number in range(1 - self._plan.warm_ups, self._plan.rounds + 1):
                for case in cases:
                    for group in groups:
                        what = f"round {number}" if number > 0 else "warming up"
                        text = f"{kind}, {case}, {what}"
                        self._guarded(group, text, work, group, case, text, number > 0)

    @contextmanager
    def _started(self, kind: str, bundled: bool) -> Iterator[list[GroupUnderTest]]:
        with ExitStack() as stack:
            for group in self._groups:
                stack.callback(group.close)
            yield [
                group
                for group in self._groups
                if self._guarded(group, f"starting for {kind}", group.start, MEMBERS, bundled)
            ]

    def _guarded(self, group: GroupUnderTest, text: str, work: Callable[..., None], *arguments: Any) -> bool:
        gc.collect()
        try:
            work(*arguments)
        except Exception as error:
            self.failures.append(f"{text}: {NAMES[group.name]}: {type(error).__name__}: {error}")
            self._say(self.failures[-1])
            return False
        return True

    def _throughput(self, group: GroupUnderTest, case: GroupCase, text: str, counts: bool) -> None:
        found = group.throughput(case)
        self._say(f"{text}: {NAMES[group.name]}: {found.slowest:,.0f} messages/s at the slowest member")
        if counts:
            self._keep(str(case), PER_SECOND, group, found.slowest)

    def _latency(self, group: GroupUnderTest, case: GroupCase, text: str, counts: bool) -> None:
        if not counts:
            # One message at a time is too few for Java to compile what it runs.
            group.throughput(GroupCase(senders=3, size=case.size, seconds=self._plan.seconds))
        found = group.latency(case)
        self._say(f"{text}: {NAMES[group.name]}: p50 {found.p50_ms:.3f} ms, p99 {found.p99_ms:.3f} ms")
        if counts:
            self._keep(f"latency p50, {case}", MS, group, found.p50_ms)
            self._keep(f"latency p99, {case}", MS, group, found.p99_ms)

    def _failover(self, group: GroupUnderTest) -> None:
        plan = self._plan.failover
        group.start(plan.members, bundled=False)
        group.throughput(GroupCase(senders=plan.senders, size=plan.size, seconds=min(self._plan.seconds, 1.0)))
        found = group.failover(plan)
        self._failovers[group.name].append(found)
        agree = "survivors agree" if found.agree else "survivors DISAGREE"
        counts = f"{found.duplicates} twice, {found.inversions} out of order, {found.missing} missing"
        self._say(f"failover: {NAMES[group.name]}: blackout {found.blackout_ms:,.0f} ms, {agree}, {counts}")

    def _keep(self, case: str, unit: str, group: GroupUnderTest, value: float) -> None:
        self._found.setdefault((case, unit, group.name), []).append(value)

    def figures(self) -> Figures:
        found = [Figure(case, unit, group, values) for (case, unit, group), values in self._found.items()]
        return Figures(found, self._failovers)


def machine(names: list[str]) -> dict[str, str]:
    """What the figures were made with."""
    return {
        "cores": str(os.cpu_count()),
        "load before": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "octoloom": version("octoloom"),
        **({"JGroups": jgroups_peer.version()} if JGROUPS in names else {}),
    }


def chosen(only: str | None, say: Callable[[str], None]) -> list[str]:
    """The groups that were asked for and can be measured."""
    found = []
    for name, side in SIDES.items():
        if only not in (None, name):
            continue
        if needed := side.missing():
            say(f"Without {NAMES[name]}: {needed}")
        else:
            found.append(name)
    return found


def as_json(facts: dict[str, str], figures: Figures, failures: list[str]) -> bytes:
    return msgspec.json.encode(
        {
            "machine": facts,
            "figures": [{**msgspec.to_builtins(each), "median": each.value} for each in figures.all],
            "ratios": {case: figures.ratio(case) for case in figures.cases},
            "failovers": {
                group: [
                    {**msgspec.to_builtins(run), "blackout_ms": run.blackout_ms, "clean": run.clean} for run in runs
                ]
                for group, runs in figures.failovers.items()
            },
            "aims": figures.verdicts(),
            "failures": failures,
        }
    )


@click.command()
@click.option("--only", type=click.Choice([*GROUPS]), help="One of both, instead of both.")
@click.option("--quick", is_flag=True, help="One short round and one failover, for a first look.")
@click.option("--case", "cases", multiple=True, type=click.Choice(CASES), help="All of them if left out.")
@click.option("--rounds", type=click.IntRange(1, 100), help=f"{Plan().rounds} if left out.")
@click.option("--seconds", type=click.FloatRange(0.1, 60), help=f"Of each throughput; {Plan().seconds} if left out.")
@click.option("--failovers", type=click.IntRange(1, 100), help=f"{Plan().failovers} if left out.")
@click.option("--warm-ups", type=click.IntRange(0, 100), help=f"Rounds before; {Plan().warm_ups} if left out.")
@click.option("--every", is_flag=True, help="Show every round.")
@click.option("--markdown", is_flag=True, help="Print tables for a page.")
@click.option("--json", "json", is_flag=True, help="Print JSON, for programs.")
def main(
    only: str | None,
    quick: bool,
    cases: tuple[str, ...],
    rounds: int | None,
    seconds: float | None,
    failovers: int | None,
    warm_ups: int | None,
    every: bool,
    markdown: bool,
    json: bool,
) -> None:
    """Measure our total order beside JGroups' SEQUENCER. About ten minutes, on a machine with nothing else to do.

    JGroups needs Java and `apt-get install libjgroups-java`; without them ours is measured alone.

    \b
    Examples:
      octoloom bench group --quick
      octoloom bench group --markdown
      octoloom bench group --only jgroups --case failover --failovers 3
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    def say(text: str) -> None:
        click.echo(text, err=True)

    wanted = {"rounds": rounds, "seconds": seconds, "failovers": failovers, "warm_ups": warm_ups}
    asked = {name: value for name, value in wanted.items() if value is not None}
    plan = msgspec.structs.replace(QUICK if quick else Plan(), **asked)
    names = chosen(only, say)
    if not names:
        raise click.ClickException("there is nothing to measure")
    facts = machine(names)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="octoloom-bench-") as folder:
        runs = Runs(plan, [GROUPS[name](Path(folder) / name) for name in names], say)
        for case in CASES:
            if not cases or case in cases:
                {"throughput": runs.throughput, "latency": runs.latency, "failover": runs.failover}[case]()
    facts["seconds"] = f"{time.monotonic() - began:.0f}"
    if json:
        click.echo(as_json(facts, runs.figures(), runs.failures))
    else:
        show(facts, group_figures.tables(runs.figures(), every), runs.failures, markdown)
    raise click.exceptions.Exit(1 if runs.failures else 0)


if __name__ == "__main__":
    main()
