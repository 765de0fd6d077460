"""`octoloom link`: one link, as a process of its own."""

from __future__ import annotations

from pathlib import Path

import click
import uvloop

from octoloom.cli.options import APP, PORT, log_to_stderr, read_secret
from octoloom.core.admission import Limits
from octoloom.core.journal import Durability
from octoloom.runtime.apps import load_app
from octoloom.runtime.hosting import LEAVE_S, serve_link
from octoloom.runtime.link import AT_REGISTER, LinkServer
from octoloom.runtime.processes import end_with_parent, print_to_log
from octoloom.runtime.trial import Trials
from octoloom.wire.journal import TOPIC


@click.command(short_help="Run one link.")
@click.option("--name", required=True, help="The link's name. A process that restarts keeps it.")
@click.option("--register", "register", required=True, metavar="HOST:PORT", help="Where the register listens.")
@click.option("--app", default=APP, show_default=True, help="module:app or path/to/file.py:app")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--advertise", default="", help="The host that others dial, if it is not --host.")
@click.option("--device-port", type=PORT, default=0, help="The port for devices (WebSocket); 0 is any free one.")
@click.option("--peer-port", type=PORT, default=0, help="The port for other links; 0 is any free one.")
@click.option(
    "--secret-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Let in only devices whose token was made with this secret (octoloom token).",
)
@click.option(
    "--peer-secret-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Let in only links that were started with the same secret.",
)
@click.option(
    "--journal",
    is_flag=False,
    flag_value=AT_REGISTER,
    default="",
    metavar="[BROKERS]",
    help="Keep a journal of every change with these brokers (host:port,...); by itself, with those of the register.",
)
@click.option(
    "--durability",
    type=click.Choice([Durability.CHAIN.value, Durability.JOURNAL.value]),
    default=Durability.CHAIN.value,
    show_default=True,
    help="When a change counts and devices hear of it: once every link has it, or once the journal has it. With chain "
    "the journal follows a moment later. All links of a chain need the same.",
)
@click.option("--journal-topic", default=TOPIC, show_default=True, help="The topic of the journal.")
@click.option(
    "--leave-seconds",
    type=click.FloatRange(0.1),
    default=LEAVE_S,
    show_default=True,
    help="How long to wait, when asked to leave, for another link to take the place.",
)
def command(
    name: str,
    register: str,
    app: str,
    host: str,
    advertise: str,
    device_port: int,
    peer_port: int,
    secret_file: Path | None,
    peer_secret_file: Path | None,
    journal: str,
    durability: str,
    journal_topic: str,
    leave_seconds: float,
) -> None:
    """Run one link of the register's chains.

    SIGTERM lets it hand over its place and leave. Ctrl-C or a second SIGTERM stops it at once, which its chain
    survives.

    \b
    Examples:
      octoloom link --name one --register 127.0.0.1:7070
      octoloom link --name two --register 127.0.0.1:7070 --app game.py:app --device-port 7080
      octoloom link --name one --register 127.0.0.1:7070 --journal --durability journal
    """
    say = print_to_log() if end_with_parent() else click.echo
    log_to_stderr()
    limits = Limits(secret=read_secret(secret_file) if secret_file else b"")
    token = read_secret(peer_secret_file).decode(errors="replace") if peer_secret_file else ""
    found = load_app(app)
    # Now, while there is one thread: a process with more must not fork.
    trials = Trials.forked(found, app)

    async def serve() -> None:
        server = LinkServer(
            name,
            register,
            found,
            host,
            device_port,
            peer_port,
            limits,
            token=token,
            advertise=advertise,
            journal=journal,
            durability=Durability(durability),
            journal_topic=journal_topic,
            trials=trials,
        )
        await serve_link(server, say, leave_seconds)

    try:
        uvloop.run(serve())
    finally:
        trials.close()
