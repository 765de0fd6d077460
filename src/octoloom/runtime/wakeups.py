"""How much of a large frame has to be there before its reader is woken.

The kernel wakes a reader for every packet that arrives, and a frame of a megabyte comes in twenty. Where reader and
sender share a core they take turns over each of them, which costs more than the bytes do. But who has read the
beginning of a frame knows how long it is, and can sleep until a good part of the rest is there.

A connection that ends wakes its reader whatever was asked for. The kernel asks for no more than its buffers hold.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Protocol

PART_BYTES_MIN = 128 * 1024
"""What lacks less than this is read as it comes."""
PART_BYTES_MAX = 512 * 1024
"""Asked for at a time, so that sender and reader work side by side."""


class Socket(Protocol):
    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...


class Wakeups:
    """Of one socket."""

    __slots__ = ("_socket", "_wanted")

    def __init__(self, sock: Socket) -> None:
        self._socket = sock
        self._wanted = 1

    def lacking(self, size: int) -> None:
        """So many bytes are missing of the frame that has begun; 0 if none has."""
        wanted = min(size, PART_BYTES_MAX) if size >= PART_BYTES_MIN else 1
        if wanted != self._wanted:
            self._wanted = wanted
            # A socket that is closed, or cannot do it, wakes its reader for everything.
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
