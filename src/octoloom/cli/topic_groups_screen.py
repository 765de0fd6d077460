"""What `octoloom topic groups` shows."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.table import Table
from rich.text import Text

from octoloom.cli.screen import console
from octoloom.cli.topic_screen import plain_table, print_json
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_groups import GroupStatus, describe_groups

_STATES = {"PreparingRebalance": "dividing", "CompletingRebalance": "dividing"}
"""What Kafka calls a group whose members are about to be told what they read."""


async def show_groups(client: LogClient, names: Sequence[str] | None, as_json: bool) -> None:
    groups = await describe_groups(client, names)
    if as_json:
        print_json(groups)
    elif names is None:
        _show_list(groups)
    else:
        for place, group in enumerate(groups):
            _show(group, place > 0)


def _show_list(groups: Sequence[GroupStatus]) -> None:
    if not groups:
        click.echo("There are no consumer groups. `octoloom topic consume NAME --group GROUP` makes one.", err=True)
        return
    table = plain_table(("group", "state", "members", "partitions", "lag"), numbers=("members", "partitions", "lag"))
    for group in groups:
        table.add_row(
            group.name, _state(group), str(len(group.members)), str(len(group.partitions)), _number(group.lag)
        )
    console().print(table, soft_wrap=True)


def _show(group: GroupStatus, has_one_above: bool) -> None:
    count = len(group.members)
    facts = f"  {_state(group)}, {count} member{'' if count == 1 else 's'}, lag {_number(group.lag)}"
    console().print(Text("\n" if has_one_above else "") + Text(group.name, style="bold") + facts, soft_wrap=True)
    console().print(_partitions(group), soft_wrap=True)


def _partitions(group: GroupStatus) -> Table:
    numbers = ("partition", "committed", "end", "lag")
    table = plain_table(("topic", *numbers, "read by"), numbers)
    clients = {member.id: f"{member.client} at {member.host.lstrip('/')}" for member in group.members}
    for part in group.partitions:
        reader = clients.get(part.member, "")
        table.add_row(
            part.topic,
            str(part.partition),
            _number(part.committed),
            _number(part.end),
            Text(_number(part.lag), style="yellow" if part.lag else ""),
            Text(reader or "nobody", style="" if reader else "yellow"),
        )
    return table


def _state(group: GroupStatus) -> str:
    return _STATES.get(group.state, group.state.lower())


def _number(number: int | None) -> str:
    """Without a number nobody knows, or there is none yet."""
    return "-" if number is None else str(number)
