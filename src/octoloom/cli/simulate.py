"""`octoloom simulate`: search seeded histories for one that breaks a promise, and replay it."""

from __future__ import annotations

import os
import time

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from octoloom.cli.screen import console
from octoloom.simulation.search import Found, search, transcript

LAST_LINES = 60
TELL_S = 5.0
"""In a pipe the progress is a line this often."""


@click.group(short_help="Search simulated histories for a broken promise.")
def command() -> None:
    """Play whole clusters from a seed, with crashes, partitions and delays, and check every promise.

    \b
    Examples:
      octoloom simulate chain --seeds 2000
      octoloom simulate chain --seed 17
      octoloom simulate log --seeds 2000
      octoloom simulate group --seeds 2000
    """


def _add(what: str, cast: str) -> None:
    @command.command(
        what,
        short_help=f"Histories of {cast}.",
        help=f"""Search for a history of {cast} that breaks a promise.

    Exits with 1 if there is one: its last lines are shown, and the command that replays it.

    \b
    Examples:
      octoloom simulate {what} --seeds 2000
      octoloom simulate {what} --seeds 100000 --start 500000 --jobs 2
      octoloom simulate {what} --seed 17 | less
    """,
    )
    @click.option("--seeds", type=click.IntRange(1), help="How many histories to try.")
    @click.option("--seed", type=int, help="Replay this one and print its transcript.")
    @click.option("--start", type=int, default=0, show_default=True, help="The first seed.")
    @click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True, help="Processes.")
    def simulate(seeds: int | None, seed: int | None, start: int, jobs: int) -> None:
        if (seeds is None) == (seed is None):
            raise click.UsageError("give either --seeds N to search, or --seed K to replay one")
        if seed is not None:
            _replay(what, seed)
        else:
            assert seeds is not None
            _search(what, start, seeds, jobs)


_add("chain", "devices, links and a register")
_add("log", "producers, brokers with their disks, a register and consumers")
_add("consumers", "consumer groups and their coordinator")
_add("members", "members of our own in a consumer group, with the apps that they read for")
_add("group", "ordered groups, their views and their orders")


def _replay(what: str, seed: int) -> None:
    lines, broken = transcript(what, seed)
    for line in lines:
        click.echo(line)
    if broken:
        click.echo(f"\nseed {seed} breaks a promise: {broken}")
        raise click.exceptions.Exit(1)
    click.echo(f"\nseed {seed}: every promise held")


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.finished_speed or task.speed or 0:.0f} seeds/s")


def _search(what: str, first: int, count: int, jobs: int) -> None:
    begun = time.monotonic()
    tried, found = _search_with_progress(what, first, count, jobs)
    elapsed = time.monotonic() - begun
    click.echo(f"{tried} seeds from {first} on in {elapsed:.1f} s, {tried / elapsed:.0f} seeds/s")
    if found is None:
        click.echo("every promise held in every history")
        return
    lines, _ = transcript(what, found.seed)
    click.echo(f"\nseed {found.seed} breaks a promise: {found.promise}\n\nits last lines:")
    for line in lines[-LAST_LINES:]:
        click.echo(line)
    click.echo(f"\nreplay it with: octoloom simulate {what} --seed {found.seed}")
    raise click.exceptions.Exit(1)


def _search_with_progress(what: str, first: int, count: int, jobs: int) -> tuple[int, Found | None]:
    screen = console()
    tried, told_at = 0, time.monotonic()
    columns = (TextColumn("searching"), BarColumn(), MofNCompleteColumn(), _Speed(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("", total=count)

        def progress(more: int) -> None:
            nonlocal tried, told_at
            tried += more
            bar.advance(task, more)
            if not screen.is_terminal and time.monotonic() - told_at > TELL_S:
                told_at = time.monotonic()
                click.echo(f"{tried} of {count} seeds")

        found = search(what, first, count, jobs, progress)
    return tried, found
