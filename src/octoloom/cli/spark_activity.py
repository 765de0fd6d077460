"""`octoloom spark run activity`: rates, sessions, busiest devices, outcomes and latency, as tables and plots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from octoloom.cli.screen import console
from octoloom.cli.spark_journal_options import (
    every_option,
    follow_option,
    source_option,
    source_options,
    topic_option,
    wait_for,
)
from octoloom.cli.spark_options import Common, spark_options
from octoloom.core.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from octoloom.spark.activity import Report
    from octoloom.spark.journal_files import Commit

OUT = Path("activity")
DEVICES_SHOWN = 10
PIECES_SHOWN = 10


@click.command(short_help="Rates, sessions, busiest devices and latency, with plots.")
@click.option(
    "--tables",
    type=click.Path(path_type=Path, file_okay=False),
    help="Tables that `octoloom spark run journal` has made, in place of the topic.",
)
@click.option(
    "--piece",
    "width_s",
    type=click.IntRange(1),
    metavar="SECONDS",
    help="The width of the pieces of time.  [default: as the whole time needs]",
)
@topic_option
@follow_option
@every_option
@source_option
@spark_options
def command(
    common: Common,
    tables: Path | None,
    width_s: int | None,
    topic: str,
    follow: bool,
    every_s: float,
    given: tuple[str, ...],
) -> None:
    """Tell what goes on in the spaces: events per minute, outcomes, the busiest devices, sessions, latency.

    Tables go to the terminal and, as Parquet, to --out, with plots as SVG and PNG; activity.png has all of them. The
    journal's own tables are in its folder `tables`. With --follow all of it is made anew as the journal grows.

    \b
    Examples:
      octoloom spark run activity --out report
      octoloom spark run activity --out report --follow --every 10
      octoloom spark run activity --tables tables --piece 60 --out report
    """
    from octoloom.spark.activity import write_activity
    from octoloom.spark.journal_tables import read_journal, read_tables, write_tables
    from octoloom.spark.progress import progress

    out = common.out or OUT
    if tables is not None and follow:
        raise UsageError("--tables are what they are: leave them out to --follow the topic")
    options = source_options(common, topic, given) if tables is None else {}
    with common.spark("activity") as spark:
        if follow:
            _follow(spark, options, out, width_s, every_s)
            return
        with progress(spark, "activity", quiet=common.quiet):
            if tables is None:
                write_tables(read_journal(spark, options), out / "tables", overwrite=True)
            report = write_activity(read_tables(spark, tables or out / "tables"), out, width_s)
    show(console(), report, out)


def _follow(spark: SparkSession, options: dict[str, str], out: Path, width_s: int | None, every_s: float) -> None:
    from octoloom.spark.activity import write_activity
    from octoloom.spark.journal_stream import follow_tables
    from octoloom.spark.journal_tables import read_journal, read_tables

    screen = console()

    def heard(commit: Commit) -> None:
        if not commit.tables.get("changes"):
            return
        report = write_activity(read_tables(spark, out / "tables"), out, width_s)
        if screen.is_terminal:
            screen.clear()
            show(screen, report, out)
        else:
            screen.print(headline(report), soft_wrap=True)

    stream = read_journal(spark, options, stream=True)
    wait_for(follow_tables(stream, out / "tables", every_s=every_s, heard=heard))


def headline(report: Report) -> str:
    totals = report["totals"].to_pylist()[0]
    parts = ("events", "changes", "spaces", "devices", "sessions")
    text = ", ".join(f"{totals[part]:,} {part}" for part in parts)
    if totals["p50_ms"] is None:
        return text
    return f"{text}; latency {totals['p50_ms']:,.0f} ms, 99 % {totals['p99_ms']:,.0f} ms"


def show(screen: Console, report: Report, out: Path) -> None:
    screen.print(headline(report), soft_wrap=True)
    rates, latency = report["rates"].to_pylist(), report["latency"].to_pylist()
    width_s = report["totals"].to_pylist()[0]["width_s"]
    table = _table(f"Events, in pieces of {width_s} s", "from", "events", "per minute", "rejected", "there")
    for name in ("half", "90 %", "99 %"):
        table.add_column(f"{name} ms", justify="right")
    for rate, late in list(zip(rates, latency, strict=True))[-PIECES_SHOWN:]:
        percentiles = [_ms(late[name]) for name in ("p50_ms", "p90_ms", "p99_ms")]
        counts = [f"{rate['events']:,}", f"{rate['events_per_minute']:,.0f}", f"{rate['rejected']:,}"]
        table.add_row(f"{rate['begin']:%Y-%m-%d %H:%M:%S}", *counts, f"{rate['present']:,}", *percentiles)
    screen.print(table)
    if len(rates) > PIECES_SHOWN:
        screen.print(f"  and {len(rates) - PIECES_SHOWN:,} before them: {out / 'rates.parquet'}", soft_wrap=True)
    screen.print(_rows("Outcomes", report["outcomes"], {"outcome": "", "events": "", "share": ".1%"}))
    if report["reasons"].num_rows:
        screen.print(_rows("Why not applied", report["reasons"].slice(0, 5), {"reason": "", "events": ""}))
    busiest = report["busiest"].slice(0, DEVICES_SHOWN)
    screen.print(_rows("Busiest devices", busiest, {"device": "", "events": "", "applied": "", "rejected": ""}))
    lengths = {"length": "", "sessions": "", "ended": "", "open": ""}
    screen.print(_rows("Sessions", report["session_lengths"], lengths))
    screen.print(f"\n{out / 'activity.png'} shows all of it", soft_wrap=True)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


def _rows(title: str, rows: Any, columns: dict[str, str]) -> Table:
    table = _table(title, *columns)
    for row in rows.to_pylist():
        table.add_row(*(_text(row[name], form) for name, form in columns.items()))
    return table


def _text(value: Any, form: str) -> str:
    return f"{value:{form or ','}}" if isinstance(value, int | float) else str(value)


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
