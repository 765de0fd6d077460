"""The connections between links: one per chain and neighbour, dialled by the lower of the two.

1. Of each (chain, peer) there is one connection at most. A newer one takes the place of the older: the owner hears
   `on_peer_down`, then `on_peer_up`. Between the two, and after a down, nothing of the older reaches it.
2. The first frame says who dials and for which chain. Who is not in the directory, shows another token or speaks
   of a chain that is not known here is hung up on, and dials again soon.
3. A fault of the other side ends that connection, is counted and logged. A neighbour that lets too much lie unread is
   cut off: it says hello again and gets what it lacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import random
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.link_messages import LinkMessage
from octoloom.runtime.frames import FramedConnection, split_address
from octoloom.wire.link import Intro, decode, decode_intro, encode_frame, encode_intro
from octoloom.wire.stats import StatsRequest, decode_request, is_request

RETRY_FIRST_MS = 20
RETRY_MAX_MS = 200
CONNECT_MS_MAX = 1_000
INTRO_MS_MAX = 5_000
ACCEPTED_MAX = 4_000
BUFFERED_MAX = 512 * 1024 * 1024

Key = tuple[str, str]
"""(chain, peer)"""
_log = logging.getLogger("octoloom.link")


class Owner(Protocol):
    def on_peer_up(self, chain: str, peer: str) -> None: ...
    def on_peer_down(self, chain: str, peer: str) -> None: ...
    def on_peer_messages(self, chain: str, peer: str, messages: list[LinkMessage]) -> None: ...
    def address_of(self, peer: str) -> str:
        """host:port of a link in the directory, or nothing."""

    def hosts(self, chain: str) -> bool: ...
    def answer(self, request: StatsRequest) -> bytes: ...


class Peers:
    def __init__(self, me: str, owner: Owner, token: str = "") -> None:
        self.counters: Counter[str] = Counter()
        self._me = me
        self._owner = owner
        self._token = token
        self._connections: dict[Key, FramedConnection] = {}
        self._keys: dict[FramedConnection, Key] = {}
        self._dials: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """Of each chain, whom this link calls."""
        self._dialled: dict[FramedConnection, asyncio.Event] = {}
        self._strangers: dict[FramedConnection, asyncio.TimerHandle] = {}
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def open(self, host: str, port: int) -> None:
        try:
            self._server = await asyncio.get_running_loop().create_server(self._accepting, host, port, backlog=1024)
        except OSError as error:
            raise UsageError(
                f"cannot listen for links on {host}:{port} ({error.strerror}): name another port"
            ) from error

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for _, task in self._dials.values():
            task.cancel()
        self._dials.clear()
        for timer in self._strangers.values():
            timer.cancel()
        connections = [*self._keys, *self._strangers, *self._dialled]
        self._keys.clear()
        self._connections.clear()
        for connection in connections:
            connection.abort()

    # Speaking.

    def send(self, chain: str, peer: str, messages: Sequence[LinkMessage]) -> None:
        """Sends all of a turn's messages at once; said to who is not connected they are lost."""
        connection = self._connections.get((chain, peer))
        if connection is None:
            return
        connection.send_now(_frames(messages))
        if connection.buffered > BUFFERED_MAX:
            self.counters["too-slow"] += 1
            _log.warning("hung up on %s in chain %s, which does not read", peer, chain)
            connection.abort()

    # Calling.

    def call(self, chain: str, peer: str) -> None:
        """Keeps a connection to `peer` for `chain`, and to nobody else; nothing for nobody at all."""
        before, task = self._dials.get(chain, ("", None))
        if before == peer:
            return
        if task is not None:
            task.cancel()
            del self._dials[chain]
            connection = self._connections.get((chain, before))
            if connection in self._dialled:
                self._lose(connection)
                connection.abort()
        if peer:
            self._dials[chain] = peer, asyncio.get_running_loop().create_task(self._keep_calling(chain, peer))

    async def _keep_calling(self, chain: str, peer: str) -> None:
        delay_ms = RETRY_FIRST_MS
        while True:
            with contextlib.suppress(OSError, TimeoutError, UsageError):
                await self._call(chain, peer)
                delay_ms = RETRY_FIRST_MS
            await asyncio.sleep(delay_ms / 1000 * random.uniform(0.5, 1.0))
            delay_ms = min(delay_ms * 2, RETRY_MAX_MS)

    async def _call(self, chain: str, peer: str) -> None:
        """Connects, and returns when the connection is lost."""
        host, port = split_address(self._owner.address_of(peer))
        lost = asyncio.Event()
        dial = asyncio.get_running_loop().create_connection(
            lambda: FramedConnection(self._on_frames, self._on_closed), host, port
        )
        async with asyncio.timeout(CONNECT_MS_MAX / 1000):
            _, connection = await dial
        self._dialled[connection] = lost
        connection.send(encode_intro(Intro(self._me, self._token, chain)))
        try:
            self._take((chain, peer), connection)
            await lost.wait()
        finally:
            connection.abort()

    # Answering.

    def _accepting(self) -> FramedConnection:
        return FramedConnection(self._on_frames, self._on_closed, self._on_accepted)

    def _on_accepted(self, connection: FramedConnection) -> None:
        if len(self._strangers) + len(self._keys) >= ACCEPTED_MAX:
            self.counters["too-many-connections"] += 1
            connection.abort()
            return
        timer = asyncio.get_running_loop().call_later(INTRO_MS_MAX / 1000, connection.abort)
        self._strangers[connection] = timer

    def _on_frames(self, connection: FramedConnection, frames: list[memoryview]) -> None:
        for body in frames:
            key = self._keys.get(connection)
            if key is not None:
                self._on_messages(key, decode(body))
            elif connection in self._strangers:
                self._on_first(connection, body)

    def _on_first(self, connection: FramedConnection, body: memoryview) -> None:
        if is_request(body):
            connection.send(self._owner.answer(decode_request(body)))
            self._strangers.pop(connection).cancel()
            connection.close()
            return
        intro = decode_intro(body)
        if not hmac.compare_digest(intro.token.encode(), self._token.encode()):
            raise ProtocolError("forbidden", f"{intro.link} does not show this chain's token")
        self._strangers.pop(connection).cancel()
        if not self._owner.address_of(intro.link) or not self._owner.hosts(intro.chain):
            connection.close()  # no fault: one of the two has not heard the news yet
            return
        self._take((intro.chain, intro.link), connection)

    def _on_messages(self, key: Key, messages: list[LinkMessage]) -> None:
        chain, peer = key
        for message in messages:
            if message.chain != chain:
                raise ProtocolError("other-chain", f"a message of {message.chain!r} came on a connection of {chain!r}")
        self._owner.on_peer_messages(chain, peer, messages)

    # Taking and losing.

    def _take(self, key: Key, connection: FramedConnection) -> None:
        older = self._connections.get(key)
        if older is not None:
            self._lose(older)
            older.abort()
        if connection.closed:
            return
        self._connections[key], self._keys[connection] = connection, key
        self._owner.on_peer_up(*key)

    def _lose(self, connection: FramedConnection) -> None:
        key = self._keys.pop(connection, None)
        if key is not None:
            del self._connections[key]
            self._owner.on_peer_down(*key)

    def _on_closed(self, connection: FramedConnection, error: Exception | None) -> None:
        if isinstance(error, ProtocolError):
            self.counters[error.code] += 1
            key = self._keys.get(connection)
            _log.warning("hung up on %s: %s", key[1] if key else connection.peer, error)
        timer = self._strangers.pop(connection, None)
        if timer is not None:
            timer.cancel()
        lost = self._dialled.pop(connection, None)
        if lost is not None:
            lost.set()
        self._lose(connection)


def _frames(messages: Sequence[LinkMessage]) -> list[bytes]:
    """One frame, or as many as it takes where the messages are too large for one."""
    try:
        return [encode_frame(messages)]
    except ProtocolError:
        if len(messages) == 1:
            raise
        half = len(messages) // 2
        return [*_frames(messages[:half]), *_frames(messages[half:])]
