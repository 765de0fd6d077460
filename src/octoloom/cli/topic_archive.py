"""`octoloom topic archive`: a topic into Parquet files, once or for as long as it runs, and a look at what is there."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from octoloom.cli.broker_options import INTERRUPTED, bootstrap_option
from octoloom.cli.options import json_option
from octoloom.core.errors import UsageError
from octoloom.runtime.log_errors import LogError

if TYPE_CHECKING:
    from octoloom.spark.archiving import Archiver, ArchiveReport, Until

FILE_ROWS = 1_000_000
EVERY_S = 600
POLL_S = 2.0
"""With --follow: how often the brokers are asked whether there is more."""

DIRECTORY = click.Path(path_type=Path, file_okay=False)
THERE = click.Path(path_type=Path, file_okay=False, exists=True)


@click.command(short_help="Write a topic into Parquet files.")
@click.argument("name", required=False, metavar="NAME")
@click.argument("directory", required=False, type=DIRECTORY, metavar="DIRECTORY")
@click.option(
    "--until",
    default="end",
    show_default=True,
    metavar="PLACE",
    help="How far: end, sealed (whole files only), an offset, a time like 2026-01-31T12:00, or @MILLISECONDS.",
)
@click.option("--follow", is_flag=True, help="Go on until Ctrl-C: whole files as they fill, the rest now and then.")
@click.option(
    "--every",
    "every_s",
    type=click.IntRange(1, 7 * 86_400),
    default=EVERY_S,
    show_default=True,
    metavar="SECONDS",
    help="With --follow: how often a file is written that is not full.",
)
@click.option("--path", "paths", multiple=True, type=THERE, help="A broker's data on this machine; may be repeated.")
@click.option(
    "--file-rows", type=click.IntRange(1, 100_000_000), default=FILE_ROWS, show_default=True, help="Per file."
)
@click.option(
    "--codec", type=click.Choice(["lz4", "zstd", "snappy", "none"]), default="lz4", show_default=True, help="Of files."
)
@click.option("--allow-gaps", is_flag=True, help="Go on if retention has removed what was not archived yet.")
@click.option("--list", "listed", type=THERE, metavar="DIRECTORY", help="Show what is archived there.")
@click.option("--check", "checked", type=THERE, metavar="DIRECTORY", help="Read all that is archived there.")
@json_option
@bootstrap_option
def archive(
    name: str | None,
    directory: Path | None,
    until: str,
    follow: bool,
    every_s: int,
    paths: tuple[Path, ...],
    file_rows: int,
    codec: str,
    allow_gaps: bool,
    listed: Path | None,
    checked: Path | None,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Write the topic NAME into Parquet files below DIRECTORY, from where the last run stopped.

    Spark reads archive and log as one (option archive), whatever retention removes from the log. An archiver may be
    killed at any time: what it had finished is kept, and the next one goes on from there.

    \b
    Examples:
      octoloom topic archive moves /data/archive
      octoloom topic archive moves /data/archive --follow
      octoloom topic archive moves /data/archive --until 2026-01-31T12:00
      octoloom topic archive moves /data/archive --path octoloom-data/brokers/b1
      octoloom topic archive --list /data/archive
      octoloom topic archive --check /data/archive
    """
    _need_arrow()
    from octoloom.cli import topic_archive_screen as screen

    looked = listed or checked
    if looked is not None:
        if name is not None or (listed and checked):
            raise UsageError("--list and --check take a directory and nothing else: leave the rest out")
        is_whole = screen.show_archives(looked, as_json, check=checked is not None)
        raise click.exceptions.Exit(0 if is_whole else 1)
    if name is None or directory is None:
        raise UsageError("name a topic and a directory, as in `octoloom topic archive moves /data/archive`")
    if follow and until != "end":
        raise UsageError("--follow has no end: leave out --until")
    place = _place(until)
    from octoloom.spark.archiving import Archiver, open_log

    log = open_log(bootstrap, [str(path) for path in paths])
    with _ended_cleanly(), Archiver(log, name, str(directory), file_rows, codec, allow_gaps) as archiver:
        if follow:
            _follow(archiver, every_s, as_json)
        else:
            with screen.progress() as shown:
                report = archiver.run(place, shown)
            screen.show_report(report, as_json)


def _need_arrow() -> None:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(f"archives need pyarrow ({error}): pip install 'octoloom[spark]'") from error
    # It would use a thread for each core; one topic does not need them.
    pyarrow.set_cpu_count(1)


def _place(text: str) -> Until:
    from octoloom.cli.topic_format import parse_start
    from octoloom.runtime.log_consumer import Timestamp

    if text == "sealed":
        return "sealed"
    with contextlib.suppress(UsageError):
        place = parse_start(text)
        if place == "end" or isinstance(place, int | Timestamp):
            return "end" if place == "end" else place
    known = "end, sealed, an offset, a time like 2026-01-31T12:00, or @MILLISECONDS"
    raise UsageError(f"{text!r} is no place to stop: write {known}")


@contextlib.contextmanager
def _ended_cleanly() -> Iterator[None]:
    """Ctrl-C and SIGTERM end it between two steps. What was finished is kept."""

    def interrupt(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        click.echo("stopped: what was archived is kept, and the next run goes on from there", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _follow(archiver: Archiver, every_s: int, as_json: bool) -> None:
    """Full files at once, and what there is every so often."""
    from octoloom.cli import topic_archive_screen as screen

    due = time.monotonic()
    while True:
        is_due = time.monotonic() >= due
        report = _tried(lambda is_due=is_due: archiver.run("end" if is_due else "sealed"))  # type: ignore[misc]
        if report is not None:
            if report.rows or report.lost:
                screen.show_line(report, as_json)
            if is_due:
                due = time.monotonic() + every_s
        time.sleep(POLL_S)


def _tried(work: Callable[[], ArchiveReport]) -> ArchiveReport | None:
    """A cluster that is away for a while is no reason to end."""
    try:
        return work()
    except LogError as error:
        if not error.retriable:
            raise
        click.echo(f"{error}; trying again", err=True)
        sys.stderr.flush()
        return None
