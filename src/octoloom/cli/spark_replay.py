"""`octoloom spark run replay`: history computed again with given code. It exits with 1 if anything would differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec
from rich.markup import escape
from rich.table import Table

from octoloom.cli.options import json_option
from octoloom.cli.screen import console
from octoloom.cli.spark_journal_options import source_option, source_options, topic_option
from octoloom.cli.spark_options import Common, spark_options
from octoloom.runtime.apps import load_app

if TYPE_CHECKING:
    from octoloom.core.replay import Divergence
    from octoloom.spark.replay import ReplayReport

SHOWN = 10
DIFFERS = 1
"""How the command ends if anything differs: a deploy can be gated on it."""


@click.command(short_help="Fold the whole history with given code, and compare.")
@click.argument("app")
@click.option("--report", is_flag=True, help="Say what would differ with changed code: outcomes, states, examples.")
@click.option("--show", type=click.IntRange(1, 1000), default=SHOWN, show_default=True, help="How many spaces to name.")
@topic_option
@source_option
@json_option
@spark_options
def command(
    common: Common, app: str, report: bool, show: int, topic: str, given: tuple[str, ...], as_json: bool
) -> None:
    """Compute all of history again with APP (module:app or path/to/file.py:app), all spaces in parallel.

    Every change is computed from the recorded state before it and compared: how each event ended and why, the state,
    the timers. Exits with 1 if anything differs, and names the event.

    \b
    Examples:
      octoloom spark run replay octoloom.arena:app
      octoloom spark run replay game.py:app --report
      octoloom spark run replay game.py:app --quiet --json | jq .outcomes
    """
    from octoloom.spark.journal_tables import read_journal
    from octoloom.spark.progress import progress
    from octoloom.spark.replay import replay

    options = source_options(common, topic, given)
    load_app(app)
    with common.spark("replay") as spark, progress(spark, "replaying", quiet=common.quiet):
        found = replay(read_journal(spark, options), app)
    text = msgspec.json.encode({"clean": found.clean, **msgspec.structs.asdict(found)})
    if common.out is not None:
        common.out.write_bytes(text)
    if as_json:
        click.echo(text)
    else:
        _show(found, report, show)
    if not found.clean:
        raise click.exceptions.Exit(DIFFERS)


def _show(found: ReplayReport, report: bool, show: int) -> None:
    screen = console()
    seen = f"{found.spaces:,} spaces, {found.changes:,} changes, {found.events:,} events"
    if found.clean:
        screen.print(f"[green]the same[/]: {seen} come out of {escape(found.app)} as they were recorded")
        return
    differing = found.spaces - found.same
    screen.print(f"[red]not the same[/]: {differing:,} of {seen} differ with {escape(found.app)}")
    if report:
        _show_report(found)
    for verdict in found.verdicts[:show]:
        for divergence in verdict.first[: None if report else 1]:
            screen.print(_told(divergence), soft_wrap=True)
    if len(found.verdicts) > show or differing > len(found.verdicts):
        screen.print(f"… and {differing - min(show, len(found.verdicts)):,} more spaces (--show, --json)")
    if found.dead:
        screen.print(f"[red]{found.dead:,} records cannot be read[/]:")
    for letter in found.letters[:show]:
        place = f"{letter.topic}, partition {letter.partition}, offset {letter.offset}"
        screen.print(f"  {place}: {escape(letter.reason)}", soft_wrap=True)
    for space in found.doubled[:show]:
        screen.print(f"[red]{escape(space)}[/] has records in two partitions: nobody knows their order")


def _show_report(found: ReplayReport) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("what would differ")
    table.add_column("times", justify="right")
    for words, count in found.outcomes.items():
        table.add_row(f"outcome: {words}", f"{count:,}")
    for what, count in found.counts.items():
        if what != "outcome":
            table.add_row(what, f"{count:,}")
    table.add_row("spaces whose state would be another today", f"{found.ended_elsewhere:,}")
    if found.unread:
        table.add_row("changes behind a gap, not computed", f"{found.unread:,}")
    console().print(table)
    for verdict in [each for each in found.verdicts if each.end][:SHOWN]:
        console().print(f"  {escape(verdict.space)}: {escape(verdict.end)}", soft_wrap=True)


def _told(found: Divergence) -> str:
    place = f"{found.space}, version {found.version}"
    if found.generation > 1:
        place += f" of generation {found.generation}"
    event = f": {found.name} {found.payload} of {found.device}, number {found.sequencer}" if found.name else ""
    doubt = "" if found.certain else " (or another event of this change)"
    sides = f"{found.what} was recorded as: {found.recorded}\n    and comes out as: {found.replayed}"
    return escape(f"{place}{event}{doubt}\n    {sides}")
