"""What the commands that talk to brokers share: the option that names them, and how they end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import click
import uvloop

from octoloom.runtime.log_client import LogClient

BOOTSTRAP = "127.0.0.1:9092"
INTERRUPTED = 130

Command = TypeVar("Command", bound=Callable[..., Any])


def bootstrap_option(command: Command) -> Command:
    return click.option(
        "-b",
        "--bootstrap",
        default=BOOTSTRAP,
        show_default=True,
        envvar="OCTOLOOM_BOOTSTRAP",
        metavar="HOST:PORT,...",
        show_envvar=True,
        help="One or more brokers, or the register; the others are found through them.",
    )(command)


def run(bootstrap: str, work: Callable[[LogClient], Coroutine[Any, Any, None]]) -> None:
    """Works with the brokers until it is done, or until Ctrl-C, which ends it cleanly."""
    if not uvloop.run(_run(bootstrap, work)):
        raise click.exceptions.Exit(INTERRUPTED)


async def _run(bootstrap: str, work: Callable[[LogClient], Awaitable[None]]) -> bool:
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    async with LogClient(bootstrap, "octoloom-topic") as client:
        working = asyncio.ensure_future(work(client))
        ending = asyncio.ensure_future(interrupted.wait())
        await asyncio.wait([working, ending], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if working.done():
            working.result()
            return True
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        return False
