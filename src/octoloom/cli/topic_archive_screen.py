"""What `octoloom topic archive` shows: progress, what was done, and what is archived."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from octoloom.cli.screen import console
from octoloom.core.errors import UsageError
from octoloom.spark.archive import check_archive
from octoloom.spark.archive_manifest import Manifest, archived_topics, load_manifest

if TYPE_CHECKING:
    from octoloom.spark.archiving import ArchiveReport

UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


@contextlib.contextmanager
def progress() -> Iterator[Callable[[ArchiveReport], None]]:
    """A bar on standard error, in a terminal only; it is wiped away at the end."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        line = bar.add_task("archiving", total=None)

        def show(report: ArchiveReport) -> None:
            total = sum(part.until - part.first for part in report.partitions)
            done = sum(part.end - part.first for part in report.partitions)
            speed = f"{report.rows / report.seconds:,.0f}/s" if report.seconds else ""
            bar.update(line, total=total, completed=done, description=f"{report.rows:,} records {speed}")

        yield show


def show_report(report: ArchiveReport, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
        return
    if not report.rows and not report.lost:
        click.echo(f"nothing new: all of {report.topic} is in {report.directory} as far as you asked for")
        return
    numbers = ("partition", "records", "files", "size", "lost")
    table = _table(("partition", "offsets", "records", "files", "size", *(("lost",) if report.lost else ())), numbers)
    for part in report.partitions:
        offsets = f"{part.first} to {part.end - 1}" if part.end > part.first else f"nothing after {part.first - 1}"
        cells = (str(part.partition), offsets, f"{part.rows:,}", str(part.files), size_text(part.bytes))
        table.add_row(*cells, *((Text(f"{part.lost:,}", style="red" if part.lost else ""),) if report.lost else ()))
    screen = console()
    screen.print(table, soft_wrap=True)
    screen.print(line_of(report), soft_wrap=True)


def show_line(report: ArchiveReport, as_json: bool) -> None:
    """One line for each time that something was archived."""
    click.echo(msgspec.json.encode(report).decode() if as_json else line_of(report))


def line_of(report: ArchiveReport) -> str:
    lost = f"; {report.lost:,} were gone before" if report.lost else ""
    files = f"{report.files} file{'' if report.files == 1 else 's'} of {size_text(report.bytes)}"
    return f"archived {report.rows:,} records of {report.topic} in {files}, {report.seconds:.1f} s{lost}"


def show_archives(directory: Path, as_json: bool, check: bool) -> bool:
    """What is archived; with `check` every byte is read. False if something is not as it was written."""
    topics = archived_topics(str(directory))
    manifests = [found for topic in topics if (found := load_manifest(str(directory), topic)) is not None]
    if not manifests:
        raise UsageError(f"nothing is archived in {directory}: see `octoloom topic archive --help`")
    damage = [str(found) for topic in topics for found in check_archive(str(directory), topic)] if check else []
    if as_json:
        told = {"archives": manifests, **({"damage": damage} if check else {})}
        click.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
    else:
        _show(manifests)
        for text in damage:
            click.echo(text, err=True)
        if check and not damage:
            count = sum(len(manifest.files) for manifest in manifests)
            click.echo(f"all {count} files are as they were written")
    return not damage


def _show(manifests: Sequence[Manifest]) -> None:
    numbers = ("partition", "records", "files", "size")
    table = _table(("topic", "partition", "offsets", "records", "files", "size", "from", "to"), numbers)
    for manifest in manifests:
        if not manifest.files:
            table.add_row(manifest.topic, "", "nothing yet")
        for partition in manifest.partitions():
            files = manifest.of(partition)
            table.add_row(
                manifest.topic,
                str(partition),
                ", ".join(f"{first} to {end - 1}" for first, end in manifest.runs(partition)),
                f"{sum(file.rows for file in files):,}",
                str(len(files)),
                size_text(sum(file.bytes for file in files)),
                time_text(min(file.time_min for file in files)),
                time_text(max(file.time_max for file in files)),
            )
    console().print(table, soft_wrap=True)


def size_text(size: float) -> str:
    unit = 0
    while size >= 1000 and unit < len(UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.1f} {UNITS[unit]}"


def time_text(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "?"


def _table(headings: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left", no_wrap=True)
    return table
