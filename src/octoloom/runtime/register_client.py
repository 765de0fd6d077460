"""The register's clients: a link that enlists and beats, whoever wants to be kept told, and a single question.

A client goes on trying for ever. While no register answers it keeps what it was told last: the data path needs no
register as long as nobody dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable

from octoloom.core.errors import OctoloomError, ProtocolError, UsageError
from octoloom.core.register_messages import Ask, Beat, Declined, Directory, Enlist, ToRegister
from octoloom.runtime.frames import FramedConnection, split_address
from octoloom.wire.register import REGISTER_FRAME_MAX, decode_answer, encode_frame

RETRY_FIRST_MS = 20
RETRY_MAX_MS = 200
WARN_AT_MS = 160
"""The delay at which the operator is told; it comes by once per outage."""
CONNECT_TIMEOUT_S = 2.0

_log = logging.getLogger("octoloom.link")

FINAL = ("outdated", "bad-link")
"""Refusals that asking again does not change."""


class RegisterClient:
    """Keeps a connection to the register at `address`.

    With `enlist` it is a link: the callable gives the `Enlist` of each new connection, and beats follow. Without, it
    only follows the directory. `on_directory` is called for every directory with a new revision, in order;
    `on_declined` for every refusal. After a refusal in `FINAL` the client stops.
    """

    def __init__(
        self,
        address: str,
        on_directory: Callable[[Directory], None],
        enlist: Callable[[], Enlist] | None = None,
        on_declined: Callable[[Declined], None] | None = None,
        beat_ms: int = 100,
    ) -> None:
        self.address = address
        self._host, self._port = split_address(address)
        self._on_directory = on_directory
        self._enlist = enlist
        self._on_declined = on_declined
        self._beat_ms = beat_ms
        self._connection: FramedConnection | None = None
        self._lost = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._answered = False
        self.directory: Directory | None = None
        """The newest that was told."""

    @property
    def connected(self) -> bool:
        return self._connection is not None

    def start(self) -> None:
        """Begins to connect; needs a running loop."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep_connected())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        if self._connection is not None:
            self._connection.close()

    def say(self, message: ToRegister) -> bool:
        """Sends a message. False while there is no connection: then it is lost, and to be said again."""
        if self._connection is None:
            return False
        self._connection.send(encode_frame(message))
        return True

    async def _keep_connected(self) -> None:
        loop = asyncio.get_running_loop()
        delay_ms = RETRY_FIRST_MS
        while True:
            self._answered = False
            self._lost.clear()
            with contextlib.suppress(OSError, TimeoutError):
                dial = loop.create_connection(self._protocol, self._host, self._port)
                await asyncio.wait_for(dial, CONNECT_TIMEOUT_S)
                await self._lost.wait()
            # A register that answered was in good health: its connection's end begins the waiting from the start.
            delay_ms = RETRY_FIRST_MS if self._answered else delay_ms
            if delay_ms == WARN_AT_MS:
                _log.warning("no register answers at %s:%d; trying again until one does", self._host, self._port)
            await asyncio.sleep(delay_ms / 1000 * random.uniform(0.5, 1.0))
            delay_ms = min(delay_ms * 2, RETRY_MAX_MS)

    def _protocol(self) -> FramedConnection:
        return FramedConnection(self._on_frames, self._on_closed, self._on_opened, REGISTER_FRAME_MAX)

    def _on_opened(self, connection: FramedConnection) -> None:
        self._connection = connection
        self.say(self._enlist() if self._enlist is not None else Ask(follow=True))
        if self._enlist is not None:
            self._beat(connection)

    def _on_closed(self, connection: FramedConnection, _error: Exception | None) -> None:
        if self._connection is connection:
            self._connection = None
        self._lost.set()

    def _beat(self, connection: FramedConnection) -> None:
        if self._connection is connection and not connection.closed:
            connection.send(_BEAT)
            asyncio.get_running_loop().call_later(self._beat_ms / 1000, self._beat, connection)

    def _on_frames(self, _connection: FramedConnection, frames: list[memoryview]) -> None:
        for body in frames:
            match decode_answer(body):
                case Directory() as directory:
                    self._on_news(directory)
                case Declined() as declined:
                    self._on_refusal(declined)

    def _on_news(self, directory: Directory) -> None:
        self._answered = True
        if self.directory is None or directory.revision > self.directory.revision:
            self.directory = directory
            self._on_directory(directory)

    def _on_refusal(self, declined: Declined) -> None:
        if declined.code in FINAL and self._task is not None:
            self._task.cancel()
        if self._on_declined is not None:
            self._on_declined(declined)


_BEAT = encode_frame(Beat())


async def ask(address: str, timeout_s: float = 3.0) -> Directory:
    """The directory of the register at `address`, once; for commands."""
    host, port = split_address(address)
    answer: asyncio.Future[Directory] = asyncio.get_running_loop().create_future()

    def on_frames(_connection: FramedConnection, frames: list[memoryview]) -> None:
        said = decode_answer(frames[0])
        if isinstance(said, Declined):
            raise ProtocolError(said.code, said.detail)
        if isinstance(said, Directory) and not answer.done():
            answer.set_result(said)

    def on_closed(_connection: FramedConnection, error: Exception | None) -> None:
        if not answer.done():
            answer.set_exception(error or ConnectionResetError("it hung up"))

    def on_opened(connection: FramedConnection) -> None:
        connection.send(encode_frame(Ask()))

    def protocol() -> FramedConnection:
        return FramedConnection(on_frames, on_closed, on_opened, REGISTER_FRAME_MAX)

    try:
        async with asyncio.timeout(timeout_s):
            _, connection = await asyncio.get_running_loop().create_connection(protocol, host, port)
            try:
                return await answer
            finally:
                connection.close()
    except (OSError, TimeoutError, OctoloomError) as error:
        text = f"no register answers at {address}: start one with `octoloom register`"
        raise UsageError(text) from error
