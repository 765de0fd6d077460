"""Frames on a byte stream: four bytes of length, big-endian, then the body.

The reader is fed whatever the socket gave. A chunk that begins with a frame is cut in place without a copy; only a
frame that spans chunks is gathered, and each of its bytes is copied once, however many chunks it comes in. Nothing is
allocated ahead on the peer's word: memory grows with what arrived.
"""

from __future__ import annotations

from struct import Struct

from octoloom.core.errors import ProtocolError

FRAME_MAX = 256 * 1024 * 1024
HEADER_BYTES = 4

_LENGTH = Struct(">I")


def frame(body: bytes) -> bytes:
    """The body with its length in front."""
    if len(body) > FRAME_MAX:
        raise ProtocolError("frame-too-large", f"a frame holds {FRAME_MAX} bytes at most, not {len(body)}")
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Cuts a stream into frame bodies. The bodies are views: decode them before you keep anything of them."""

    def __init__(self, frame_max: int = FRAME_MAX) -> None:
        self._frame_max = frame_max
        self._partial = bytearray()
        self._needed = HEADER_BYTES

    @property
    def pending(self) -> int:
        """Bytes that wait for the rest of their frame."""
        return len(self._partial)

    def feed(self, data: bytes) -> list[memoryview]:
        """All bodies that `data` completes, in order. The caller must not change `data` afterwards."""
        if not self._partial:
            return self._cut(memoryview(data))
        self._partial += data
        if len(self._partial) < self._needed:
            return []
        # The gathered buffer is given away with the views on it; the rest of it moves to a new one.
        gathered, self._partial = self._partial, bytearray()
        return self._cut(memoryview(gathered))

    def _cut(self, data: memoryview) -> list[memoryview]:
        bodies: list[memoryview] = []
        position, end = 0, len(data)
        needed = HEADER_BYTES
        while end - position >= HEADER_BYTES:
            needed = HEADER_BYTES + self._checked(_LENGTH.unpack_from(data, position)[0])
            if end - position < needed:
                break
            bodies.append(data[position + HEADER_BYTES : position + needed])
            position += needed
            needed = HEADER_BYTES
        self._needed = needed
        if position < end:
            self._partial += data[position:]
        return bodies

    def _checked(self, length: int) -> int:
        if length > self._frame_max:
            raise ProtocolError("frame-too-large", f"a frame holds {self._frame_max} bytes at most, not {length}")
        return length
