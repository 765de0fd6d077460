"""The register's server: moves bytes between sockets, the store and the core, which decides everything.

Inputs of one tick are gathered: the core sees them one by one, but the directory that comes out is saved once and told
once. That keeps the core's order (durable first, then told), since only the last directory of a tick leaves.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from octoloom.core.errors import ProtocolError, StoreError, UsageError
from octoloom.core.register import Announce, Decline, Effect, Persist, Register, RegisterConfig, Tell
from octoloom.core.register_messages import (
    Adopted,
    Ask,
    Beat,
    Declined,
    Directory,
    Enlist,
    Leave,
    Ready,
    Suspect,
    ToRegister,
    Whole,
)
from octoloom.runtime.frames import FramedConnection
from octoloom.storage.register_store import RegisterStore
from octoloom.wire.register import REGISTER_FRAME_MAX, decode_request, encode_frame

CONNECTIONS_MAX = 4000
BUFFERED_MAX = 32 * 1024 * 1024
"""Who lets this much of what it was told lie unread is hung up on: it asks anew when it can."""

_log = logging.getLogger(__name__)


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class RegisterServer:
    """`store_path` None keeps everything in memory: for tests and throw-away chains."""

    def __init__(
        self, config: RegisterConfig, store_path: str | Path | None = None, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._config = config
        self._store_path = store_path
        self._host = host
        self._port = port
        self._core = Register(config, None, now_ms())
        self._store: RegisterStore | None = None
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: int | None = None
        self._connections: dict[FramedConnection, str] = {}
        """Everybody connected, and the link it enlisted as ("" for who only asks)."""
        self._links: dict[str, FramedConnection] = {}
        """The newest connection of each link."""
        self._followers: dict[FramedConnection, int] = {}
        """Who is kept told, and the revision it was told last."""
        self._save: Directory | None = None
        self._due = False
        self.failed: asyncio.Future[None] | None = None
        """Fails with the `StoreError` when the store does: the register then stops rather than decide unsaved."""

    @property
    def port(self) -> int:
        if self._server is None:
            raise UsageError("the register has no port before it is started: await start() first")
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def address(self) -> str:
        return f"{self._host}:{self.port}"

    def directory(self) -> Directory:
        return self._core.directory()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.failed = loop.create_future()
        saved = None
        if self._store_path is not None:
            self._store = RegisterStore(self._store_path)
            saved = self._store.load()
        self._core = Register(self._config, saved, now_ms())
        try:
            self._server = await loop.create_server(self._protocol, self._host, self._port)
        except OSError as error:
            self._close_store()
            text = f"cannot listen on {self._host}:{self._port} ({error.strerror}): name another port with --port"
            raise UsageError(text) from error
        self._set_timer()

    async def stop(self) -> None:
        """Hangs up on everybody. Links go on with the views they have."""
        self._flush()
        self._hang_up()
        if self._server is not None:
            await self._server.wait_closed()
        self._close_store()

    def _hang_up(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.abort()
        self._set_timer()

    # Connections.

    def _protocol(self) -> FramedConnection:
        return FramedConnection(self._on_frames, self._on_closed, self._on_opened, REGISTER_FRAME_MAX)

    def _on_opened(self, connection: FramedConnection) -> None:
        self._connections[connection] = ""
        if len(self._connections) > CONNECTIONS_MAX:
            self._decline(connection, "full", f"the register keeps {CONNECTIONS_MAX} connections at most")

    def _on_frames(self, connection: FramedConnection, frames: list[memoryview]) -> None:
        for body in frames:
            if not connection.closed:
                self._obey(self._on_request(connection, decode_request(body)))

    def _on_closed(self, connection: FramedConnection, error: Exception | None) -> None:
        if isinstance(error, ProtocolError):
            _log.warning("hung up on %s: %s", connection.peer, error)
        link = self._connections.pop(connection, "")
        self._followers.pop(connection, None)
        # An older connection of a link that is back says nothing about the link.
        if link and self._links.get(link) is connection:
            del self._links[link]
            self._obey(self._core.on_closed(now_ms(), link))

    def _on_request(self, connection: FramedConnection, request: ToRegister) -> list[Effect]:
        now, link = now_ms(), self._connections[connection]
        match request:
            case Ask(follow):
                self._on_ask(connection, follow)
                return []
            case Enlist():
                return self._on_enlist(now, connection, request)
            case _ if not link:
                raise ProtocolError("not-enlisted", f"{type(request).__name__} came before Enlist")
            case Beat():
                return self._core.on_beat(now, link)
            case Adopted():
                return self._core.on_adopted(now, link, request)
            case Ready():
                return self._core.on_ready(now, link, request)
            case Whole():
                return self._core.on_whole(now, link, request)
            case Suspect():
                return self._core.on_suspect(now, link, request)
            case Leave():
                return self._core.on_leave(now, link)

    def _on_enlist(self, now: int, connection: FramedConnection, request: Enlist) -> list[Effect]:
        link = request.address.link
        if self._connections[connection] not in ("", link):
            raise ProtocolError("enlisted-twice", f"{self._connections[connection]} enlists as {link}")
        effects = self._core.on_enlist(now, link, request)
        for effect in effects:
            if isinstance(effect, Decline) and effect.link == link:
                self._decline(connection, effect.code, effect.detail)
                return []
        older = self._links.get(link)
        self._connections[connection], self._links[link] = link, connection
        if older is not None and older is not connection:
            older.close()
        self._followers[connection] = -1
        return effects

    # Effects.

    def _obey(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Persist(directory):
                    self._save = directory
                case Announce() | Tell():
                    pass  # whoever follows is told in _flush what it has not been told yet
                case Decline(link, code, detail, ends):
                    if connection := self._links.get(link):
                        self._decline(connection, code, detail, ends)
        if effects and not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._flush)
        self._set_timer()

    def _flush(self) -> None:
        """Saves the tick's last directory, then tells it to everybody who has not heard it."""
        self._due = False
        if self._save is not None and self._store is not None:
            try:
                self._store.save(self._save)
            except StoreError as error:
                self._fail(error)
                return
        self._save = None
        directory = self._core.directory()
        behind = [follower for follower, told in self._followers.items() if told < directory.revision]
        frame = encode_frame(directory) if behind else b""
        for follower in behind:
            self._followers[follower] = directory.revision
            self._send(follower, frame)

    def _on_ask(self, connection: FramedConnection, follow: bool) -> None:
        self._flush()  # what is not saved yet must not be told
        if self._save is None:
            directory = self._core.directory()
            self._send(connection, encode_frame(directory))
            if follow:
                self._followers[connection] = directory.revision

    def _decline(self, connection: FramedConnection, code: str, detail: str, ends: bool = True) -> None:
        connection.send(encode_frame(Declined(code, detail)))
        if ends:
            connection.close()

    def _send(self, connection: FramedConnection, frame: bytes) -> None:
        if connection.buffered > BUFFERED_MAX:
            connection.abort()
        else:
            connection.send(frame)

    def _fail(self, error: StoreError) -> None:
        self._hang_up()
        if self.failed is not None and not self.failed.done():
            self.failed.set_exception(error)

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    # Time.

    def _set_timer(self) -> None:
        serving = self._server is not None and self._server.is_serving()
        deadline = self._core.deadline() if serving else None
        if deadline == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = deadline
        if deadline is not None:
            delay_ms = max(deadline - now_ms(), 0)
            self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = self._timer_at = None
        self._obey(self._core.on_time(now_ms()))
