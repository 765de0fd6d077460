"""`octoloom register`: one register, as a process of its own."""

from __future__ import annotations

from pathlib import Path

import click
import uvloop

from octoloom.cli.options import PORT, data_option, log_to_stderr
from octoloom.core.register import RegisterConfig
from octoloom.runtime.hosting import serve_register
from octoloom.runtime.processes import end_with_parent
from octoloom.runtime.register import RegisterServer
from octoloom.runtime.supervisor import chain_names


@click.command(short_help="Run the register, which orders the chains.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=PORT, default=7070, show_default=True, help="The port for links; 0 is any free one.")
@data_option
@click.option("--replicas", type=click.IntRange(1), default=3, show_default=True, help="Links per chain.")
@click.option("--chains", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many chains.")
def command(host: str, port: int, data: Path, replicas: int, chains: int) -> None:
    """Run the register, which decides which links form a chain and in which order.

    What it decides is durable in DATA/register.db. Chains go on while it is down, as long as no link dies.

    \b
    Examples:
      octoloom register
      octoloom register --port 7070 --replicas 3 --data /var/lib/octoloom
    """
    end_with_parent()
    log_to_stderr()
    config = RegisterConfig(chain_names(chains), replicas)
    server = RegisterServer(config, data / "register.db", host, port)
    uvloop.run(serve_register(server, click.echo))
