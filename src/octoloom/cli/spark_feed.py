"""`octoloom spark run feed`: what a query finds goes into live spaces, as events, each once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from octoloom.cli.options import DATA
from octoloom.cli.spark_options import Common, spark_options
from octoloom.core.errors import UsageError
from octoloom.runtime import cluster_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LINK = "ws://127.0.0.1:7080"


@click.command(short_help="Send the results of a query into live spaces.")
@click.argument("query", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", required=True, help="The device that the events are sent as. No other may have this name.")
@click.option(
    "--state",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="A directory for what the feed must not forget.",
)
@click.option("--link", "links", multiple=True, metavar="URL", help=f"A link of the chain, such as {LINK}.")
@click.option("--topic", default="journal", show_default=True, help="The journal that the query reads.")
@click.option("--every", default=1.0, show_default=True, metavar="SECONDS", help="How often the query is run.")
@click.option("--once", is_flag=True, help="End when everything that is there now has been sent.")
@click.option("--token", default="", envvar="OCTOLOOM_TOKEN", show_envvar=True, help="For chains that want one.")
@spark_options
def command(
    common: Common,
    query: Path,
    name: str,
    state: Path,
    links: tuple[str, ...],
    topic: str,
    every: float,
    once: bool,
    token: str,
) -> None:
    """Send the results of QUERY, a file with a SQL query, into live spaces: leaderboards, matches, warnings.

    The query reads the view `events`, all events of all spaces as they are settled (`octoloom spark run journal` has
    the same columns), and selects `space`, `name` and `payload`: which event goes where. What the feed itself has sent
    is not in the view. Every row is sent once, however often the feed is killed and started again.

    \b
    Examples:
      octoloom spark run feed leaders.sql --name leaderboard --state leaders
      octoloom spark run feed leaders.sql --name leaderboard --state leaders --once

    \b
    leaders.sql:
      SELECT space, 'leaders' AS name, to_json(map(device, count(*))) AS payload
      FROM events WHERE outcome = 'applied' AND device NOT LIKE '@%' GROUP BY space, device
    """
    from octoloom.spark.feed import feed

    urls = list(links) or _links(common)
    with common.spark(f"feed {name}") as spark:
        _view(spark, common.bootstrap, topic, name, state)
        writer = feed(spark.sql(query.read_text()), urls, name=name, state=state, token=token)
        trigger = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every} seconds")
        _follow(trigger.start(), common, name)


def _links(common: Common) -> list[str]:
    """Those of the cluster on this machine, or where a link always is."""
    try:
        found = cluster_file.read(common.data or DATA)
    except UsageError:
        if common.data is not None:
            raise
        return [LINK]
    return [process.address for process in found.processes if process.address.startswith("ws://")] or [LINK]


def _view(spark: SparkSession, bootstrap: str, topic: str, name: str, state: Path) -> None:
    from octoloom.spark.journal_tables import read_journal, table
    from octoloom.spark.operators import dedupe

    journal = read_journal(spark, {"bootstrap": bootstrap, "topic": topic}, stream=True)
    events = table(journal, "events")
    # A new head publishes what the old one may have published: some records come twice.
    once = dedupe(events, order=["generation", "version", "position"], state=str(state / "events"))
    once.where(once["device"] != name).createOrReplaceTempView("events")


def _follow(running: StreamingQuery, common: Common, name: str) -> None:
    screen = Console(stderr=True, highlight=False)
    told = -1
    try:
        while not running.awaitTermination(1):
            done = running.lastProgress
            if not common.quiet and done is not None and done["batchId"] != told and done["numInputRows"]:
                told = done["batchId"]
                screen.print(f"{name}: batch {told}, {done['numInputRows']:,} records read")
    finally:
        running.stop()
    if (error := running.exception()) is not None:
        raise error
