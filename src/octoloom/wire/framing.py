"""Frames on a byte stream: four bytes of length, big-endian, then the body.

The reader has a buffer: the socket writes into `room`, and bodies are handed out where they lie, as views, without a
copy. They stay as they are for as long as anyone holds them: until no view of a buffer is left, what comes next is
written behind what is there, and then to another one. So what is kept costs about as much as has arrived of it. Nothing
is allocated ahead on the peer's word: a buffer grows with what arrived.
"""

from __future__ import annotations

from struct import Struct

from octoloom.core.errors import ProtocolError

FRAME_MAX = 256 * 1024 * 1024
HEADER_BYTES = 4

FIRST_BYTES = 16 * 1024
"""What a reader begins with."""
BUSY_BYTES = 1024 * 1024
"""What its buffer becomes by and by, if reads fill it, however small the frames are."""
KEPT_BYTES_MAX = 10 * 1024 * 1024
"""A larger buffer, for a larger frame, is given up after it."""
ROOM_MIN = 4 * 1024
"""Less is not worth a read, where it does not belong to a frame that has begun."""
SPARES_MAX = 2
"""Buffers that somebody still looked at when they were full, kept for later."""
_GROWTH = 4

_LENGTH = Struct(">I")

Piece = bytes | bytearray | memoryview
"""Of a frame that is sent."""


def frame(body: bytes) -> bytes:
    """The body with its length in front."""
    if len(body) > FRAME_MAX:
        raise ProtocolError("frame-too-large", f"a frame holds {FRAME_MAX} bytes at most, not {len(body)}")
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Cuts a stream into frame bodies."""

    def __init__(self, frame_max: int = FRAME_MAX) -> None:
        self._frame_max = frame_max
        self._buffer = bytearray()
        self._spares: list[bytearray] = []
        self._start = self._end = 0
        """Where the bytes lie that wait for the rest of their frame."""
        self.lacking = 0
        """Bytes of that rest, as far as its length is known."""
        self._busy = FIRST_BYTES

    @property
    def pending(self) -> int:
        """Bytes that wait for the rest of their frame."""
        return self._end - self._start

    def room(self) -> memoryview:
        """Where the next bytes of the stream belong."""
        left, is_between = len(self._buffer) - self._end, self._start == self._end
        if left < (ROOM_MIN if is_between else 1) or (is_between and self._end and _is_unseen(self._buffer)):
            self._make_room()
        return memoryview(self._buffer)[self._end :]

    def _make_room(self) -> None:
        """Brings what waits to the front of a buffer that has room behind it."""
        pending, size = self._end - self._start, self._busy
        if 2 * pending >= size:
            # The peer's word counts for four times of what it has sent. The next frame may be a little larger.
            needed = HEADER_BYTES + _LENGTH.unpack_from(self._buffer, self._start)[0]
            size = max(size, min(needed + needed // 8, _GROWTH * pending))
        old = self._buffer
        if len(old) < size or len(old) > max(size, KEPT_BYTES_MAX) or not _is_unseen(old):
            self._buffer = self._other(size)
        if pending:
            memoryview(self._buffer)[:pending] = memoryview(old)[self._start : self._end]
        self._start, self._end = 0, pending

    def _other(self, size: int) -> bytearray:
        """A buffer that nobody looks at, a spare one if there is one. The present one may be of use again later."""
        spares = [spare for spare in (*self._spares, self._buffer) if size <= len(spare) <= KEPT_BYTES_MAX]
        found = next((spare for spare in spares if _is_unseen(spare)), None)
        self._spares = [spare for spare in spares if spare is not found][-SPARES_MAX:]
        return bytearray(size) if found is None else found

    def feed(self, count: int) -> list[memoryview]:
        """All bodies that the next `count` bytes complete, in order; they are in `room` already."""
        view = memoryview(self._buffer)
        start, end = self._start, self._end + count
        if end == len(view):
            self._busy = min(2 * max(len(view), FIRST_BYTES), BUSY_BYTES)
        bodies: list[memoryview] = []
        self.lacking = 0
        while end - start >= HEADER_BYTES:
            needed = HEADER_BYTES + self._checked(_LENGTH.unpack_from(view, start)[0])
            if end - start < needed:
                self.lacking = needed - (end - start)
                break
            bodies.append(view[start + HEADER_BYTES : start + needed])
            start += needed
        self._start, self._end = start, end
        return bodies

    def _checked(self, length: int) -> int:
        if length > self._frame_max:
            raise ProtocolError("frame-too-large", f"a frame holds {self._frame_max} bytes at most, not {length}")
        return length


def _is_unseen(buffer: bytearray) -> bool:
    """No view of it is left. A bytearray refuses to change its size while there is one."""
    try:
        buffer.append(buffer.pop())
    except (BufferError, IndexError):
        return False
    return True
