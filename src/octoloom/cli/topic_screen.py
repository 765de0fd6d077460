"""What `octoloom topic list` and `octoloom topic describe` show."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec
from rich.table import Table
from rich.text import Text

from octoloom.cli.screen import console
from octoloom.runtime.log_admin import TopicStatus, describe_topics
from octoloom.runtime.log_client import LogClient


class TopicRow(msgspec.Struct, frozen=True):
    name: str
    partitions: int
    replicas: int
    not_in_sync: int
    """Partitions that lack a leader, or replicas."""


async def show_list(client: LogClient, as_json: bool) -> None:
    rows = []
    for _, topic in sorted((await client.metadata()).topics.items()):
        parts = list(topic.partitions.values())
        replicas = max((len(part.replicas) for part in parts), default=0)
        behind = [part for part in parts if part.leader < 0 or len(part.in_sync) < len(part.replicas)]
        rows.append(TopicRow(topic.name, len(parts), replicas, len(behind)))
    if as_json:
        print_json(rows)
        return
    table = plain_table(("topic", "partitions", "replicas", ""), numbers=("partitions", "replicas"))
    for row in rows:
        mark = Text(f"{row.not_in_sync} not in sync", style="yellow") if row.not_in_sync else ""
        table.add_row(row.name, str(row.partitions), str(row.replicas), mark)
    console().print(table, soft_wrap=True)


async def show_topics(client: LogClient, names: Sequence[str] | None, as_json: bool) -> None:
    topics = await describe_topics(client, names)
    if as_json:
        print_json(topics)
        return
    screen = console()
    for place, topic in enumerate(topics):
        config = "  ".join(f"{key}={value}" for key, value in sorted(topic.config.items()))
        screen.print(Text("\n" if place else "") + Text(topic.name, style="bold") + f"  {config}", soft_wrap=True)
        screen.print(_partitions(topic), soft_wrap=True)


def _partitions(topic: TopicStatus) -> Table:
    numbers = ("partition", "epoch", "start", "high")
    table = plain_table(("partition", "leader", "epoch", "in sync", "replicas", "start", "high"), numbers)
    for part in topic.partitions:
        leader = f"{part.leader} at {part.address}" if part.leader >= 0 else "none"
        colour = "yellow" if len(part.in_sync) < len(part.replicas) else "green"
        table.add_row(
            str(part.partition),
            Text(leader, style="red" if part.leader < 0 else ""),
            str(part.epoch),
            Text(" ".join(map(str, part.in_sync)), style=colour),
            " ".join(map(str, part.replicas)),
            *("?" if offset is None else str(offset) for offset in (part.start, part.high)),
        )
    return table


def plain_table(headings: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left", no_wrap=True)
    return table


def print_json(told: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
