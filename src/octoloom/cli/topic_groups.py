"""`octoloom topic groups`: who reads as a consumer group, and how far behind it is."""

from __future__ import annotations

import click

from octoloom.cli.broker_options import bootstrap_option, run
from octoloom.cli.options import json_option
from octoloom.cli.topic_format import parse_start
from octoloom.core.errors import UsageError
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_consumer import Start

_KAFKA_WORDS: dict[str, Start] = {"earliest": "beginning", "latest": "end"}


@click.command(short_help="Show consumer groups and how far behind they are, or reset one.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--reset",
    metavar="PLACE",
    help="Have the group NAME go on there: earliest, latest, an offset, -N (the last N), or a time.",
)
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Only in this one; may be repeated.")
@json_option
@bootstrap_option
def groups(names: tuple[str, ...], reset: str | None, topics: tuple[str, ...], as_json: bool, bootstrap: str) -> None:
    """List the consumer groups, or show where the groups NAME are in each partition.

    The lag is how many records a group has yet to do. (What `octoloom group` shows are groups of another kind: members
    that speak to each other in an order.)

    With --reset a group goes on elsewhere, in all topics that it has read or in those that -t names. It must have no
    members: end them first.

    \b
    Examples:
      octoloom topic groups
      octoloom topic groups billing
      octoloom topic groups billing --json | jq .[0].lag
      octoloom topic groups billing --reset earliest
      octoloom topic groups billing --reset 2026-01-31T12:00 -t orders
    """

    # Tables take a while to load, and a pipe of records should not wait for them.
    from octoloom.cli.topic_groups_screen import show_groups
    from octoloom.runtime.log_groups import reset_group

    if reset is not None and len(names) != 1:
        raise UsageError("--reset is for one group: name it")
    if topics and reset is None:
        raise UsageError("-t says where to --reset a group: give both, or none")
    place = _KAFKA_WORDS.get(reset) or parse_start(reset) if reset is not None else None

    async def work(client: LogClient) -> None:
        if place is not None:
            await reset_group(client, names[0], place, topics)
        await show_groups(client, list(names) or None, as_json)

    run(bootstrap, work)
