"""The command line. Each command is a module of its own, loaded when it is asked for: a link starts in a blink."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from octoloom.core.errors import OctoloomError, UsageError

COMMANDS = {
    "demo": "demo",
    "up": "up",
    "status": "status",
    "chain": "chain",
    "topic": "topic",
    "group": "group",
    "spark": "spark",
    "register": "register",
    "link": "link",
    "broker": "broker",
    "token": "token",
    "simulate": "simulate",
    "bench": "bench",
    "doctor": "doctor",
}
"""Command → module of this package, in the order in which the help shows them. The module's `command` is it."""


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"octoloom.cli.{COMMANDS[cmd_name]}").command
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Errors on purpose are one line for people: 2 for how it was called, 1 for what went wrong."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise Misused(str(error)) from error
        except OctoloomError as error:
            raise click.ClickException(str(error)) from error


class Misused(click.ClickException):
    exit_code = 2


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="octoloom", prog_name="octoloom")
def octoloom() -> None:
    """Octoloom weaves the events of many devices into one ordered, durable, shared state.

    \b
    Examples:
      octoloom demo                   see every link and a broker die, and a proof that nothing was lost
      octoloom up game.py:app         run your app on this machine
      octoloom up --replicas 3        three links and three brokers that survive each other
      octoloom status                 what runs, in which role
      octoloom topic consume journal  every change, as it happens
    """


def main() -> None:
    # Help and errors go to pipes as well, and a pipe may speak another encoding than the terminal.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    octoloom()
