"""`octoloom spark run journal`: typed tables of the journal, in Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.table import Table

from octoloom.cli.options import json_option
from octoloom.cli.screen import console
from octoloom.cli.spark_journal_options import (
    every_option,
    follow_option,
    on_error_option,
    source_option,
    source_options,
    topic_option,
    wait_for,
)
from octoloom.cli.spark_options import Common, spark_options

if TYPE_CHECKING:
    from octoloom.spark.journal_files import Commit

OUT = Path("journal-tables")

MEANINGS = {
    "rows": ("records read", ""),
    "taken": ("taken", "each version of each space once"),
    "doubles": ("doubles", "published again by a new head"),
    "late": ("late", "of a chain that was lost before"),
    "marks": ("marks", "of links that read the journal"),
    "dead": ("dead letters", "not to be read: see the table dead_letters"),
    "voided": ("voided versions", "taken out again: a chain that lost all links began anew below them"),
}


@click.command(short_help="Typed tables of spaces, events, changes, outcomes and devices.")
@topic_option
@on_error_option
@click.option("--overwrite", is_flag=True, help="Replace the tables that are there.")
@follow_option
@every_option
@source_option
@json_option
@spark_options
def command(
    common: Common,
    topic: str,
    on_error: str,
    overwrite: bool,
    follow: bool,
    every_s: float,
    given: tuple[str, ...],
    as_json: bool,
) -> None:
    """Turn the journal into tables: changes, events, outcomes, presence, spaces and devices, as Parquet.

    Each version of each space is there once. What cannot be read goes to the table dead_letters, and what became of
    every record is counted. With --follow the tables grow as the journal does; killed and started again, it goes on
    where it was, and every record counts once.

    \b
    Examples:
      octoloom spark run journal --out tables
      octoloom spark run journal --out live --follow
      octoloom spark run journal --option archive=archives --out tables
    """
    from octoloom.spark.journal_stream import follow_tables
    from octoloom.spark.journal_tables import read_journal, write_tables
    from octoloom.spark.progress import progress

    out = common.out or OUT
    options = source_options(common, topic, given)
    with common.spark("journal") as spark, progress(spark, "journal", quiet=common.quiet) as line:
        if not follow:
            commit = write_tables(read_journal(spark, options), out, on_error=on_error, overwrite=overwrite)
        else:

            def heard(commit: Commit) -> None:
                line.say(f"batch {commit.batch}")
                line.count(commit.counts.rows)

            stream = read_journal(spark, options, stream=True)
            wait_for(follow_tables(stream, out, on_error=on_error, every_s=every_s, heard=heard))
            return
    show(commit, out, as_json)


def show(commit: Commit, out: Path, as_json: bool) -> None:
    if as_json:
        content = {"directory": str(out), "counts": commit.counts, "tables": commit.tables}
        click.echo(msgspec.json.encode(content).decode())
        return
    screen = console()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    for field, (name, meaning) in MEANINGS.items():
        count: int = getattr(commit.counts, field)
        if count or field in ("rows", "taken", "dead"):
            table.add_row(name, f"{count:,}", meaning if count else "")
    screen.print(table)
    rows = ", ".join(f"{count:,} {name}" for name, count in commit.tables.items())
    screen.print(f"\n{out}: {rows or 'no rows'}", soft_wrap=True)
