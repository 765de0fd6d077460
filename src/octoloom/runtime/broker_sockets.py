"""All connections of a broker: who is let in, who has something to send, and the buffers that they read into.

Memory follows activity: a connection that says nothing for a second holds no buffer, and where many speak, none of them
holds one from one request to the next. All buffers together are bounded; a request that would go beyond the bound ends
its connection. The buffer that a connection begins with is always given, so that few who send much, or only halves of
it, do not keep out the others: it is bounded as connections are.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.runtime.broker_connection import BUFFER_BYTES, Connection, Take

POOLED_MAX = 256
BUFFERS_BYTES_MAX = 512 * 1024 * 1024
BACKLOG = 1024
SWEEP_S = 1.0
ACCEPTS_MAX = 64
"""New connections in one go, before others have their turn."""
FULL_PAUSE_S = 0.1

_log = logging.getLogger("octoloom.broker")


class Buffers:
    def __init__(self, bytes_max: int = BUFFERS_BYTES_MAX) -> None:
        self._pool: list[bytearray] = []
        self._bytes_max = bytes_max
        self.bytes_out = 0
        """In all that were taken and not given back."""

    def take(self, size: int, instead_of: bytearray | None) -> bytearray:
        """A buffer. The old one is not used again: somebody may still look at what is in it."""
        before = 0 if instead_of is None else len(instead_of)
        if not self.fits(size, instead_of):
            raise ProtocolError("busy", f"{self.bytes_out} bytes of requests are under way already")
        self.bytes_out += size - before
        if size == BUFFER_BYTES and self._pool:
            return self._pool.pop()
        return bytearray(size)

    def fits(self, size: int, instead_of: bytearray | None) -> bool:
        before = 0 if instead_of is None else len(instead_of)
        return size <= BUFFER_BYTES or self.bytes_out + size - before <= self._bytes_max

    def give(self, buffer: bytearray) -> None:
        self.bytes_out -= len(buffer)
        if len(buffer) == BUFFER_BYTES and len(self._pool) < POOLED_MAX:
            self._pool.append(buffer)


class Sockets:
    def __init__(
        self,
        soon: Callable[[], None],
        promptly: Callable[[], None],
        on_broken: Callable[[Exception], None],
        connections_max: int,
        request_bytes_max: int,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.on_broken = on_broken
        """Called with whatever went wrong that is not the other side's fault."""
        self.soon = soon
        """Called whenever something is to go out: there should be a turn at the end of this tick."""
        self._promptly = promptly
        self.is_turn = False
        """A turn has begun: it ends with sending what is there, and needs no other for it."""
        self.request_bytes_max = request_bytes_max
        self.buffers = Buffers()
        self.counters: Counter[str] = Counter()
        """Faults of others, by code."""
        self.talking: dict[Connection, None] = {}
        """Those with something to send."""
        self.used: dict[Connection, None] = {}
        """Those who handed something over in this tick."""
        self._connections_max = connections_max
        self._connections: dict[Connection, None] = {}
        self._listener: socket.socket | None = None
        self._take: Take | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._warned_at = 0.0

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def port(self) -> int:
        assert self._listener is not None
        return int(self._listener.getsockname()[1])

    # Opening and closing.

    async def listen(self, host: str, port: int, take: Take) -> None:
        self._take = take
        try:
            infos = await self.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, kind, protocol, _, address = infos[0]
            listener = socket.socket(family, kind, protocol)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
                listener.listen(BACKLOG)
            except BaseException:
                listener.close()
                raise
        except OSError as error:
            text = f"cannot listen on {host}:{port} ({error.strerror}): name another port"
            raise UsageError(text) from error
        listener.setblocking(False)
        self._listener = listener
        self.loop.add_reader(listener.fileno(), self._accept)
        self._sweeper = self.loop.call_later(SWEEP_S, self._sweep)

    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._listener is not None:
            self.loop.remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None
        self.hang_up()

    def hang_up(self) -> None:
        """Ends all connections; new ones are let in."""
        for connection in list(self._connections):
            connection.close()

    # Connections.

    def _accept(self) -> None:
        assert self._listener is not None
        assert self._take is not None
        for _ in range(ACCEPTS_MAX):
            try:
                sock, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # No descriptors are left. The others are served meanwhile.
                _log.warning("cannot take a connection: %s", error)
                self.loop.remove_reader(self._listener.fileno())
                self.loop.call_later(FULL_PAUSE_S, self._listen_again)
                return
            if len(self._connections) >= self._connections_max:
                self.counters["too-many-connections"] += 1
                sock.close()
                continue
            self.add(sock, self._take)

    def _listen_again(self) -> None:
        if self._listener is not None:
            self.loop.add_reader(self._listener.fileno(), self._accept)

    def add(self, sock: socket.socket, take: Take) -> Connection | None:
        """Takes up a connected socket; None if it was closed meanwhile."""
        sock.setblocking(False)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(self, sock, take)
        except OSError:
            sock.close()
            return None
        self._connections[connection] = None
        return connection

    def on_closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self.talking.pop(connection, None)

    def on_fault(self, connection: Connection, error: ProtocolError) -> None:
        self.counters[error.code] += 1
        if self.loop.time() - self._warned_at >= 1:
            self._warned_at = self.loop.time()
            _log.warning("hung up on %s: %s", connection.client_host, error)

    # Turns.

    def on_heard(self) -> None:
        """Something came in: there should be a turn, if this is none already."""
        if self.is_turn:
            self.soon()
        else:
            self._promptly()

    def flush(self) -> None:
        """Sends what was queued."""
        while self.talking:
            talking, self.talking = self.talking, {}
            for connection in talking:
                connection.flush()

    def recycle(self) -> None:
        """Nothing that was handed over before is needed any more."""
        used, self.used = self.used, {}
        for connection in used:
            connection.recycle()

    def _sweep(self) -> None:
        for connection in list(self._connections):
            connection.rest()
        self._sweeper = self.loop.call_later(SWEEP_S, self._sweep)
