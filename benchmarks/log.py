"""Our log beside NATS JetStream and Redis Streams, in one run: records per second, latency, and the raw limit.

All logs run at the same time and are idle but for the one that is measured. Rounds are interleaved: in every round,
each case goes once through all logs, each time in another order, so that whatever else the machine does hits all
alike. The figure of a case is the median of its rounds. `log_case` says what is measured, and README.md how to read it.

A ratio above 1 means that ours is ahead. Idle processes of ours take about a hundredth of a core in all.
"""

from __future__ import annotations

import gc
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Protocol

import click
import confluent_kafka
import msgspec
import psutil

import log_tables
import nats_peer
import redis_peer
from log_case import LATENCY_RATE, LATENCY_SIZE, Load, LogUnderTest, Measured, Meter, Setup, Sync, Way
from log_figures import LATENCY, NATS, OURS, RAW, REDIS, Figure, Figures, consume_case, produce_case
from log_octoloom import Octoloom
from log_own_client import OwnClient
from log_raw import Raw
from memory import Memory
from printed_tables import show

SIZES = (100, 1_000)
SYNCS: tuple[Sync, ...] = ("os", "always")
ROUNDS = 5
SECONDS = 0.4
QUICK_SECONDS = 0.25
PEERS = {NATS: nats_peer, REDIS: redis_peer}


class Startable(LogUnderTest, Protocol):
    def start(self) -> None: ...
    def until_ready(self) -> None: ...
    def stop(self) -> None: ...


SYSTEMS: dict[str, Any] = {OURS: Octoloom, NATS: nats_peer.Nats, REDIS: redis_peer.Redis, RAW: Raw}


class Plan(msgspec.Struct, frozen=True):
    replicas: tuple[int, ...]
    sizes: tuple[int, ...]
    ways: tuple[Way, ...]
    latency: bool
    rounds: int
    seconds: float


def setups(plan: Plan, peers: list[str], folder: Path) -> list[Setup]:
    found = [
        Setup(system, replicas, sync) for system in (OURS, *peers, RAW) for replicas in plan.replicas for sync in SYNCS
    ]
    if NATS in peers and not nats_peer.can_sync_always(folder):
        found = [setup for setup in found if (setup.system, setup.sync) != (NATS, "always")]
    return found


@contextmanager
def started(found: list[Setup], folder: Path) -> Iterator[list[LogUnderTest]]:
    """All logs at work; their processes are gone afterwards."""
    with ExitStack() as stack:
        logs: list[Startable] = []
        for number, setup in enumerate(found):
            log: Startable = SYSTEMS[setup.system](setup, folder / f"{number}-{setup.system}")
            stack.callback(log.stop)
            log.start()
            logs.append(log)
        for log in logs:
            log.until_ready()
        # The same brokers, through another client.
        own = [OwnClient(log) for log in logs if isinstance(log, Octoloom)]
        yield [*own, *logs]


class Runs:
    """Runs, and what came of them."""

    def __init__(self, plan: Plan, say: Any) -> None:
        self.failures: list[str] = []
        self._plan = plan
        self._say = say
        self._found: dict[tuple[str, Setup], list[tuple[float, Measured]]] = {}
        self._topics = 0
        self._memory = Memory()

    def round(self, logs: list[LogUnderTest], number: int) -> None:
        shift = number * len(logs) // self._plan.rounds
        order = [*logs[shift:], *logs[:shift]]
        for way in self._plan.ways:
            for size in self._plan.sizes if way != "single" else self._plan.sizes[:1]:
                for log in order:
                    self._guarded(log, produce_case(size, way), self._throughput, size, way)
        for log in order if self._plan.latency else []:
            self._guarded(log, LATENCY, self._latency)

    def _guarded(self, log: LogUnderTest, case: str, work: Any, *arguments: Any) -> None:
        """A log that fails is named, and does not take the others down."""
        self._topics += 1
        topic = f"t{self._topics}"
        gc.collect()
        try:
            log.make(topic)
            self._memory.hold()
            bring_to_rest()
            self._memory.let_go()
            work(log, topic, *arguments)
            log.drop(topic)
        except Exception as error:
            self.failures.append(f"{case}: {log.setup}: {type(error).__name__}: {error}")
            self._say(self.failures[-1])

    def _throughput(self, log: LogUnderTest, topic: str, size: int, way: Way) -> None:
        load = Load(size, way, self._plan.seconds)
        meter = Meter(log.pids)
        messages = log.produce(topic, load, meter)
        self._keep(produce_case(size, way), log.setup, meter.measured(messages * load.records_per_message))
        if way == "single":
            return
        bring_to_rest()
        meter = Meter(log.pids)
        records = log.consume(topic, load, messages, meter)
        self._keep(consume_case(size, way), log.setup, meter.measured(records))

    def _keep(self, case: str, setup: Setup, measured: Measured) -> None:
        self._found.setdefault((case, setup), []).append((measured.records_per_s, measured))
        self._say(f"{case}: {setup}: {measured.records_per_s:,.0f} records/s")

    def _latency(self, log: LogUnderTest, topic: str) -> None:
        count = int(LATENCY_RATE * max(self._plan.seconds * 1.5, 0.1))
        meter = Meter(log.pids)
        meter.start()
        found = log.latencies(topic, Load(LATENCY_SIZE, "single", 0).record, count)
        meter.stop()
        cuts = quantiles(found, n=100, method="inclusive")
        for name, cut in (("p50", cuts[49]), ("p99", cuts[98])):
            kept = self._found.setdefault((f"{LATENCY} {name}", log.setup), [])
            kept.append((cut * 1000, meter.measured(count)))
        self._say(f"latency: {log.setup}: p50 {cuts[49] * 1000:.3f} ms, p99 {cuts[98] * 1000:.3f} ms")

    def figures(self) -> Figures:
        return Figures(
            [
                Figure(
                    case,
                    setup,
                    [value for value, _ in runs],
                    median(measured.client_cpu for _, measured in runs),
                    median(measured.server_cpu for _, measured in runs),
                )
                for (case, setup), runs in self._found.items()
            ]
        )


