"""One connection to a broker, on a raw socket: frames in, answers out.

Coming in: bytes are received into a buffer and frames (four bytes of length, then the body) are handed over where they
lie. What was handed over may still be needed until the broker's next turn, when it is written to the logs; `recycle` is
called after that, and only then are these bytes used again. A request that is larger than the buffer makes the buffer
grow, by a factor of what has arrived, never on the client's word. Of a large one only large parts are worth waking for.

Going out: answers leave in the order of the requests. They are pieces, bytes or slices of files, gathered until the
end of a turn and sent with one call; slices are sent by the kernel, straight from the file. Who does not read his
answers is not read from either, until he does.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from octoloom.core.errors import ProtocolError
from octoloom.runtime.broker_apis import Request
from octoloom.runtime.broker_output import Output, Piece
from octoloom.runtime.wakeups import Wakeups

if TYPE_CHECKING:
    from octoloom.runtime.broker_sockets import Sockets

BUFFER_BYTES = 64 * 1024
"""What a connection begins to read with."""
READ_BYTES_MAX = 1024 * 1024
"""What one read takes at most, once the connection is found to be busy."""
KEPT_BYTES_MAX = 16 * 1024 * 1024
"""While all buffers together have no more than this, a connection keeps its own until it is silent for a while."""
GROWTH = 4
OUT_BYTES_MAX = 4 * 1024 * 1024
"""While more than this waits to be sent to a client, nothing more is read from it."""
REQUESTS_MAX = 1024
"""Requests of one connection that may wait for their answers."""
STALLS_MAX = 60
"""Half a request that does not get on for so many sweeps, which are a second each, will not."""

_LENGTH = struct.Struct(">i")
_BUSY = (BlockingIOError, InterruptedError)

Take = Callable[["Connection", memoryview], bool]
"""Called with each frame, whose length is already off. Raises `ProtocolError` to end the connection.

