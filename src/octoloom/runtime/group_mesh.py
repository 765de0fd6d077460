"""The connections of a group over TCP: one between any two members, dialled by the younger.

1. Of each pair there is one connection at most; a newer one takes the place of the older. What was said on a connection
   that is lost is lost: the core says again what matters, and hears `on_peer_up` when there is a new one.
2. Who dials says who it is and whom it means, and speaks only after a welcome. The register may have told a newcomer
   the view before it told us: who is not known is held for a moment, then refused.
3. A fault of the other side ends the connection, is counted and logged, and changes nothing.
4. To a member that lets too much lie unread nothing more is sent until it reads. It asks for what it lacks then.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Sequence

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.group_messages import GroupView
from octoloom.runtime.backoff import Backoff
from octoloom.runtime.frames import FramedConnection, split_address
from octoloom.runtime.group_carrier import Owner
from octoloom.wire.framing import frame
from octoloom.wire.group import (
    GROUP_FRAME_MAX,
    Intro,
    Refusal,
    Welcome,
    decode_answer,
    decode_intro,
    decode_packet,
    encode_first,
    packet_head,
    packets_of,
)

CONNECT_S_MAX = 1.0
HELD_S_MAX = 2.0
"""How long a stranger is held that may be in the next view."""
ANSWER_S_MAX = 5.0
ACCEPTED_MAX = 1_024
BUFFERED_MAX = 64 * 1024 * 1024
"""Beyond it, what is said to a member is lost."""
PACKET_MAX = GROUP_FRAME_MAX // 2
STEADY_S = 1.0
"""A connection that lived so long was a good one: the next trouble begins with a short wait."""

_log = logging.getLogger("octoloom.group")


class Mesh:
    def __init__(self, group: str, me: str, owner: Owner) -> None:
        self.counters: Counter[str] = Counter()
        self._group, self._me = group, me
        self._owner = owner
        self._connections: dict[str, FramedConnection] = {}
        self._peers: dict[FramedConnection, str] = {}
        self._addresses: dict[str, str] = {}
        self._heads: dict[str, bytes] = {}
        self._dials: dict[str, asyncio.Task[None]] = {}
        self._dialled: dict[FramedConnection, tuple[str, asyncio.Event]] = {}
        self._strangers: dict[FramedConnection, asyncio.TimerHandle] = {}
        self._held: dict[FramedConnection, str] = {}
        """Strangers that have said who they are."""
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def open(self, host: str, port: int) -> None:
        try:
            self._server = await asyncio.get_running_loop().create_server(self._accepting, host, port)
        except OSError as error:
            text = f"cannot listen for the group on {host}:{port} ({error.strerror}): name another host or port"
            raise UsageError(text) from error

    def close(self) -> None:
        """Hangs up on everybody."""
        if self._server is not None:
            self._server.close()
        for task in self._dials.values():
            task.cancel()
        self._dials.clear()
        for timer in self._strangers.values():
            timer.cancel()
        connections = [*self._peers, *self._strangers, *self._dialled]
        self._connections.clear()
        self._peers.clear()
        for connection in connections:
            connection.abort()

    # Speaking.

    def send(self, member: str, parts: Sequence[bytes]) -> None:
        connection = self._connections.get(member)
        if connection is None:
            return
        if connection.buffered > BUFFERED_MAX:
            self.counters["unsent"] += 1
            return
        connection.send_now([frame(packet) for packet in packets_of(self._heads[member], parts, PACKET_MAX)])

    # Whom there is to speak to.

    def on_view(self, view: GroupView) -> None:
        self._addresses = {address.member: address.peer for address in view.members}
        self._heads = {member: packet_head(self._group, self._me, member) for member in self._addresses}
        for connection, member in list(self._peers.items()):
            if member not in self._addresses:
                self._lose(connection)
                connection.close()
        for member in [member for member in self._dials if member not in self._addresses]:
            self._dials.pop(member).cancel()
        for member in view.names[: view.names.index(self._me)]:
            if member not in self._dials:
                self._dials[member] = asyncio.get_running_loop().create_task(self._keep_calling(member))
        for connection, member in list(self._held.items()):
            if member in self._addresses:
                self._welcome(connection, member)

    async def _keep_calling(self, member: str) -> None:
        backoff, loop = Backoff(max_ms=200), asyncio.get_running_loop()
        while True:
            began = loop.time()
            with contextlib.suppress(OSError, TimeoutError, UsageError):
                await self._call(member)
            if loop.time() - began > STEADY_S:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    async def _call(self, member: str) -> None:
        """Connects, and returns when the connection is lost."""
        host, port = split_address(self._addresses[member])
        loop, lost = asyncio.get_running_loop(), asyncio.Event()
        # Not wait_for: before Python 3.12 it loses a cancel that meets a dial which has just succeeded.
        async with asyncio.timeout(CONNECT_S_MAX):
            _, connection = await loop.create_connection(self._calling, host, port)
        self._dialled[connection] = member, lost
        timer = loop.call_later(ANSWER_S_MAX, self._give_up, connection)
        connection.send(encode_first(Intro(self._group, self._me, member)))
        try:
            await lost.wait()
        finally:
            timer.cancel()
            self._dialled.pop(connection, None)
            connection.abort()

    def _give_up(self, connection: FramedConnection) -> None:
        if connection not in self._peers:
            connection.abort()

    def _calling(self) -> FramedConnection:
        return FramedConnection(self._on_frames, self._on_closed, frame_max=GROUP_FRAME_MAX)

    # Answering.

    def _accepting(self) -> FramedConnection:
        return FramedConnection(self._on_frames, self._on_closed, self._on_accepted, GROUP_FRAME_MAX)

    def _on_accepted(self, connection: FramedConnection) -> None:
        if len(self._strangers) + len(self._peers) >= ACCEPTED_MAX:
            self.counters["too-many-connections"] += 1
            connection.abort()
            return
        timer = asyncio.get_running_loop().call_later(HELD_S_MAX, self._turn_away, connection)
        self._strangers[connection] = timer

    def _turn_away(self, connection: FramedConnection) -> None:
        member = self._held.pop(connection, "")
        detail = f"{member or 'who says nothing'} is not in {self._group} as {self._me} knows it"
        self._refuse(connection, "not-a-member", detail)

    def _refuse(self, connection: FramedConnection, code: str, detail: str) -> None:
        self.counters[code] += 1
        _log.warning("%s refuses %s (%s): %s", self._me, connection.peer, code, detail)
        self._forget(connection)
        connection.send(encode_first(Refusal(code, detail)))
        connection.close()

    def _forget(self, connection: FramedConnection) -> None:
        timer = self._strangers.pop(connection, None)
        if timer is not None:
            timer.cancel()
        self._held.pop(connection, None)

    def _on_frames(self, connection: FramedConnection, frames: list[memoryview]) -> None:
        for body in frames:
            peer = self._peers.get(connection)
            if peer is not None:
                self._on_packet(connection, peer, body)
            elif connection in self._dialled:
                self._on_answer(connection, body)
            elif connection in self._strangers:
                self._on_intro(connection, body)
            if connection.closed:
                return

    def _on_packet(self, connection: FramedConnection, peer: str, body: memoryview) -> None:
        packet = decode_packet(body)
        if packet.sender != peer or packet.to != self._me or packet.group != self._group:
            detail = f"{peer} sends a packet from {packet.sender} to {packet.to} in {packet.group}"
            raise ProtocolError("forged-sender", detail)
        if not self._owner.on_packet(peer, packet.parts):
            connection.abort()

    def _on_intro(self, connection: FramedConnection, body: memoryview) -> None:
        if connection in self._held:
            raise ProtocolError("too-early", f"{self._held[connection]} speaks before it is welcome")
        intro = decode_intro(body)
        if intro.group != self._group or intro.to != self._me:
            self._refuse(connection, "wrong-member", f"this is {self._me} of {self._group}")
        elif intro.sender in self._addresses and intro.sender != self._me:
            self._welcome(connection, intro.sender)
        else:
            self._held[connection] = intro.sender

    def _welcome(self, connection: FramedConnection, member: str) -> None:
        self._forget(connection)
        connection.send(encode_first(Welcome()))
        self._take(connection, member)

    def _on_answer(self, connection: FramedConnection, body: memoryview) -> None:
        member, _ = self._dialled[connection]
        answer = decode_answer(body)
        if isinstance(answer, Refusal):
            self.counters["refused-dial"] += 1
            _log.info("%s refuses %s (%s): %s", member, self._me, answer.code, answer.detail)
            connection.abort()
        else:
            self._take(connection, member)

    # Taking and losing.

    def _take(self, connection: FramedConnection, member: str) -> None:
        older = self._connections.get(member)
        if older is not None:
            self._lose(older)
            older.abort()
        if connection.closed:
            return
        self._connections[member], self._peers[connection] = connection, member
        self._owner.on_peer_up(member)

    def _lose(self, connection: FramedConnection) -> None:
        member = self._peers.pop(connection, None)
        if member is not None:
            del self._connections[member]

    def _on_closed(self, connection: FramedConnection, error: Exception | None) -> None:
        if isinstance(error, ProtocolError):
            self.counters[error.code] += 1
            _log.warning("%s hangs up on %s: %s", self._me, self._peers.get(connection, connection.peer), error)
        self._forget(connection)
        dialled = self._dialled.pop(connection, None)
        if dialled is not None:
            dialled[1].set()
        self._lose(connection)
