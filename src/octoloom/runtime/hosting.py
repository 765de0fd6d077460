"""Runs one register or one link as the whole of this process, until somebody asks it to end.

SIGTERM asks a link to leave: its chain first puts another in its place. SIGINT, or a second SIGTERM, ends it at once;
to the chain that is a crash, which it survives.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from octoloom.core.errors import OctoloomError, UsageError
from octoloom.runtime.processes import ready_line
from octoloom.runtime.watchdog import Watchdog

if TYPE_CHECKING:
    # Whoever hosts one of them has it already, and starts faster without the other.
    from octoloom.runtime.link import LinkServer
    from octoloom.runtime.register import RegisterServer

LEAVE_S = 30.0
GC_THRESHOLDS = (50_000, 20, 100)
"""A full collection walks through all states while devices wait. A link makes hardly any garbage in circles."""

Say = Callable[[str], None]


class Wishes:
    """What the signals that came to this process ask for."""

    def __init__(self) -> None:
        self.leave = asyncio.Event()
        self.stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._on_term)
        loop.add_signal_handler(signal.SIGINT, self._on_interrupt)

    def _on_term(self) -> None:
        if self.leave.is_set():
            self.stop.set()
        self.leave.set()

    def _on_interrupt(self) -> None:
        self.leave.set()
        self.stop.set()


async def first_of(*awaited: asyncio.Future[Any] | Coroutine[Any, Any, Any]) -> None:
    """Waits for one of these and ends the others, and raises what it raised."""
    tasks = [asyncio.ensure_future(one) for one in awaited]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    # What they do on their way out is done before anything else is.
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def serve_register(server: RegisterServer, say: Say) -> None:
    wishes = Wishes()
    await server.start()
    try:
        say(ready_line(address=server.address, pid=os.getpid()))
        assert server.failed is not None
        await first_of(asyncio.shield(server.failed), wishes.leave.wait())
    finally:
        await server.stop()


async def serve_link(server: LinkServer, say: Say, leave_s: float = LEAVE_S) -> None:
    wishes = Wishes()
    watchdog = Watchdog([server.app])
    watchdog.start()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    await server.start()
    try:
        say(ready_line(url=server.url, peer=server.peer_address, pid=os.getpid(), id=server.id))
        await broken_or(server, wishes.leave.wait())
        if not wishes.stop.is_set():
            await broken_or(server, _leave(server, leave_s), wishes.stop.wait())
    finally:
        watchdog.stop()
        await server.stop()


async def broken_or(server: LinkServer, *awaited: Coroutine[Any, Any, Any]) -> None:
    """Waits for one of these. A link that broke an invariant is an error, with its story in the log."""
    assert server.failed is not None
    try:
        await first_of(asyncio.shield(server.failed), *awaited)
    except OctoloomError:
        raise
    except Exception as error:
        text = f"{server.id} broke ({type(error).__name__}: {error}): see the log above, and start it again"
        raise UsageError(text) from error


async def _leave(server: LinkServer, leave_s: float) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await server.leave(int(leave_s * 1000))
