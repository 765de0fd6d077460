"""The WebSockets of a link: who is connected, what each says, and what each is told.

Every connection gets a number. What it says is checked and decoded here, so the receiver sees messages only:

1. A fault of the sender is answered with its code, counted under it, and ends that connection.
2. Once a connection is being ended, nothing that it says is passed on. The end is a handshake: the other side has
   `CLOSE_MS_MAX` to read what it was told and to answer, then it is cut off.
3. `on_closed` comes once for every connection that was let in: when it is lost, or as soon as it is being ended.
4. A connection whose buffer is above the high-water mark is reported as congested, and as drained below the low one.
   What it is told meanwhile is still sent: the receiver is expected to say little.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport, WSUpgradeRequest, ws_create_server

from octoloom.core.device_messages import FromDevice, Refused, ToDevice
from octoloom.core.errors import ProtocolError, UsageError
from octoloom.wire.device import FROM_DEVICE_BYTES_MAX, decode_from_device, encode

CONNECTIONS_MAX = 10_000
REFUSALS_MAX = 500
"""So many beyond the maximum are told that there is no room; those beyond are cut off."""
HIGH_WATER_BYTES = 256 * 1024
LOW_WATER_BYTES = 64 * 1024
CLOSE_MS_MAX = 2_000
SILENCE_S = 20
GREETING_MS_MAX = 10_000

_TEXT, _BINARY, _CLOSE = WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CLOSE
_CONTINUATION = WSMsgType.CONTINUATION

# The library logs every connection and every fault of a stranger: here faults are counted instead.
_library_log = logging.getLogger("octoloom.link.websocket")
_library_log.setLevel(logging.CRITICAL)


class Receiver(Protocol):
    """Who is behind the doors."""

    def on_device_message(self, connection: int, message: FromDevice) -> None: ...
    def on_device_closed(self, connection: int) -> None: ...
    def on_device_congested(self, connection: int) -> None: ...
    def on_device_drained(self, connection: int) -> None: ...


class Visitor(WSListener):
    """One WebSocket."""

    def __init__(self, doors: Doors) -> None:
        self.doors = doors
        self.number = 0
        self.transport: WSTransport | None = None
        self.ending = False
        self._parts: list[bytes] = []
        self._parts_bytes = 0

    # What the library calls.

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        transport.underlying_transport.set_write_buffer_limits(HIGH_WATER_BYTES, LOW_WATER_BYTES)
        self.doors.let_in(self, transport)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if kind == _CLOSE:
            if not self.ending:
                transport.send_close(WSCloseCode.OK)
            transport.disconnect()
        elif not self.ending:
            try:
                self._on_data(kind, frame)
            except ProtocolError as error:
                self.doors.refuse(self.number, error.code, error.detail)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        handshake = transport.close_handshake
        if not self.ending and handshake is not None and handshake.sent is not None:
            # The library has ended it because of a frame that it could not or would not read.
            if handshake.sent.code == WSCloseCode.MESSAGE_TOO_BIG:
                self.doors.counters["message-too-large"] += 1
            elif handshake.sent.code == WSCloseCode.PROTOCOL_ERROR:
                self.doors.counters["bad-frame"] += 1
        self.doors.let_out(self)

    def pause_writing(self) -> None:
        if not self.ending:
            self.doors.receiver.on_device_congested(self.number)

    def resume_writing(self) -> None:
        if not self.ending:
            self.doors.receiver.on_device_drained(self.number)

    # What it says.

    def _on_data(self, kind: WSMsgType, frame: WSFrame) -> None:
        if frame.payload_size + self._parts_bytes > FROM_DEVICE_BYTES_MAX:
            raise ProtocolError("message-too-large", f"a message has at most {FROM_DEVICE_BYTES_MAX} bytes")
        if kind == _TEXT and frame.fin and not self._parts and not frame.rsv1:
            self.doors.hear(self.number, frame.get_payload_as_bytes())
        elif kind == _BINARY:
            raise ProtocolError("binary-frame", "messages are text frames of JSON")
        elif kind in (_TEXT, _CONTINUATION):
            self._gather(kind, frame)

    def _gather(self, kind: WSMsgType, frame: WSFrame) -> None:
        """A message may come in several frames."""
        if (kind == _CONTINUATION) != bool(self._parts) or frame.rsv1:
            raise ProtocolError("bad-frame", "frames of a message follow each other, and none is compressed")
        part = frame.get_payload_as_bytes()
        self._parts.append(part)
        self._parts_bytes += len(part) + 1
        if frame.fin:
            parts, self._parts, self._parts_bytes = self._parts, [], 0
            self.doors.hear(self.number, b"".join(parts))


class Doors:
    def __init__(self, receiver: Receiver, connections_max: int = CONNECTIONS_MAX) -> None:
        self.receiver = receiver
        self.counters: Counter[str] = Counter()
        self._connections_max = connections_max
        self._visitors: dict[int, Visitor] = {}
        self._sends: dict[int, Callable[[WSMsgType, bytes], None]] = {}
        """What a change to thousands goes through: one lookup and one call each."""
        self._silent: dict[int, float] = {}
        """Who has not said anything yet, and until when it may be so; oldest first."""
        self._ending: dict[Visitor, asyncio.TimerHandle] = {}
        self._next_number = 1
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._visitors)

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def open(self, host: str, port: int) -> None:
        try:
            self._server = await ws_create_server(
                self._visitor,
                host,
                port,
                logger_name=_library_log,
                enable_auto_ping=True,
                auto_ping_idle_timeout=SILENCE_S,
                auto_ping_reply_timeout=SILENCE_S,
                max_frame_size=2 * FROM_DEVICE_BYTES_MAX,
                backlog=4096,
            )
        except OSError as error:
            raise UsageError(
                f"cannot listen for devices on {host}:{port} ({error.strerror}): name another port"
            ) from error
        self._sweep()

    def close(self) -> None:
        """Cuts everybody off, at once."""
        if self._server is not None:
            self._server.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for visitor in [*self._visitors.values(), *self._ending]:
            visitor.ending = True
            if visitor.transport is not None:
                visitor.transport.disconnect(False)
        for timer in self._ending.values():
            timer.cancel()
        self._visitors.clear()
        self._sends.clear()
        self._silent.clear()

    # Telling.

    def tell(self, connection: int, message: ToDevice, close: bool = False) -> None:
        send = self._sends.get(connection)
        if send is not None:
            send(_TEXT, encode(message))
            if close:
                self._end(connection)

    def tell_all(self, connections: Iterable[int], text: bytes) -> None:
        sends = self._sends
        for connection in connections:
            send = sends.get(connection)
            if send is not None:
                send(_TEXT, text)

    def refuse(self, connection: int, code: str, detail: str) -> None:
        """Answers a fault of the sender, counts it, and ends the connection."""
        self.counters[code] += 1
        self.tell(connection, Refused(code, detail), close=True)

    def _end(self, connection: int) -> None:
        visitor = self._visitors[connection]
        visitor.ending = True
        transport = visitor.transport
        assert transport is not None
        transport.send_close(WSCloseCode.OK)
        timer = asyncio.get_running_loop().call_later(CLOSE_MS_MAX / 1000, transport.disconnect, False)
        self._ending[visitor] = timer
        self._forget(connection)

    def _forget(self, connection: int) -> None:
        if self._visitors.pop(connection, None) is not None:
            self._sends.pop(connection, None)
            self._silent.pop(connection, None)
            self.receiver.on_device_closed(connection)

    # Coming, speaking and going.

    def _visitor(self, _request: WSUpgradeRequest) -> Visitor:
        return Visitor(self)

    def let_in(self, visitor: Visitor, transport: WSTransport) -> None:
        number = visitor.number = self._next_number
        self._next_number += 1
        if len(self._visitors) + len(self._ending) >= self._connections_max + REFUSALS_MAX:
            self.counters["too-many-connections"] += 1
            visitor.ending = True
            transport.disconnect(False)
            return
        full = len(self._visitors) >= self._connections_max
        self._visitors[number] = visitor
        self._sends[number] = transport.send
        self._silent[number] = asyncio.get_running_loop().time() + GREETING_MS_MAX / 1000
        if full:
            self.refuse(number, "too-many-connections", f"this link serves {self._connections_max} connections")

    def let_out(self, visitor: Visitor) -> None:
        timer = self._ending.pop(visitor, None)
        if timer is not None:
            timer.cancel()
        visitor.ending = True
        self._forget(visitor.number)

    def hear(self, connection: int, text: bytes) -> None:
        message = decode_from_device(text)
        if connection in self._silent:
            del self._silent[connection]
        self.receiver.on_device_message(connection, message)

    def _sweep(self) -> None:
        """Ends connections that never said anything."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for number in [number for number, until in self._silent.items() if until <= now]:
            self.refuse(number, "silent", f"the first message comes within {GREETING_MS_MAX} ms")
        self._sweeper = loop.call_later(1, self._sweep)
