"""InitProducerId: numbers for idempotent producers. The register allots them in blocks, so no two brokers give one
twice, and the data path needs no register.

There are no transactions. Who comes with a transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: of
the codes that clients take as final it is the one that says that it is about the transaction.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from octoloom.core.log_messages import Allotted
from octoloom.runtime.broker_apis import Request
from octoloom.runtime.broker_state import BrokerState
from octoloom.wire.kafka.compose import compose
from octoloom.wire.kafka.errors import ErrorCode

BLOCK = 1000
ALLOT_S_MAX = 5.0

AskForIds = Callable[[int], Awaitable[Allotted]]


class ProducerIds:
    def __init__(self, state: BrokerState, allot: AskForIds) -> None:
        self._state = state
        self._allot = allot
        self._ids: deque[int] = deque()
        self._asking: asyncio.Task[None] | None = None
        self._waiting: list[Request] = []

    def on_init(self, request: Request) -> None:
        asked: Any = request.decode()
        if asked.transactional_id is not None:
            self._answer(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)
        elif self._ids:
            self._answer(request, 0, self._ids.popleft())
        else:
            self._waiting.append(request)
            if self._asking is None:
                self._asking = self._state.loop.create_task(self._ask())

    async def _ask(self) -> None:
        while self._waiting:
            try:
                async with asyncio.timeout(ALLOT_S_MAX):
                    allotted = await self._allot(BLOCK)
                self._ids.extend(range(allotted.first, allotted.first + allotted.count))
            except TimeoutError:
                # No register answers: clients try again by themselves.
                self._refuse_all()
            while self._waiting and self._ids:
                self._answer(self._waiting.pop(0), 0, self._ids.popleft())
        self._asking = None

    def _refuse_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._answer(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)

    def _answer(self, request: Request, error: int, producer_id: int) -> None:
        if request.is_abandoned:
            return
        epoch = -1 if error else 0
        request.answer(compose(request.header, error_code=error, producer_id=producer_id, producer_epoch=epoch))

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
