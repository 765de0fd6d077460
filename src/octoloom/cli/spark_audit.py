"""`octoloom spark run audit`: every promise against journal, logs and traces. It exits with 1 if it finds anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from octoloom.cli.options import json_option
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
from octoloom.runtime.apps import load_app

if TYPE_CHECKING:
    from octoloom.core.findings import Finding
    from octoloom.spark.audit_report import AuditReport

NOT_CLEAN = 1
GROUP = "group"
"""The group of files that were named without one."""
FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command(short_help="Check every promise against journal, logs and traces.")
@topic_option
@click.option("--no-journal", is_flag=True, help="Leave the journal out.")
@click.option("--log", "topics", multiple=True, metavar="TOPIC", help="A topic whose log to audit.  [default: all]")
@click.option("--no-logs", is_flag=True, help="Leave the brokers' logs out.")
@click.option(
    "--path",
    "directories",
    multiple=True,
    type=click.Path(file_okay=False, exists=True),
    help="The data directory of a broker on this machine: replicas are compared.",
)
@click.option("--steps", multiple=True, metavar="[GROUP=]FILE", help="Steps of a group's members; may be repeated.")
@click.option("--steps-topic", "step_topics", multiple=True, metavar="TOPIC", help="A topic with the steps of a group.")
@click.option("--acknowledged", multiple=True, type=FILE, help="JSON lines: what producers and devices were told.")
@click.option("--app", help="Compute history again with this app (module:app or path/to/file.py:app).")
@follow_option
@every_option
@source_option
@json_option
@spark_options
def command(
    common: Common,
    topic: str,
    no_journal: bool,
    topics: tuple[str, ...],
    no_logs: bool,
    directories: tuple[str, ...],
    steps: tuple[str, ...],
    step_topics: tuple[str, ...],
    acknowledged: tuple[Path, ...],
    app: str | None,
    follow: bool,
    every_s: float,
    given: tuple[str, ...],
    as_json: bool,
) -> None:
    """Audit the journal, the brokers' logs and the traces of groups, and say what was found, by name and place.

    Exits with 1 if anything was found.

    \b
    Examples:
      octoloom spark run audit
      octoloom spark run audit --app game.py:app --acknowledged told.jsonl
      octoloom spark run audit --no-journal --no-logs --steps lunch=ada.steps --steps lunch=bob.steps
      octoloom spark run audit --follow --out audit
      octoloom spark run audit --json --quiet | jq .counts
    """
    # Traces of groups are audited where no broker runs.
    options = {} if no_journal and not follow else source_options(common, topic, given)
    if follow:
        _follow(common, options, every_s)
        return
    if app is not None:
        load_app(app)
    from octoloom.spark.acknowledgements import read_acknowledgements
    from octoloom.spark.audit import audit
    from octoloom.spark.progress import progress

    told = read_acknowledgements(acknowledged)
    groups = _groups(steps)
    with common.spark("audit") as spark, progress(spark, "auditing", quiet=common.quiet):
        found = audit(
            spark,
            bootstrap="" if no_logs and not step_topics else common.bootstrap,
            journal=None if no_journal else options,
            topics=None if no_logs else topics,
            directories=directories,
            steps=groups,
            step_topics=step_topics,
            told=told,
            app=app,
        )
    if common.out is not None:
        common.out.write_bytes(found.to_json())
    if as_json:
        click.echo(found.to_json())
    else:
        _show(found)
    if not found.clean:
        raise click.exceptions.Exit(NOT_CLEAN)


def _groups(steps: Sequence[str]) -> dict[str, list[str | Path]]:
    groups: dict[str, list[str | Path]] = {}
    for given in steps:
        group, is_named, file = given.partition("=")
        groups.setdefault(group if is_named else GROUP, []).append(file if is_named else given)
    return groups


def _show(found: AuditReport) -> None:
    from octoloom.spark.audit_report import SHOWN_MAX

    screen = console()
    screen.print(found.summary())
    if found.clean:
        return
    screen.print()
    screen.print(found.meanings())
    screen.print()
    shown = 0
    for finding in found.findings():
        shown += 1
        if shown <= SHOWN_MAX:
            screen.print(_told(finding), soft_wrap=True)
    left = sum(found.counts.values()) - min(shown, SHOWN_MAX)
    if left > 0:
        screen.print(f"… and {left:,} more (--json)")


def _told(finding: Finding) -> str:
    place = f" ({finding.place})" if finding.place else ""
    return f"[red]{finding.name}[/] {escape(finding.about)}{escape(place)}: {escape(finding.text)}"


def _follow(common: Common, options: dict[str, str], every_s: float) -> None:
    from octoloom.spark.audit_stream import follow_audit
    from octoloom.spark.journal_tables import read_journal

    if common.out is None:
        raise UsageError("--follow keeps what it knows in a directory: name one with --out")
    screen = console()

    def heard(findings: Sequence[Finding]) -> None:
        for finding in findings:
            screen.print(_told(finding), soft_wrap=True)

    with common.spark("audit") as spark:
        query = follow_audit(read_journal(spark, options, stream=True), common.out, heard, every_s=every_s)
        if not common.quiet:
            screen.print("findings are told as they arise, Ctrl-C ends it")
        wait_for(query)
