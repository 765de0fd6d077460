"""`octoloom topic`: make, show, watch and delete topics; write to them and read them."""

from __future__ import annotations

import sys

import click

from octoloom.cli.broker_options import bootstrap_option, run
from octoloom.cli.options import json_option
from octoloom.cli.topic_archive import archive
from octoloom.cli.topic_consume import consume
from octoloom.cli.topic_groups import groups
from octoloom.cli.topic_produce import produce
from octoloom.cli.topic_watch import watch_topics
from octoloom.core.errors import UsageError
from octoloom.runtime.log_client import LogClient


@click.group(short_help="Make, show, watch, write and read topics.")
def command() -> None:
    """Make, show, watch and delete topics; write to them and read them.

    \b
    Examples:
      octoloom topic create journal --partitions 4 --replicas 3
      echo hello | octoloom topic produce journal
      octoloom topic consume journal -e
      octoloom topic describe journal --watch
      octoloom topic groups
      octoloom topic archive journal /data/archive
    """


command.add_command(produce)
command.add_command(consume)
command.add_command(archive)
command.add_command(groups)


@command.command(short_help="Make a topic.")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(1, 10_000), default=1, show_default=True, help="How many.")
@click.option("--replicas", type=click.IntRange(1, 100), help="Copies of each; the brokers' default if not named.")
@click.option(
    "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A setting of the topic; may be repeated."
)
@bootstrap_option
def create(name: str, partitions: int, replicas: int | None, configs: tuple[str, ...], bootstrap: str) -> None:
    """Make the topic NAME. It is ready for use when this returns.

    \b
    Examples:
      octoloom topic create journal
      octoloom topic create journal --partitions 4 --replicas 3 --config retention.ms=86400000
    """
    config = dict(_pair(text) for text in configs)

    async def work(client: LogClient) -> None:
        await client.create_topic(name, partitions, -1 if replicas is None else replicas, config)

    run(bootstrap, work)
    click.echo(f"created {name} with {partitions} partition{'s' if partitions > 1 else ''}")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(f"{text!r} is no setting: write KEY=VALUE, as in retention.ms=86400000")
    return key, value


@command.command("list", short_help="List the topics.")
@json_option
@bootstrap_option
def list_topics(as_json: bool, bootstrap: str) -> None:
    """List the topics, each with its partitions and replicas.

    \b
    Examples:
      octoloom topic list
      octoloom topic list --json --bootstrap 127.0.0.1:9092,127.0.0.1:9093
    """

    # Tables take a while to load, and a pipe of records should not wait for them.
    from octoloom.cli.topic_screen import show_list

    run(bootstrap, lambda client: show_list(client, as_json))


@command.command(short_help="Show who leads, and watch it change.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
@click.option("--watch", is_flag=True, help="Print each change of leader, epoch and in-sync set, until Ctrl-C.")
@bootstrap_option
def describe(names: tuple[str, ...], as_json: bool, watch: bool, bootstrap: str) -> None:
    """Show the partitions of the topics NAME, or of all: leader, epoch, in-sync set, first and last offset.

    With --watch a change of leadership is shown as it happens: kill a broker and look on.

    \b
    Examples:
      octoloom topic describe journal
      octoloom topic describe --json
      octoloom topic describe journal --watch
    """

    from octoloom.cli.topic_screen import show_topics

    async def work(client: LogClient) -> None:
        if watch:
            await watch_topics(client, list(names) or None, as_json)
        else:
            await show_topics(client, list(names) or None, as_json)

    run(bootstrap, work)


@command.command(short_help="Delete a topic with all that is in it.")
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
def delete(name: str, yes: bool, bootstrap: str) -> None:
    """Delete the topic NAME with all that is in it. In a terminal it asks first.

    \b
    Examples:
      octoloom topic delete journal
      octoloom topic delete journal --yes
    """
    if not yes and sys.stdin.isatty():
        click.confirm(f"Delete the topic {name} with all that is in it?", abort=True, err=True)

    async def work(client: LogClient) -> None:
        await client.delete_topic(name)

    run(bootstrap, work)
    click.echo(f"deleted {name}")
