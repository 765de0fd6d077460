"""Our chain beside Colyseus, in one run: events per second, latency, and what a large state costs.

The game is the same on both sides: each message changes the sender's cell, and everybody sees all cells. Colyseus is
one process without replication; ours is a chain of three links and a register, four processes, where an event counts
once all three replicas have it. `colyseus_peer` and `load` say what exactly is measured, and README.md how to read it.

A ratio above 1 means that ours is ahead: events per second of ours to theirs, and latency of theirs to ours. Each is
against the better of Colyseus' two settings in that very discipline, its default timer of 50 ms and a patch per tick.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Column, Table

import colyseus_peer as peer
from load import LoadResult, Mode, Settings
from replicas import replicas

HERE = Path(__file__).parent
DEVICES = (1, 100, 1_000)
STATE_SIZES = {"1 KB": 1_000, "10 KB": 10_000, "100 KB": 100_000, "1 MB": 1_000_000, "10 MB": 10_000_000}
GRACE_S = 180.0


class Row(msgspec.Struct, frozen=True):
    """One run of either side, in the terms that both share."""

    system: str
    mode: Mode
    devices: int
    events_per_s: float
    p50_ms: float | None
    p99_ms: float | None
    send_lag_p99_ms: float | None
    server_share: float
    """CPU of all server processes, in cores."""
    head_share: float
    client_share: float
    events_per_cpu_s: float
    healthy: str


def load(settings: Settings) -> LoadResult:
    """One run of the load generator, as a process of its own."""
    command = [sys.executable, str(HERE / "load.py"), msgspec.json.encode(settings).decode()]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, timeout=settings.seconds + settings.warmup + GRACE_S
    )
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=LoadResult)


def ours(links: int, mode: Mode, devices: int, seconds: float, window: int) -> Row:
    with replicas(links) as chain:
        rate = peer.default_rate(devices)
        found = load(Settings(chain.urls, chain.pids, mode, devices, seconds=seconds, window=window, rate=rate))
    return Row(
        system=f"octoloom, {links} links" if links > 1 else "octoloom, 1 link",
        mode=mode,
        devices=devices,
        events_per_s=found.events_per_s,
        p50_ms=found.latency_p50_ms,
        p99_ms=found.latency_p99_ms,
        send_lag_p99_ms=found.send_lag_p99_ms,
        server_share=found.server_cpu_s / found.client.elapsed_s,
        head_share=found.servers["head"].cpu_share,
        client_share=found.client.cpu_share,
        events_per_cpu_s=found.events_per_s * found.client.elapsed_s / max(found.server_cpu_s, 0.01),
        healthy="yes" if found.healthy else f"no: {found.unseen} unseen, {found.gaps} gaps, {found.dropped} dropped",
    )


def theirs(mode: Mode, devices: int, patch: peer.PatchRate, seconds: float, window: int) -> Row:
    found = peer.run(mode, devices, seconds, patch, window)
    return Row(
        system=f"colyseus, {patch}" + (" ms" if isinstance(patch, int) else ""),
        mode=mode,
        devices=devices,
        events_per_s=found.events_per_s,
        p50_ms=found.latency_p50_ms,
        p99_ms=found.latency_p99_ms,
        send_lag_p99_ms=found.send_lag_p99_ms,
        server_share=found.server.cpu_share,
        head_share=found.server.cpu_share,
        client_share=found.client.cpu_share,
        events_per_cpu_s=found.events_per_server_cpu_s,
        healthy=found.verdict,
    )


# Tables.


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def runs_table(rows: Iterable[Row]) -> Table:
    names = ["devices", "system", "events/s", "p50 ms", "p99 ms", "send lag p99 ms", "servers' CPU"]
    names += ["head's CPU", "client's CPU", "events per server CPU s", "whole"]
    table = Table(*(Column(name, justify="right") for name in names), title="Every run")
    for row in rows:
        table.add_row(
            f"{row.devices:,}", row.system, _number(row.events_per_s, 0), _number(row.p50_ms), _number(row.p99_ms),
            _number(row.send_lag_p99_ms), f"{row.server_share:.0%}", f"{row.head_share:.0%}", f"{row.client_share:.0%}",
            _number(row.events_per_cpu_s, 0), row.healthy,
        )  # fmt: skip
    return table


def ratios_table(rows: list[Row]) -> Table:
    names = ["ours", "devices", "events/s", "p50", "p99", "events per server CPU s"]
    table = Table(*(Column(name, justify="right") for name in names), title="Ahead by (to Colyseus' best setting)")
    systems = dict.fromkeys(row.system for row in rows if row.system.startswith("octoloom"))
    for system in systems:
        for devices in dict.fromkeys(row.devices for row in rows):
            table.add_row(system, f"{devices:,}", *ratios(rows, system, devices))
    return table


def ratios(rows: list[Row], system: str, devices: int) -> list[str]:
    """Rates of ours to theirs, times of theirs to ours: above 1 is ahead."""
    mine: dict[str, Row] = {row.mode: row for row in rows if row.system == system and row.devices == devices}
    peers = [row for row in rows if row.system.startswith("colyseus") and row.devices == devices]
    cells = []
    for mode, name, more_is_better in (
        ("throughput", "events_per_s", True),
        ("latency", "p50_ms", False),
        ("latency", "p99_ms", False),
        ("throughput", "events_per_cpu_s", True),
    ):
        theirs = [value for row in peers if row.mode == mode and (value := getattr(row, name))]
        value = getattr(mine.get(mode), name, None)
        if not theirs or not value:
            cells.append("–")
        else:
            cells.append(f"{value / max(theirs) if more_is_better else min(theirs) / value:.2f}")
    return cells


def compare(console: Console, modes: list[Mode], devices: list[int], seconds: float, window: int, links: int) -> None:
    rows: list[Row] = []
    reason = peer.available()
    if reason is None:
        peer.setup()
        console.print(f"Beside: {peer.description()}")
    else:
        console.print(f"Without the peer: {reason}")
    for mode in modes:
        for count in devices:
            with console.status(f"{mode}, {count:,} devices"):
                if reason is None:
                    rows += [theirs(mode, count, patch, seconds, window) for patch in (50, "tick")]
                rows += [ours(number, mode, count, seconds, window) for number in dict.fromkeys([links, 1])]
    console.print(runs_table(rows))
    if reason is None:
        console.print(ratios_table(rows))


def state_sizes(console: Console, seconds: float, links: int) -> None:
    """One device that changes a little, in a state of growing size."""
    names = ["state", "p50 ms", "p99 ms", "servers' CPU per event, ms", "ratio to 1 KB", "largest link, MB", "whole"]
    table = Table(
        *(Column(name, justify="right") for name in names), title=f"Small changes in a large state, {links} links"
    )
    base = 0.0
    for name, size in STATE_SIZES.items():
        with console.status(f"a state of {name}"), replicas(links, size) as chain:
            found = load(Settings(chain.urls, chain.pids, "latency", 1, seconds=seconds, warmup=2.0, rate=100.0))
        cost_ms = found.server_cpu_s / max(found.latency_count, 1) * 1000
        base = base or cost_ms
        rss_mb = max(usage.rss_end for usage in found.servers.values()) / 1e6
        table.add_row(
            name, _number(found.latency_p50_ms), _number(found.latency_p99_ms), _number(cost_ms, 2),
            _number(cost_ms / base, 2), _number(rss_mb, 0), "yes" if found.healthy else "no",
        )  # fmt: skip
    console.print(table)


@click.command()
@click.option("--part", type=click.Choice(["all", "compare", "state"]), default="all", show_default=True)
@click.option("--mode", "modes", multiple=True, type=click.Choice(["latency", "throughput"]))
@click.option("--devices", multiple=True, type=click.IntRange(1), default=DEVICES, show_default=True)
@click.option("--seconds", type=float, default=5.0, show_default=True, help="How long each run is measured.")
@click.option(
    "--window", type=click.IntRange(1), default=8, show_default=True, help="Unacknowledged events per device."
)
@click.option("--links", type=click.IntRange(1), default=3, show_default=True)
def main(part: str, modes: tuple[Mode, ...], devices: tuple[int, ...], seconds: float, window: int, links: int) -> None:
    """Measure our chain beside Colyseus. A few minutes, on a machine that has nothing else to do."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    if part in ("all", "compare"):
        compare(console, list(modes) or ["latency", "throughput"], list(devices), seconds, window, links)
    if part in ("all", "state"):
        state_sizes(console, seconds, links)


if __name__ == "__main__":
    main()
