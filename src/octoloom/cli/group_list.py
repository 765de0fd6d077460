"""`octoloom group list`: the ordered groups that a register knows."""

from __future__ import annotations

import asyncio

import click
import msgspec
from rich.table import Table
from rich.text import Text

from octoloom.cli.group_options import register_option
from octoloom.cli.options import json_option
from octoloom.cli.screen import console
from octoloom.core.group_messages import GroupView
from octoloom.core.roster import name_of
from octoloom.runtime.register_client import ask_groups


@click.command("list", short_help="Show the groups, who is in them, and their orders.")
@json_option
@register_option
def list_groups(as_json: bool, register: str) -> None:
    """Show the ordered groups that there are: the order of their messages, the epoch of their view, and their members,
    oldest first. The first is the coordinator.

    \b
    Examples:
      octoloom group list
      octoloom group list --json --register 127.0.0.1:7070
    """
    found = asyncio.run(ask_groups(register)).views
    views = sorted([view for view in found if view.members], key=lambda view: view.group)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(views), indent=2).decode())
    elif not views:
        click.echo("no groups: make one with `octoloom group chat ROOM --as NAME`")
    else:
        console().print(_table(views), soft_wrap=True)


def _table(views: list[GroupView]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("group", "order", "epoch", "over", "members, oldest first"):
        table.add_column(heading, justify="right" if heading == "epoch" else "left", no_wrap=True)
    for view in views:
        first, *others = [name_of(name) for name in view.names]
        members = (
            Text(first, style="bold") + Text(" (coordinator)", style="dim") + "".join(f", {name}" for name in others)
        )
        table.add_row(Text(view.group), view.order, str(view.epoch), view.members[0].transport, members)
    return table
