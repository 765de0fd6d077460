"""The register's server: moves bytes between sockets, the store and three cores, which decide everything.

Links, brokers and members of groups come in by one port, and so do Kafka clients that look for a leader: a Kafka
request begins with the high byte of a small number, 0, and our own messages with a MessagePack map.

Inputs of one tick are gathered: what the cores want to be durable is one transaction, and what they have to say is
said after it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from octoloom.core.errors import ProtocolError, StoreError, UsageError
from octoloom.core.group_messages import AskGroups, EnlistMember, GroupView
from octoloom.core.group_register import GroupRegister, GroupRegisterConfig
from octoloom.core.log_messages import AskLog, EnlistBroker, LogDirectory
from octoloom.core.log_register import LogConfig, LogRegister
from octoloom.core.register import Register, RegisterConfig
from octoloom.core.register_messages import Ask, Directory, Enlist
from octoloom.runtime.frames import FramedConnection
from octoloom.runtime.register_chains import ChainDesk
from octoloom.runtime.register_desk import Desk, decline
from octoloom.runtime.register_groups import GroupDesk
from octoloom.runtime.register_kafka import RegisterKafka
from octoloom.runtime.register_logs import LogDesk
from octoloom.storage.register_store import RegisterStore, Step
from octoloom.wire.register import REQUEST_FRAME_MAX, Request, decode_request

CONNECTIONS_MAX = 4000
BACKLOG = 1024
"""Connections that wait to be taken. When everybody comes back at once, those beyond it lose a second."""
KAFKA = b"\0"
"""How a Kafka request begins, and no message of our own."""

_log = logging.getLogger(__name__)


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class RegisterServer:
    """`store_path` None keeps everything in memory: for tests and throw-away clusters."""

    def __init__(
        self,
        config: RegisterConfig,
        store_path: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        log_config: LogConfig | None = None,
        auto_create: bool = True,
        group_config: GroupRegisterConfig | None = None,
    ) -> None:
        self._config = config
        self._group_config = group_config or _like(config)
        self._log_config = log_config or LogConfig()
        self._auto_create = auto_create
        self._store_path = store_path
        self._host = host
        self._port = port
        self._store: RegisterStore | None = None
        self._seat()
        self._kafka: RegisterKafka | None = None
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: int | None = None
        self._connections: dict[FramedConnection, Desk | None] = {}
        """Everybody connected, and where it enlisted (None for who only asks)."""
        self._due = False
        self.failed: asyncio.Future[None] | None = None
        """Fails with the `StoreError` when the store does: the register then stops rather than decide unsaved."""

    def _seat(self) -> None:
        """Makes the cores, with what the store knows."""
        saved = self._store.load() if self._store is not None else None
        saved_log = self._store.load_log() if self._store is not None else None
        saved_groups = self._store.load_groups() if self._store is not None else None
        self._chains = ChainDesk(Register(self._config, saved, now_ms()), self._on_due)
        self._logs = LogDesk(LogRegister(self._log_config, saved_log, now_ms()), self._on_due)
        self._groups = GroupDesk(GroupRegister(self._group_config, saved_groups, now_ms()), self._on_due)
        self._desks: tuple[Desk, ...] = (self._chains, self._logs, self._groups)

    @property
    def port(self) -> int:
        if self._server is None:
            raise UsageError("the register has no port before it is started: await start() first")
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def address(self) -> str:
        return f"{self._host}:{self.port}"

    def directory(self) -> Directory:
        return self._chains.core.directory()

    def log_directory(self) -> LogDirectory:
        return self._logs.core.directory()

    def groups(self) -> list[GroupView]:
        return self._groups.core.views()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.failed = loop.create_future()
        try:
            if self._store_path is not None:
                self._store = RegisterStore(self._store_path)
            self._seat()
            self._kafka = RegisterKafka(self._logs, self._flush, self._auto_create)
            self._server = await loop.create_server(self._protocol, self._host, self._port, backlog=BACKLOG)
        except OSError as error:
            self._close_store()
            text = f"cannot listen on {self._host}:{self._port} ({error.strerror}): name another port with --port"
            raise UsageError(text) from error
        except StoreError:
            self._close_store()
            raise
        self._set_timer()

    async def stop(self) -> None:
        """Hangs up on everybody. Links, brokers and members go on with what they were told."""
        self._flush()
        self._hang_up()
        if self._server is not None:
            await self._server.wait_closed()
        if self._kafka is not None:
            self._kafka.close()
        self._close_store()

    def _hang_up(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.abort()
        self._set_timer()

    # Connections.

    def _protocol(self) -> FramedConnection:
        return FramedConnection(self._on_frames, self._on_closed, self._on_opened, REQUEST_FRAME_MAX)

    def _on_opened(self, connection: FramedConnection) -> None:
        self._connections[connection] = None
        if len(self._connections) > CONNECTIONS_MAX:
            decline(connection, "full", f"the register keeps {CONNECTIONS_MAX} connections at most")

    def _on_frames(self, connection: FramedConnection, frames: list[memoryview]) -> None:
        for body in frames:
            if connection.closed:
                break
            if self._kafka is not None and body[:1] == KAFKA and self._connections[connection] is None:
                self._kafka.on_frame(connection, body)
            else:
                self._on_request(connection, decode_request(body))
        self._set_timer()

    def _on_closed(self, connection: FramedConnection, error: Exception | None) -> None:
        if isinstance(error, ProtocolError):
            _log.warning("hung up on %s: %s", connection.peer, error)
        self._connections.pop(connection, None)
        if self._kafka is not None:
            self._kafka.on_closed(connection)
        for desk in self._desks:
            desk.on_closed(now_ms(), connection)
        self._set_timer()

    def _on_request(self, connection: FramedConnection, request: Request) -> None:
        now = now_ms()
        match request:
            case Ask(follow):
                if self._flush():  # what is not saved yet must not be told
                    self._chains.on_ask(connection, follow)
            case AskLog(follow):
                if self._flush():
                    self._logs.on_ask(connection, follow)
            case AskGroups():
                if self._flush():
                    self._groups.on_ask(connection)
            case Enlist():
                self._enter(connection, self._chains)
                self._chains.on_enlist(now, connection, request)
            case EnlistBroker():
                self._enter(connection, self._logs)
                self._logs.on_enlist(now, connection, request)
            case EnlistMember():
                self._enter(connection, self._groups)
                self._groups.on_enlist(now, connection, request)
            case _:
                desk = self._connections[connection]
                if desk is None:
                    raise ProtocolError("not-enlisted", f"{type(request).__name__} came before Enlist")
                desk.on_request(now, connection, request)

    def _enter(self, connection: FramedConnection, desk: Desk) -> None:
        if self._connections[connection] not in (None, desk):
            raise ProtocolError("enlisted-twice", "a connection is a link's, a broker's or a member's, and stays it")
        self._connections[connection] = desk

    # What comes out.

    def _on_due(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> bool:
        """Saves all that is to be saved, then has it told. False if the store failed: then nothing is told any more."""
        self._due = False
        if self.failed is not None and self.failed.done():
            return False
        self._groups.settle(now_ms())
        directory = self._chains.unsaved
        steps: list[Step] = [*self._logs.unsaved, *self._groups.unsaved]
        if self._store is not None and (directory is not None or steps):
            try:
                self._store.save(directory, steps)
            except StoreError as error:
                self._fail(error)
                return False
        for desk in self._desks:
            desk.tell()
        self._set_timer()
        return True

    def _fail(self, error: StoreError) -> None:
        if self.failed is not None and not self.failed.done():
            self.failed.set_exception(error)
        self._hang_up()

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    # Time.

    def _set_timer(self) -> None:
        serving = self._server is not None and self._server.is_serving()
        deadlines = [desk.deadline() for desk in self._desks] if serving else []
        deadline = min((at for at in deadlines if at is not None), default=None)
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
        now = now_ms()
        for desk in self._desks:
            deadline = desk.deadline()
            if deadline is not None and deadline <= now:
                desk.on_time(now)
        self._set_timer()


def _like(config: RegisterConfig) -> GroupRegisterConfig:
    """Members of groups are given up as links are."""
    return GroupRegisterConfig(config.beat_ms, config.lease_ms, config.closed_grace_ms, config.suspect_ms)
