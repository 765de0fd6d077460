"""`octoloom spark run audit`: every promise against journal, logs and traces. It exits with 1 if it finds anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from octoloom.cli.screen import console
from octoloom.cli.spark_options import Common, spark_options
from octoloom.core.errors import UsageError

if TYPE_CHECKING:
    from octoloom.core.findings import Finding
    from octoloom.spark.audit_report import AuditReport

NOT_CLEAN = 1
GROUP = "group"
"""The group of files that were named without one."""
FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command(short_help="Check every promise against journal, logs and traces.")
@click.option("--journal", default="journal", show_default=True, metavar="TOPIC", help="The topic of the journal.")
@click.option("--no-journal", is_flag=True, help="Leave the journal out.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="A topic whose log to audit.  [default: all]")
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
@click.option("--follow", is_flag=True, help="Go on with the journal as it is written, until Ctrl-C; needs --out.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
@spark_options
def command(
    common: Common,
    journal: str,
    no_journal: bool,
    topics: tuple[str, ...],
    no_logs: bool,
    directories: tuple[str, ...],
    steps: tuple[str, ...],
    step_topics: tuple[str, ...],
    acknowledged: tuple[Path, ...],
    app: str | None,
    follow: bool,
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
    if follow:
        _follow(common, journal)
        return
    from octoloom.spark.acknowledgements import read_acknowledgements
    from octoloom.spark.audit import audit
    from octoloom.spark.progress import progress

    told = read_acknowledgements(acknowledged)
    groups = _groups(steps)
    with common.spark("octoloom audit") as spark, progress(spark, "auditing", quiet=common.quiet):
        found = audit(
            spark,
            bootstrap=common.bootstrap if not (no_journal and no_logs) or step_topics else "",
            journal=None if no_journal else journal,
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


def _follow(common: Common, journal: str) -> None:
    from octoloom.spark.audit_stream import follow_audit
    from octoloom.spark.journal_tables import read_journal

    if common.out is None:
        raise UsageError("--follow keeps what it knows in a directory: name one with --out")
    screen = console()

    def heard(findings: Sequence[Finding]) -> None:
        for finding in findings:
            screen.print(_told(finding), soft_wrap=True)

    with common.spark("octoloom audit") as spark:
        stream = read_journal(spark, {"bootstrap": common.bootstrap, "topic": journal}, stream=True)
        query = follow_audit(stream, common.out, heard)
        if not common.quiet:
            screen.print(f"following {journal}; findings are told as they arise, Ctrl-C ends it")
        query.awaitTermination()
