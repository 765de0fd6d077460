"""`octoloom group`: ordered groups, for people to try and to look at."""

from __future__ import annotations

import click

from octoloom.cli.group_chat import chat
from octoloom.cli.group_list import list_groups
from octoloom.cli.group_trace import trace


@click.group(short_help="Talk in an ordered group, and look at what its members did.")
def command() -> None:
    """Ordered groups: talk in one, see which there are, and what their members did in which order.

    \b
    Examples:
      octoloom group chat lunch --as ada
      octoloom group list
      octoloom group trace room.steps
      octoloom group trace room.steps --svg room.svg
    """


command.add_command(chat)
command.add_command(list_groups)
command.add_command(trace)
