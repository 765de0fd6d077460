"""A line to the register that is kept up: dialled for ever, with a greeting first and beats after it.

Links, brokers, members of groups and whoever only follows have the same line and say different things on it. While no
register answers they keep what they were told last: the data path needs no register as long as nobody dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable

from octoloom.core.register_messages import Beat, Declined
from octoloom.runtime.frames import FramedConnection, split_address
from octoloom.wire.register import REGISTER_FRAME_MAX, Answer, Request, decode_answer, encode_frame

RETRY_FIRST_MS = 20
RETRY_MAX_MS = 200
WARN_AT_MS = 160
"""The delay at which the operator is told; it comes by once per outage."""
CONNECT_TIMEOUT_S = 2.0

FINAL = (
    *("outdated", "bad-link"),
    *("expelled", "other-order", "other-transport", "bad-group", "bad-member", "bad-address", "bad-order"),
)
"""Refusals that asking again does not change: the line then stays down."""

_log = logging.getLogger("octoloom.link")


class RegisterLine:
    """`greet` gives what is said first on each new connection, `on_answer` is told all that the register says.

    Beats follow the greeting every `beat_ms`; 0 is for who does not have to prove that it is alive.
    """

    def __init__(
        self,
        address: str,
        greet: Callable[[], list[Request]],
        on_answer: Callable[[Answer], None],
        beat_ms: int = 0,
        on_down: Callable[[], None] | None = None,
        beat: Callable[[], Request] = Beat,
        on_dial_failed: Callable[[], None] | None = None,
    ) -> None:
        self.address = address
        self._host, self._port = split_address(address)
        self._greet = greet
        self._on_answer = on_answer
        self._beat_ms = beat_ms
        self._on_down = on_down
        self._new_beat = beat
        self._on_dial_failed = on_dial_failed
        self.connection: FramedConnection | None = None
        self._lost = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._answered = False

    def start(self) -> None:
        """Begins to connect; needs a running loop."""
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._keep_connected())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task
            self.task = None
        if self.connection is not None:
            self.connection.close()

    def end(self) -> None:
        """Does not dial again: there is nothing to come back for. What is connected stays so until it is hung up on."""
        if self.task is not None:
            self.task.cancel()

    def say(self, message: Request) -> bool:
        """Sends a message. False while there is no connection: then it is lost, and to be said again."""
        if self.connection is None:
            return False
        self.connection.send(encode_frame(message))
        return True

    async def _keep_connected(self) -> None:
        loop = asyncio.get_running_loop()
        delay_ms = RETRY_FIRST_MS
        while True:
            self._answered = False
            self._lost.clear()
            if await self._dial(loop):
                await self._lost.wait()
            # A register that answered was in good health: its connection's end begins the waiting from the start.
            delay_ms = RETRY_FIRST_MS if self._answered else delay_ms
            if delay_ms == WARN_AT_MS:
                _log.warning("no register answers at %s:%d; trying again until one does", self._host, self._port)
            await asyncio.sleep(delay_ms / 1000 * random.uniform(0.5, 1.0))
            delay_ms = min(delay_ms * 2, RETRY_MAX_MS)

    async def _dial(self, loop: asyncio.AbstractEventLoop) -> bool:
        try:
            # Not wait_for: before Python 3.12 it loses a cancel that meets a dial which has just succeeded.
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await loop.create_connection(self._protocol, self._host, self._port)
        except (OSError, TimeoutError):
            if self._on_dial_failed is not None:
                self._on_dial_failed()
            return False
        return True

    def _protocol(self) -> FramedConnection:
        return FramedConnection(self._on_frames, self._on_closed, self._on_opened, REGISTER_FRAME_MAX)

    def _on_opened(self, connection: FramedConnection) -> None:
        self.connection = connection
        for message in self._greet():
            self.say(message)
        if self._beat_ms:
            self._beat(connection)

    def _on_closed(self, connection: FramedConnection, _error: Exception | None) -> None:
        if self.connection is connection:
            self.connection = None
            if self._on_down is not None:
                self._on_down()
        self._lost.set()

    def _beat(self, connection: FramedConnection) -> None:
        if self.connection is connection and not connection.closed:
            connection.send(encode_frame(self._new_beat()))
            asyncio.get_running_loop().call_later(self._beat_ms / 1000, self._beat, connection)

    def _on_frames(self, _connection: FramedConnection, frames: list[memoryview]) -> None:
        for body in frames:
            answer = decode_answer(body)
            if isinstance(answer, Declined):
                if answer.code in FINAL:
                    self.end()
            else:
                self._answered = True
            self._on_answer(answer)