True: something follows from it, so there should be a turn, and the frame has to stay as it is until then.
"""


class Connection:
    __slots__ = (
        "_buffer",
        "_filled",
        "_is_reading",
        "_is_writing",
        "_out",
        "_parsed",
        "_sockets",
        "_stalls",
        "_view",
        "_wakeups",
        "_wanted",
        "client_host",
        "closed",
        "fd",
        "on_closed",
        "out_bytes_max",
        "requests",
        "socket",
        "take",
    )

    def __init__(self, sockets: Sockets, sock: socket.socket, take: Take) -> None:
        self._sockets = sockets
        self.socket = sock
        self.fd = sock.fileno()
        self.take = take
        self.on_closed: Callable[[Connection], None] | None = None
        self.closed = False
        self.out_bytes_max = OUT_BYTES_MAX
        name = sock.getpeername()
        self.client_host = str(name[0]) if isinstance(name, tuple) else "?"
        self.requests: deque[Request] = deque()
        """Those that are not answered, or behind one that is not."""
        self._buffer: bytearray | None = None
        self._view = memoryview(b"")
        self._filled = self._parsed = 0
        self._wanted = BUFFER_BYTES
        """How large the next buffer is to be."""
        self._stalls = 0
        self._wakeups = Wakeups(sock)
        self._out = Output()
        self._is_reading = self._is_writing = False
        self._listen()

    # Coming in.

    def _listen(self) -> bool:
        """Reads, or does not, as things are. Answers which."""
        is_wanted = self._out.size <= self.out_bytes_max and len(self.requests) < REQUESTS_MAX and not self.closed
        if is_wanted != self._is_reading:
            self._is_reading = is_wanted
            if is_wanted:
                self._sockets.loop.add_reader(self.fd, self._on_readable)
            else:
                self._sockets.loop.remove_reader(self.fd)
        return is_wanted

    def _on_readable(self) -> None:
        try:
            room = self._view[self._filled :] if self._filled < len(self._view) else self._make_room()
            count = self.socket.recv_into(room)
        except _BUSY:
            return
        except ProtocolError as error:
            self._sockets.on_fault(self, error)
            count = 0
        except OSError:
            count = 0
        if count == 0:
            self.close()
            return
        self._stalls = 0
        if count == len(room):
            self._wanted = min(max(self._wanted, len(self._view)) * 2, READ_BYTES_MAX)
        self._filled += count
        self._parse()

    def _parse(self) -> None:
        """Hands over every whole frame, and has a turn if something follows from one of them."""
        used = self._sockets.used
        was_used = self in used
        # Even if this connection ends now: what it has handed over stays until the turn.
        used[self] = None
        if self._hand_over():
            self._sockets.on_heard()
        elif not was_used:
            del used[self]
            self.recycle()

    def _hand_over(self) -> bool:
        """A frame that breaks the protocol ends this connection, and no other. True: there should be a turn."""
        view, at, filled = self._view, self._parsed, self._filled
        wants_turn, lacking = False, 0
        try:
            while filled - at >= 4 and self._is_reading:
                size = _LENGTH.unpack_from(view, at)[0]
                if not 0 < size <= self._sockets.request_bytes_max:
                    raise ProtocolError("bad-length", f"a frame of {size} bytes")
                end = at + 4 + size
                if end > filled:
                    lacking = end - filled
                    break
                self._parsed = end
                wants_turn |= self.take(self, view[at + 4 : end])
                at = end
                if len(self.requests) >= REQUESTS_MAX:
                    self._listen()
        except ProtocolError as error:
            self._sockets.on_fault(self, error)
            self.close()
            return True
        except Exception as error:
            self.close()
            self._sockets.on_broken(error)
            return True
        self._wakeups.lacking(lacking)
        return wants_turn

    def _make_room(self) -> memoryview:
        """A buffer, or a larger one, with what is left of the last one at its front."""
        rest, size = self._filled - self._parsed, self._wanted
        if rest * 2 > size:
            needed = 4 + _LENGTH.unpack_from(self._view, self._parsed)[0]
            size = max(len(self._view), min(1 << (needed - 1).bit_length(), rest * GROWTH))
        elif rest * 2 <= BUFFER_BYTES and not self._sockets.buffers.fits(size, self._buffer):
            size = BUFFER_BYTES
        buffer = self._sockets.buffers.take(size, self._buffer)
        view = memoryview(buffer)
        view[:rest] = self._view[self._parsed : self._filled]
        self._buffer, self._view = buffer, view
        self._parsed, self._filled = 0, rest
        return view[rest:]

    def recycle(self) -> None:
        """Nobody needs any more what was handed over: its place can be used again."""
        if self.closed:
            self._filled = 0
            self.release()
            return
        if self._parsed == 0 or self._buffer is None:
            return
        rest = self._filled - self._parsed
        if rest:
            self._view[:rest] = self._view[self._parsed : self._filled]
        self._parsed, self._filled = 0, rest
        size = len(self._buffer)
        is_one_of_many = size <= BUFFER_BYTES and self._sockets.buffers.bytes_out > KEPT_BYTES_MAX
        if rest == 0 and (is_one_of_many or size <= self._wanted // 2):
            self.release()

    def release(self) -> None:
        """Gives the buffer back, if nothing is in it."""
        if self._buffer is not None and self._filled == 0:
            self._sockets.buffers.give(self._buffer)
            self._buffer, self._view = None, memoryview(b"")

    def rest(self) -> None:
        """Called now and then: how busy the connection was does not count for ever."""
        self._wanted = BUFFER_BYTES
        self.release()
        if self._is_reading and self._filled > self._parsed:
            # Who sends slowly is heard as well.
            self._wakeups.lacking(0)
            self._stalls += 1
            if self._stalls >= STALLS_MAX:
                self._sockets.on_fault(self, ProtocolError("stalled", "half a request, and no more of it for a minute"))
                self.close()

    # Going out.

    def on_answered(self, request: Request) -> None:
        if self.closed:
            return
        requests = self.requests
        while requests and (pieces := requests[0].response) is not None:
            requests.popleft()
            self.send(pieces)

    def send(self, pieces: list[Piece]) -> None:
        """Queues pieces for the end of this tick."""
        if self.closed:
            return
        self._out.put(pieces)
        self._sockets.talking[self] = None
        if not self._sockets.is_turn:
            self._sockets.soon()

    def flush(self) -> None:
        """Sends as much as the other side takes; the rest follows when it takes more."""
        if self._is_writing:
            self._listen()
        elif not self.closed:
            self._send_some()

    def _send_some(self) -> None:
        try:
            self._out.send(self.socket)
        except _BUSY:
            pass
        except OSError:
            self.close()
            return
        is_left = self._out.size > 0
        if is_left != self._is_writing:
            self._is_writing = is_left
            if is_left:
                self._sockets.loop.add_writer(self.fd, self._send_some)
            else:
                self._sockets.loop.remove_writer(self.fd)
        if not self._is_reading:
            if self._listen() and self._filled > self._parsed:
                self._parse()
        elif self._out.size > self.out_bytes_max:
            self._listen()

    # The end.

    @property
    def sends_files(self) -> bool:
        return self._out.has_files

    def close(self) -> None:
        """Ends the connection now. Answers that are made later go nowhere."""
        if self.closed:
            return
        self.closed = True
        if self._is_reading:
            self._sockets.loop.remove_reader(self.fd)
        if self._is_writing:
            self._sockets.loop.remove_writer(self.fd)
        self._is_reading = self._is_writing = False
        self.socket.close()
        self._out.clear()
        self.requests.clear()
        if self not in self._sockets.used:
            self.recycle()
        self._sockets.on_closed(self)
        if self.on_closed is not None:
            self.on_closed(self)
