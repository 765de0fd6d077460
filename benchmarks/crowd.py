"""A crowd on one space: 1,000 devices that send and 2,000 observers that watch, on this machine.

The devices are at the head, the observers are spread over all three links. Printed are rates, what devices and
observers waited, and the memory of every process: at the start, at its peak and at the end of the measured time. It
counts as bounded if the last samples are not above the first ones by more than `GROWTH_MAX`.

Two loads after each other, each on a fresh chain: a modest one (open loop, for the latency) and as much as the
machine takes (closed loop, for the memory).
"""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.table import Column, Table

from chain import load
from load import LoadResult, Mode, Settings
from replicas import replicas

GROWTH_MAX = 1.25
SLACK_BYTES = 16_000_000


def measure(mode: Mode, devices: int, observers: int, seconds: float, rate: float, links: int) -> LoadResult:
    with replicas(links) as chain:
        settings = Settings(
            chain.urls, chain.pids, mode, devices, observers, seconds=seconds, warmup=3.0, window=8, rate=rate / devices
        )
        return load(settings)


def is_bounded(found: LoadResult) -> bool:
    return all(use.rss_end <= use.rss_start * GROWTH_MAX + SLACK_BYTES for use in found.servers.values())


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def show(console: Console, mode: Mode, found: LoadResult) -> None:
    console.print(
        f"{mode}: {found.events_per_s:,.0f} events/s, {found.messages_per_s:,.0f} messages/s to the crowd; "
        f"devices p50 {_ms(found.latency_p50_ms)} p99 {_ms(found.latency_p99_ms)} ms, "
        f"observers p50 {_ms(found.observer_p50_ms)} p99 {_ms(found.observer_p99_ms)} ms; "
        f"whole: {'yes' if found.healthy else 'NO'}, memory bounded: {'yes' if is_bounded(found) else 'NO'}"
    )
    names = ["process", "CPU", "RSS at the start, MB", "at its peak", "at the end"]
    table = Table(*(Column(name, justify="right") for name in names))
    for name, use in {**found.servers, "load generator": found.client}.items():
        sizes = (f"{size / 1e6:,.0f}" for size in (use.rss_start, use.rss_peak, use.rss_end))
        table.add_row(name, f"{use.cpu_share:.0%}", *sizes)
    console.print(table)


@click.command()
@click.option("--devices", type=click.IntRange(1), default=1_000, show_default=True)
@click.option("--observers", type=click.IntRange(0), default=2_000, show_default=True)
@click.option("--seconds", type=float, default=20.0, show_default=True, help="How long each load is measured.")
@click.option("--rate", type=float, default=1_000.0, show_default=True, help="Events per second of the modest load.")
@click.option("--links", type=click.IntRange(1), default=3, show_default=True)
def main(devices: int, observers: int, seconds: float, rate: float, links: int) -> None:
    """Have a crowd on one space, and see that memory stays bounded."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(f"{devices:,} devices and {observers:,} observers on one space, {links} links")
    good = True
    for mode in ("latency", "throughput"):
        with console.status(mode):
            found = measure(mode, devices, observers, seconds, rate, links)
        show(console, mode, found)
        good = good and found.healthy and is_bounded(found)
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
