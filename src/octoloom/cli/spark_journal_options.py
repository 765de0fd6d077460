"""What the pipelines over the journal share: which journal, and how a stream is followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from octoloom.cli.spark_options import Common
from octoloom.core.errors import UsageError
from octoloom.wire.journal import TOPIC

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

Command = TypeVar("Command", bound=Callable[..., Any])
LOOK_S = 1

topic_option = click.option("--topic", default=TOPIC, show_default=True, help="The topic of the journal.")
on_error_option = click.option(
    "--on-error",
    type=click.Choice(["dead-letter", "fail"]),
    default="dead-letter",
    show_default=True,
    help="What to do with a record that cannot be read: keep it in a table, or end.",
)
follow_option = click.option("--follow", is_flag=True, help="Go on with what is written from now on, until Ctrl-C.")
every_option = click.option(
    "--every",
    "every_s",
    type=click.FloatRange(0.1, 86_400),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="With --follow: how often.",
)


def source_option(command: Command) -> Command:
    return click.option(
        "--option",
        "given",
        multiple=True,
        metavar="NAME=VALUE",
        help="An option of the source, such as archive=DIRECTORY or path=DIRECTORY; may be repeated.",
    )(command)


def source_options(common: Common, topic: str, given: tuple[str, ...]) -> dict[str, str]:
    """The options of the source. Brokers are not asked where files are named and brokers are not."""
    options: dict[str, str] = {"topic": topic}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--option {text}: write NAME=VALUE, as in archive=DIRECTORY")
        options[name] = value
    from_files = {name.lower() for name in options} & {"path", "paths", "archive"}
    if not from_files or common.bootstrap_named or common.register:
        options["bootstrap"] = common.bootstrap
    return options


def wait_for(query: StreamingQuery) -> None:
    """Until the query ends, which it does not by itself. Ctrl-C is heard once a second."""
    try:
        while not query.awaitTermination(LOOK_S):
            pass
    finally:
        query.stop()
