"""`octoloom group`: ordered groups, for people to try and to look at."""

from __future__ import annotations

import click

from octoloom.cli.group_trace import trace


@click.group(short_help="Look at what the members of an ordered group did.")
def command() -> None:
    """Ordered groups: look at what their members did, and in which order.

    \b
    Examples:
      octoloom group trace room.steps
      octoloom group trace room.steps --svg room.svg
    """


command.add_command(trace)
