"""Requests that are answered from the directory wait while the register may have gone on without this broker.

A broker that slept, or has just started, is asked before it has heard the register: what it knows of topics may be old,
or nothing. Whether it may speak is looked up in its register client, by the clock, for each request; if it may not, the
request waits. That takes no longer than until the register answers the next beat, or has not answered so many.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from octoloom.core.errors import ProtocolError
from octoloom.runtime.broker_apis import Handler, Handlers, Request
from octoloom.runtime.broker_state import BrokerState

HELD_MAX = 1000
"""Requests that wait at the same time; the next one's connection ends, and its client tries another broker."""
POLL_S = 0.02
HELD_S = 120.0
"""How long one waits at most: for a broker that has never heard a register. Clients give up before that."""

_log = logging.getLogger("octoloom.broker")


class Guard:
    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._tasks: set[asyncio.Task[None]] = set()

    def around(self, handlers: Handlers) -> Handlers:
        return {api: partial(self._take, handler) for api, handler in handlers.items()}

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    def _take(self, handler: Handler, request: Request) -> None:
        if self._state.may_speak():
            handler(request)
            return
        if len(self._tasks) >= HELD_MAX:
            raise ProtocolError("busy", f"{HELD_MAX} requests wait for the register already")
        request.frame = memoryview(bytes(request.frame))
        task = self._state.loop.create_task(self._hold(handler, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hold(self, handler: Handler, request: Request) -> None:
        until = self._state.loop.time() + HELD_S
        while not request.is_abandoned:
            if self._state.may_speak():
                break
            if self._state.loop.time() > until:
                request.hang_up()
            await asyncio.sleep(POLL_S)
        else:
            return
        try:
            handler(request)
        except Exception:
            _log.exception("a request of API %d, version %d failed", request.header.api, request.header.version)
            request.hang_up()