def bring_to_rest() -> None:
    """What the last run left in the operating system's hands would be written during the next one."""
    os.sync()


def machine(folder: Path, peers: list[str]) -> dict[str, str]:
    """What the figures were made with."""
    mounts = [part for part in psutil.disk_partitions(all=True) if folder.is_relative_to(part.mountpoint)]
    return {
        "cores": str(os.cpu_count()),
        "load before": f"{os.getloadavg()[0]:.1f}",
        "files on": max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else "unknown",
        "python": platform.python_version(),
        "octoloom": version("octoloom"),
        "confluent-kafka": f"{version('confluent-kafka')} (librdkafka {confluent_kafka.libversion()[0]})",
        **{f"{name}-server": PEERS[name].version() for name in peers},
        **{package: version(package) for name, package in ((NATS, "nats-py"), (REDIS, "redis")) if name in peers},
    }


def chosen(peers: tuple[str, ...], say: Any) -> list[str]:
    """The peers that were asked for and are installed."""
    wanted = [name for name in PEERS if not peers or name in peers]
    for name in wanted:
        if PEERS[name].program() is None:
            say(f"Without {name}: its server is not installed: {PEERS[name].INSTALL}")
    return [name for name in wanted if PEERS[name].program() is not None]


def tables_of(figures: Figures, every: bool, markdown: bool) -> list[log_tables.Table]:
    verdicts = figures.verdicts(SIZES)
    found = log_tables.page_tables(figures, verdicts) if markdown else log_tables.tables(figures, verdicts)
    return [*found, *(log_tables.busy_tables(figures) if every else [])]


def as_json(facts: dict[str, str], figures: Figures, failures: list[str]) -> bytes:
    verdicts = [
        {
            "goal": each.goal.text,
            "sync": each.ratio.sync,
            "client": each.ratio.client,
            "seen": each.ratio.ratio,
            "met": each.met,
        }
        for each in figures.verdicts(SIZES)
    ]
    said = {"machine": facts, "ratios": figures.ratios(), "goals": verdicts, "failures": failures}
    said["figures"] = [{**msgspec.to_builtins(figure), "median": figure.value} for figure in figures.all]
    return msgspec.json.encode(said)


@click.command()
@click.option("--peer", "peers", multiple=True, type=click.Choice([*PEERS, "none"]), help="All of them if left out.")
@click.option("--quick", is_flag=True, help="One short round, for a first look.")
@click.option("--rounds", type=click.IntRange(1, 100), help=f"{ROUNDS} if left out.")
@click.option("--seconds", type=click.FloatRange(0.05, 600), help=f"Of each produce; {SECONDS} if left out.")
@click.option("--replicas", multiple=True, type=click.Choice(["1", "3"]), help="Both if left out.")
@click.option("--size", "sizes", multiple=True, type=click.IntRange(1, 60_000), help="Bytes of a record; 100 and 1000.")
@click.option("--case", "cases", multiple=True, type=click.Choice(["batched", "blobs", "single", "latency"]))
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False, exists=True), help="Where the files go.")
@click.option("--every", is_flag=True, help="Show every round, and who was busy.")
@click.option("--markdown", is_flag=True, help="Print tables for a page.")
@click.option("--json", "json", is_flag=True, help="Print JSON, for programs.")
def main(
    peers: tuple[str, ...],
    quick: bool,
    rounds: int | None,
    seconds: float | None,
    replicas: tuple[str, ...],
    sizes: tuple[int, ...],
    cases: tuple[str, ...],
    folder: Path | None,
    every: bool,
    markdown: bool,
    json: bool,
) -> None:
    """Measure our log beside NATS JetStream and Redis Streams. 13 minutes, on a machine with nothing else to do."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    def say(text: str) -> None:
        click.echo(text, err=True)

    plan = Plan(
        tuple(int(each) for each in replicas) or (1, 3),
        sizes or SIZES,
        tuple(way for way in ("batched", "blobs", "single") if not cases or way in cases),
        not cases or "latency" in cases,
        rounds or (1 if quick else ROUNDS),
        seconds or (QUICK_SECONDS if quick else SECONDS),
    )
    found = chosen(peers, say)
    with tempfile.TemporaryDirectory(dir=folder, prefix="octoloom-bench-") as place:
        facts = machine(Path(place), found)
        runs = Runs(plan, say)
        with started(setups(plan, found, Path(place)), Path(place)) as logs:
            began = time.monotonic()
            for number in range(plan.rounds):
                runs.round(logs, number)
            facts["seconds"] = f"{time.monotonic() - began:.0f}"
    figures = runs.figures()
    if json:
        click.echo(as_json(facts, figures, runs.failures))
    else:
        note = log_tables.WEAKER_NOTE if any(ratio.weaker for ratio in figures.ratios()) else ""
        show(facts, tables_of(figures, every, markdown), runs.failures, markdown, note)
    raise click.exceptions.Exit(1 if runs.failures else 0)


if __name__ == "__main__":
    main()
