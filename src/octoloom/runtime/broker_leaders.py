"""The follower's side of replication: the connections to brokers that this one follows, and the frames they send.

A connection is kept as long as the core wants it: dialled again, with pauses, whenever it is lost. The core hears of
a leader once it has answered, and is told parts of frames only after all of their batches were checked; a frame with
anything wrong in it ends the connection and changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from functools import partial

from octoloom.core.errors import ProtocolError
from octoloom.core.log_messages import Durable, Follow
from octoloom.runtime.backoff import Backoff
from octoloom.runtime.broker_connection import Connection
from octoloom.runtime.broker_sockets import Sockets
from octoloom.runtime.broker_state import BrokerState
from octoloom.wire.replication import (
    Intro,
    decode_frame,
    decode_welcome,
    encode_from_follower,
    encode_intro,
)

CONNECT_S_MAX = 2.0
WELCOME_S_MAX = 5.0

_log = logging.getLogger("octoloom.broker")


class Line:
    """The connection to one leader, and the task that keeps it."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.task: asyncio.Task[None] | None = None
        self.connection: Connection | None = None
        self.lost = asyncio.Event()
        self.is_up = False
        self.is_over = False
        """Nobody wants it any more. A task that is cancelled while it connects may not notice."""


class Leaders:
    def __init__(self, state: BrokerState, sockets: Sockets, me: str) -> None:
        self._state = state
        self._sockets = sockets
        self.me = me
        self._lines: dict[str, Line] = {}

    # What the core wants.

    def dial(self, peer: str) -> None:
        """Keeps a connection to this broker."""
        if peer not in self._lines:
            line = self._lines[peer] = Line(peer)
            line.task = self._state.loop.create_task(self._keep(line))

    def hang_up(self, peer: str) -> None:
        line = self._lines.pop(peer, None)
        if line is not None:
            self._end(line)

    def say(self, peer: str, message: Follow | Durable) -> None:
        line = self._lines.get(peer)
        if line is not None and line.is_up and line.connection is not None:
            line.connection.send([encode_from_follower(message)])

    def forget(self, me: str) -> None:
        """Nobody is followed any more; what comes next is under another name."""
        self.me = me
        lines, self._lines = self._lines, {}
        for line in lines.values():
            self._end(line)

    def _end(self, line: Line) -> None:
        line.is_over = True
        if line.task is not None:
            line.task.cancel()
        if line.connection is not None:
            line.connection.on_closed = None
            line.connection.close()

    # Dialling.

    async def _keep(self, line: Line) -> None:
        backoff = Backoff(max_ms=200)
        while not line.is_over:
            with contextlib.suppress(OSError, TimeoutError):
                await self._call(line)
            if line.is_up:
                backoff.reset()
            line.is_up = False
            await asyncio.sleep(backoff.next_s())

    async def _call(self, line: Line) -> None:
        """Connects, and returns when the connection is lost."""
        address = self._state.directory.brokers.get(line.peer)
        if address is None:
            return
        sock = await self._connect(address.host, address.port)
        if line.is_over:
            sock.close()
            return
        line.lost.clear()
        connection = self._sockets.add(sock, lambda _, frame: self._on_welcome(line, frame))
        if connection is None:
            return
        line.connection = connection
        connection.on_closed = lambda _: self._on_closed(line)
        connection.send([encode_intro(Intro(self.me, line.peer, self._state.settings.token))])
        watch = self._state.loop.call_later(WELCOME_S_MAX, self._on_silence, line, connection)
        try:
            await line.lost.wait()
        finally:
            watch.cancel()

    async def _connect(self, host: str, port: int) -> socket.socket:
        loop = self._state.loop
        async with asyncio.timeout(CONNECT_S_MAX):
            infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            family, kind, protocol, _, address = infos[0]
            sock = socket.socket(family, kind, protocol)
            sock.setblocking(False)
            try:
                await loop.sock_connect(sock, address)
            except BaseException:
                sock.close()
                raise
        return sock

    def _on_silence(self, line: Line, connection: Connection) -> None:
        if line.connection is connection and not line.is_up:
            connection.close()

    def _on_closed(self, line: Line) -> None:
        line.connection = None
        line.lost.set()
        if line.is_up:
            self._state.core.following.on_leader_down(line.peer)
            self._state.soon()

    # Hearing.

    def _on_welcome(self, line: Line, frame: memoryview) -> bool:
        welcome = decode_welcome(frame)
        if welcome.broker != line.peer:
            raise ProtocolError("other-broker", f"{welcome.broker} answers in place of {line.peer}")
        assert line.connection is not None
        line.is_up = True
        line.connection.take = partial(self._on_frame, line.peer)
        self._state.core.following.on_leader_up(self._state.clock.now(), line.peer)
        _log.info("%s follows %s", self.me, line.peer)
        return True

    def _on_frame(self, peer: str, _connection: Connection, frame: memoryview) -> bool:
        number, taken = decode_frame(frame)
        state = self._state
        following, replicas, now = state.core.following, state.logs.replicas, state.clock.now()
        for part, _, headers in taken:
            replica = replicas.get((part.topic, part.partition))
            if replica is None or not headers or headers[0].leader_epoch >= replica.partition.epochs.last:
                continue
            if replica.partition.takes(part):
                raise ProtocolError("out-of-place", f"epochs fall in what {peer} sends of {part.topic}")
        for part, batches, headers in taken:
            if following.on_part(now, peer, part, headers):
                replica = replicas[part.topic, part.partition]
                replica.batches.append(batches)
                replica.headers += headers
                state.dirty[replica] = None
        following.on_frame(peer, number, [each.part for each in taken])
        return True
