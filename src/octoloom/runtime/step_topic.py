"""The steps of a member's algorithms as records of a topic: many members' in one place, for Spark and for others.

    async with StepTopic("127.0.0.1:7070", "steps") as steps:
        async with Group.join("room", name="ada", trace=steps) as room:
            ...

A record's value is a step as JSON, as in a file of steps; its key is the member, so that its steps stay in order.
A trace must not hold up what it traces: what finds no room, or cannot be written, is left out and counted.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from octoloom.core.steps import Step
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import LogError
from octoloom.runtime.log_producer import Producer
from octoloom.runtime.log_writer import Written

_log = logging.getLogger("octoloom.group")
_encode = msgspec.json.Encoder().encode


class StepTopic:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._client: LogClient | None = None
        self._producer: Producer | None = None
        self.left_out = 0

    async def __aenter__(self) -> StepTopic:
        self._client = LogClient(self._bootstrap)
        self._producer = Producer(self._client)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._producer is not None and self._client is not None:
            await self._producer.close()
            await self._client.close()
        self._producer = None

    def __call__(self, step: Step) -> None:
        if self._producer is None:
            self._leave_out("the topic is closed")
            return
        try:
            written = self._producer.send(self._topic, _encode(step), key=step.member.encode())
        except LogError as error:
            self._leave_out(str(error))
        else:
            written.add_done_callback(self._on_written)

    def _on_written(self, written: asyncio.Future[Written]) -> None:
        if not written.cancelled() and (error := written.exception()) is not None:
            self._leave_out(str(error))

    def _leave_out(self, why: str) -> None:
        if not self.left_out:
            _log.warning("steps are missing from the topic %s: %s", self._topic, why)
        self.left_out += 1
