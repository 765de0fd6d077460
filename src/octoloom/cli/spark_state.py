"""`octoloom spark run state`: the state of a space, or of all, at any moment."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from octoloom.cli.spark_journal_options import source_option, source_options, topic_option
from octoloom.cli.spark_options import Common, spark_options
from octoloom.core.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALL = "all"


@click.command(short_help="The state of a space, or of all, at any moment.")
@click.option(
    "--at",
    "moment",
    metavar="VERSION|TIME",
    help="A version such as 1200, a time like 2026-01-31T12:00, or @MILLISECONDS since 1970.  [default: the newest]",
)
@click.option("--space", default=ALL, show_default=True, metavar="NAME", help="One space, or all of them.")
@topic_option
@source_option
@spark_options
def command(common: Common, moment: str | None, space: str, topic: str, given: tuple[str, ...]) -> None:
    """Print the state that a space had, as JSON; or of all spaces, a line of JSON for each.

    With --out it goes to a file. All spaces are lines of JSON if its name ends in .jsonl, and Parquet otherwise.

    \b
    Examples:
      octoloom spark run state --space lobby --at 1200
      octoloom spark run state --space lobby --at 2026-01-31T12:00 | jq .cells
      octoloom spark run state --at @1767225600000 --out states.parquet
    """
    from octoloom.spark.journal_tables import read_journal
    from octoloom.spark.progress import progress
    from octoloom.spark.states import NEWEST, parse_at, read_space, state_of, states

    at = parse_at(moment) if moment is not None else NEWEST
    options = source_options(common, topic, given)
    with common.spark("state") as spark, progress(spark, "state", quiet=common.quiet):
        if space != ALL:
            found = state_of(read_space(spark, options, space), space, at)
            _write(common.out, [msgspec.json.format((found.state or "").encode(), indent=2), b"\n"])
            return
        everything = states(read_journal(spark, options), at).cache()
        _write_all(everything, common.out)
        _tell_problems(everything)


def _write_all(found: DataFrame, out: Path | None) -> None:
    from octoloom.spark.states import lines

    if out is None or out.suffix == ".jsonl":
        _write(out, lines(found))
    elif out.exists():
        raise UsageError(f"{out} is there already: choose another name")
    else:
        found.where("state is not null").drop("problem").coalesce(1).write.parquet(str(out.absolute()))


def _write(out: Path | None, texts: Iterable[bytes]) -> None:
    if out is None:
        for text in texts:
            click.echo(text, nl=False)
        return
    part = out.with_name(f".{out.name}.part")
    with part.open("wb") as file:
        for text in texts:
            file.write(text)
    os.replace(part, out)


def _tell_problems(found: DataFrame) -> None:
    """Spaces without a state are told of; a missing record is an error."""
    problems = found.where("problem is not null").select("space", "problem")
    count = problems.count()
    for row in problems.orderBy("space").limit(5).collect():
        click.echo(f"{row['space']}: {row['problem']}", err=True)
    if count > 5:
        click.echo(f"and {count - 5:,} more spaces without a state then", err=True)
    if problems.where("contains(problem, 'a record is missing')").limit(1).count():
        raise click.exceptions.Exit(1)
