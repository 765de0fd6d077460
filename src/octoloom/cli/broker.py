"""`octoloom broker`: one broker, as a process of its own."""

from __future__ import annotations

from pathlib import Path

import click
import uvloop

from octoloom.cli.options import DATA, PORT, log_to_stderr, read_secret
from octoloom.runtime.broker import BrokerServer
from octoloom.runtime.broker_hosting import LEAVE_S, serve_broker
from octoloom.runtime.broker_settings import SYNC_ALWAYS, SYNC_OS, BrokerSettings
from octoloom.runtime.processes import end_with_parent, print_to_log


@click.command(short_help="Run one broker, for topics and Kafka clients.")
@click.option("--register", "register", required=True, metavar="HOST:PORT", help="Where the register listens.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=DATA / "broker",
    show_default=True,
    help="The directory of this broker alone.",
)
@click.option("--name", default="", help="The broker's name. Its data directory remembers it.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=PORT, default=9092, show_default=True, help="The port; 0 is any free one.")
@click.option(
    "--advertise", default="", metavar="HOST[:PORT]", help="What others dial, if it is not --host and --port."
)
@click.option(
    "--sync",
    type=click.Choice([SYNC_ALWAYS, SYNC_OS]),
    default=SYNC_ALWAYS,
    show_default=True,
    help="Sync to disk before every acknowledgement, or when the operating system likes.",
)
@click.option("--auto-create/--no-auto-create", default=True, help="Make topics when clients ask for new ones.")
@click.option(
    "--peer-secret-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Let in only brokers that were started with the same secret.",
)
@click.option(
    "--leave-seconds",
    type=click.FloatRange(0.1),
    default=LEAVE_S,
    show_default=True,
    help="How long to wait, when asked to leave, for others to lead.",
)
def command(
    register: str,
    data: Path,
    name: str,
    host: str,
    port: int,
    advertise: str,
    sync: str,
    auto_create: bool,
    peer_secret_file: Path | None,
    leave_seconds: float,
) -> None:
    """Run one broker: it keeps replicas of topics and serves every Kafka client.

    SIGTERM lets others lead in its place and then ends it. Ctrl-C or a second SIGTERM ends it at once, which its topics
    survive if they have more than one replica.

    \b
    Examples:
      octoloom broker --register 127.0.0.1:7070
      octoloom broker --register 127.0.0.1:7070 --name b2 --data b2 --port 9093 --sync os
      octoloom broker --register r:7070 --host 0.0.0.0 --advertise broker1.example.org:9092 --data /var/lib/octoloom
    """
    say = print_to_log() if end_with_parent() else click.echo
    log_to_stderr()
    token = read_secret(peer_secret_file).decode(errors="replace") if peer_secret_file else ""
    settings = BrokerSettings(sync=sync, auto_create=auto_create, token=token)
    server = BrokerServer(name, register, data, host, port, advertise, settings)

    async def serve() -> None:
        await serve_broker(server, say, leave_seconds)

    uvloop.run(serve())
