"""`octoloom spark`: the pipelines on Spark. Each is a module of its own, loaded when it is asked for."""

from __future__ import annotations

import importlib

import click

PIPELINES = {
    "journal": "Typed tables of spaces, events, changes, outcomes and devices.",
    "state": "The state of a space, or of all, at any moment.",
    "replay": "Fold the whole history with given code, and compare.",
    "audit": "Check every promise against journal, logs and traces.",
    "activity": "Rates, sessions, busiest devices and latency, with plots.",
    "feed": "Send the results of a query into live spaces, exactly once.",
}
"""Pipeline → what it is for, in the order in which the help shows them. Its command is `command` of spark_NAME."""


class Pipelines(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(PIPELINES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in PIPELINES:
            return None
        command = importlib.import_module(f"octoloom.cli.spark_{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list is told without loading them."""
        with formatter.section("Pipelines"):
            formatter.write_dl(list(PIPELINES.items()))


@click.group(short_help="Run pipelines over the log on Spark.")
def command() -> None:
    """Run pipelines over journal and topics on Spark, on this machine or on a cluster.

    \b
    Examples:
      octoloom spark run journal --out tables
      octoloom spark run audit --master spark://host:7077
      octoloom spark run --help
    """


@command.command(cls=Pipelines, subcommand_metavar="NAME [OPTIONS]...")
def run() -> None:
    """Run the pipeline NAME. They read what is in the log and change nothing, except `feed`.

    \b
    Examples:
      octoloom spark run journal --out tables
      octoloom spark run state --at 1200
      octoloom spark run replay game.py:app
      octoloom spark run audit
      octoloom spark run activity --out report
      octoloom spark run replay --help
    """
