"""`octoloom register`: one register, as a process of its own."""

from __future__ import annotations

from pathlib import Path

import click
import uvloop

from octoloom.cli.options import PORT, data_option, log_to_stderr
from octoloom.core.log_register import LogConfig
from octoloom.core.register import RegisterConfig
from octoloom.runtime.hosting import serve_register
from octoloom.runtime.plan import chain_names
from octoloom.runtime.processes import end_with_parent, print_to_log
from octoloom.runtime.register import RegisterServer


@click.command(short_help="Run the register, which orders chains, brokers and groups.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=PORT,
    default=7070,
    show_default=True,
    help="The port for links, brokers and members of groups; 0 is any free one.",
)
@data_option
@click.option("--replicas", type=click.IntRange(1), default=3, show_default=True, help="Links per chain.")
@click.option("--chains", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many chains.")
@click.option(
    "--topic-replicas",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="Brokers per partition of a new topic, as far as there are so many.",
)
@click.option(
    "--topic-partitions",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    help="Partitions of a new topic.",
)
@click.option("--auto-create/--no-auto-create", default=True, help="Make topics when clients ask for new ones here.")
@click.option(
    "--lease-ms",
    type=click.IntRange(500, 600_000),
    default=2000,
    show_default=True,
    help="Who is connected and silent for so long is given up. Longer for slow or busy machines.",
)
def command(
    host: str,
    port: int,
    data: Path,
    replicas: int,
    chains: int,
    topic_replicas: int,
    topic_partitions: int,
    auto_create: bool,
    lease_ms: int,
) -> None:
    """Run the register, which decides which links form a chain and in which order, which broker leads which partition
    of a topic, and who is in which ordered group.

    What it decides is durable in DATA/register.db. Chains, topics and groups go on while it is down, as long as none of
    their links, brokers and members dies. Its address works as `bootstrap.servers` for Kafka clients. The log tells of
    every change of leaders (who was asked, who accepted with which offsets, and what was decided) and of every view of
    a group.

    \b
    Examples:
      octoloom register
      octoloom register --port 7070 --replicas 3 --data /var/lib/octoloom
      kcat -b 127.0.0.1:7070 -L
    """
    say = print_to_log() if end_with_parent() else click.echo
    log_to_stderr()
    config = RegisterConfig(chain_names(chains), replicas, lease_ms=lease_ms)
    log_config = LogConfig(topic_partitions, topic_replicas, lease_ms=lease_ms)
    server = RegisterServer(config, data / "register.db", host, port, log_config, auto_create)
    uvloop.run(serve_register(server, say))
