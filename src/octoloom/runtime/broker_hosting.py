"""Runs one broker as the whole of this process, until somebody asks it to end.

SIGTERM asks it to leave: others lead in its place first. SIGINT, or a second SIGTERM, ends it at once, with its logs
closed; whoever it led is led by others soon.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
from collections.abc import Callable, Coroutine
from typing import Any

from octoloom.core.errors import OctoloomError, UsageError
from octoloom.runtime.broker import BrokerServer
from octoloom.runtime.hosting import Wishes, first_of
from octoloom.runtime.processes import ready_line

LEAVE_S = 5.0
GC_THRESHOLDS = (50_000, 20, 100)
"""A full collection walks through all partitions while clients wait. A broker makes hardly any garbage in circles."""

Say = Callable[[str], None]


async def serve_broker(server: BrokerServer, say: Say, leave_s: float = LEAVE_S) -> None:
    raise_file_limit()
    wishes = Wishes()
    await server.start()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        say(ready_line(address=server.address, pid=os.getpid(), id=server.id))
        await _broken_or(server, wishes.leave.wait())
        if not wishes.stop.is_set():
            await _broken_or(server, _leave(server, leave_s), wishes.stop.wait())
    finally:
        await server.stop()


async def _leave(server: BrokerServer, leave_s: float) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await server.leave(int(leave_s * 1000))


async def _broken_or(server: BrokerServer, *awaited: Coroutine[Any, Any, Any]) -> None:
    """Waits for one of these. A broker that broke an invariant is an error, with its story in the log."""
    assert server.failed is not None
    try:
        await first_of(asyncio.shield(server.failed), *awaited)
    except OctoloomError:
        raise
    except Exception as error:
        text = f"{server.id} broke ({type(error).__name__}: {error}): see the log above, and start it again"
        raise UsageError(text) from error


def raise_file_limit() -> None:
    """Every partition and every client needs a descriptor: as many as this process may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
