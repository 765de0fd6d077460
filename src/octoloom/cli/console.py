"""`octoloom console`: the whole system in a browser, for clusters that run elsewhere or without one."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click
import uvloop

from octoloom.cli.options import PORT, data_option, log_to_stderr
from octoloom.cli.status import register_option
from octoloom.core.errors import UsageError
from octoloom.runtime import cluster_file

CONSOLE_PORT = 7060
PAGES_HELP = "A directory with pages of your own, served at /app/ beside the console."


def pages_option(command: click.decorators.FC) -> click.decorators.FC:
    kind = click.Path(path_type=Path)
    return click.option("--pages", type=kind, metavar="DIR", help=PAGES_HELP)(command)


@click.command(short_help="Show everything, live, in a browser.")
@data_option
@register_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=PORT, default=CONSOLE_PORT, show_default=True, help="The port; 0 is any free one.")
@pages_option
@click.pass_context
def command(ctx: click.Context, data: Path, register: str | None, host: str, port: int, pages: Path | None) -> None:
    """Show chains, spaces, topics, groups and what happens to them, live, in a browser, until Ctrl-C.

    `octoloom up` has a console already: this one is for a cluster that was started without, or on other machines. It
    looks and changes nothing. It has no login: whoever reaches HOST and PORT sees all.

    \b
    Examples:
      octoloom console
      octoloom console --data /tmp/arena --port 8000
      octoloom console --register 10.0.0.10:7070
      octoloom console --pages game/web
    """
    if register is not None and ctx.get_parameter_source("data") is click.core.ParameterSource.COMMANDLINE:
        raise UsageError("either --data or --register says where to look: leave one of them out")
    log_to_stderr()
    uvloop.run(_serve(data, register, host, port, pages))


async def _serve(data: Path, register: str | None, host: str, port: int, pages: Path | None) -> None:
    # The web server takes a while to load, and other commands do without.
    from octoloom.console.files import pages_folder
    from octoloom.console.gatherer import Gatherer
    from octoloom.console.server import Console

    if register is None:
        cluster_file.read(data)
    gatherer = Gatherer(register=register) if register is not None else Gatherer(data=data)
    console = Console(gatherer, host, port, pages_folder(pages) if pages is not None else None)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await console.start()
    try:
        click.echo(f"console at {console.url}")
        if console.pages_url:
            click.echo(f"pages at {console.pages_url}")
        await ended.wait()
    finally:
        await console.stop()
