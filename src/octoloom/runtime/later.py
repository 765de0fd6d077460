"""Answers that have to wait for somebody else, as tasks beside everything that goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from kio.static.protocol import ResponsePayload

from octoloom.core.errors import ProtocolError
from octoloom.runtime.broker_apis import Request

WAITING_MAX = 1000
"""Requests that wait at the same time; the next one's connection ends, and its client tries again."""

_log = logging.getLogger("octoloom.broker")


class Later:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, request: Request, work: Coroutine[Any, Any, ResponsePayload]) -> None:
        """Answers with what the work comes to, unless nobody waits for it any more by then."""
        if len(self._tasks) >= WAITING_MAX:
            work.close()
            raise ProtocolError("busy", f"{WAITING_MAX} requests wait for their answers already")
        task = asyncio.get_running_loop().create_task(_answer(request, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()


async def _answer(request: Request, work: Coroutine[Any, Any, ResponsePayload]) -> None:
    try:
        response = await work
        if not request.is_abandoned:
            request.answer(response)
    except Exception:
        # The client runs into its own timeout, and everybody else is served.
        _log.exception("a request of API %d, version %d failed", request.header.api, request.header.version)
