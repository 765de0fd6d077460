"""The register's clients for chains: a link that enlists and beats, whoever follows, and a single question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from octoloom.core.errors import OctoloomError, ProtocolError, UsageError
from octoloom.core.group_messages import AskGroups, GroupList
from octoloom.core.log_messages import AskLog, LogDirectory
from octoloom.core.register_messages import Ask, Declined, Directory, Enlist, ToRegister
from octoloom.runtime.frames import FramedConnection, split_address
from octoloom.runtime.register_line import RegisterLine
from octoloom.wire.register import REGISTER_FRAME_MAX, Answer, Request, decode_answer, encode_frame

Told = TypeVar("Told", Directory, LogDirectory, GroupList)


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
        self._on_directory = on_directory
        self._enlist = enlist
        self._on_declined = on_declined
        self.line = RegisterLine(address, self._greet, self._on_answer, beat_ms if enlist is not None else 0)
        self.directory: Directory | None = None
        """The newest that was told."""

    @property
    def connected(self) -> bool:
        return self.line.connection is not None

    def start(self) -> None:
        """Begins to connect; needs a running loop."""
        self.line.start()

    async def stop(self) -> None:
        await self.line.stop()

    def say(self, message: ToRegister) -> bool:
        """Sends a message. False while there is no connection: then it is lost, and to be said again."""
        return self.line.say(message)

    def _greet(self) -> list[Request]:
        return [self._enlist() if self._enlist is not None else Ask(follow=True)]

    def _on_answer(self, answer: Answer) -> None:
        match answer:
            case Directory():
                if self.directory is None or answer.revision > self.directory.revision:
                    self.directory = answer
                    self._on_directory(answer)
            case Declined() if self._on_declined is not None:
                self._on_declined(answer)


async def ask(address: str, timeout_s: float = 3.0) -> Directory:
    """The directory of the register at `address`, once; for commands."""
    return await _ask(address, Ask(), Directory, timeout_s)


async def ask_log(address: str, timeout_s: float = 3.0) -> LogDirectory:
    """What the register at `address` knows of brokers and topics, once; for commands."""
    return await _ask(address, AskLog(), LogDirectory, timeout_s)


async def ask_groups(address: str, timeout_s: float = 3.0) -> GroupList:
    """Which ordered groups the register at `address` knows, once; for commands."""
    return await _ask(address, AskGroups(), GroupList, timeout_s)


async def _ask(address: str, question: Request, wanted: type[Told], timeout_s: float) -> Told:
    host, port = split_address(address)
    answer: asyncio.Future[Told] = asyncio.get_running_loop().create_future()

    def on_frames(_connection: FramedConnection, frames: list[memoryview]) -> None:
        said = decode_answer(frames[0])
        if isinstance(said, Declined):
            raise ProtocolError(said.code, said.detail)
        if isinstance(said, wanted) and not answer.done():
            answer.set_result(said)

    def on_closed(_connection: FramedConnection, error: Exception | None) -> None:
        if not answer.done():
            answer.set_exception(error or ConnectionResetError("it hung up"))

    def on_opened(connection: FramedConnection) -> None:
        connection.send(encode_frame(question))

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
