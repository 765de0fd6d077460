"""One framed connection on asyncio, for whoever dials and whoever listens.

All frames of one read are handed over together, so that a busy peer costs one call per tick. What is sent within one
tick leaves in one write. Nothing here waits: who sends looks at `buffered` (or `paused`) and decides for itself what
to do about a slow peer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.runtime.wakeups import Wakeups
from octoloom.wire.framing import FRAME_MAX, FrameReader, Piece

JOIN_BYTES_MAX = 64 * 1024
"""What leaves together is copied into one piece if it is no more than this."""

OnFrames = Callable[["FramedConnection", list[memoryview]], None]
OnOpened = Callable[["FramedConnection"], None]
OnClosed = Callable[["FramedConnection", Exception | None], None]


class FramedConnection(asyncio.BufferedProtocol):
    """Raise `ProtocolError` from `on_frames` to end the connection; `on_closed` is then told so, once."""

    def __init__(
        self,
        on_frames: OnFrames,
        on_closed: OnClosed,
        on_opened: OnOpened | None = None,
        frame_max: int = FRAME_MAX,
    ) -> None:
        self._on_frames = on_frames
        self._on_closed = on_closed
        self._on_opened = on_opened
        self._reader = FrameReader(frame_max)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._wakeups: Wakeups | None = None
        self._waiting: list[Piece] = []
        self._waiting_bytes = 0
        self._error: Exception | None = None
        self.paused = False
        """The transport's buffer is above its high-water mark: the peer reads more slowly than we write."""
        self.closed = False

    @property
    def buffered(self) -> int:
        """Bytes that were sent here and have not left the process."""
        size = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._waiting_bytes + size

    @property
    def peer(self) -> str:
        """host:port of the other side, for people."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "?"

    def send(self, *frame: Piece) -> None:
        """Queues a frame, with its header, for the end of this tick. Said to a closed connection it is lost.

        It may come in pieces, which must not change until they have left.
        """
        if self.closed:
            return
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting += frame
        self._waiting_bytes += sum(map(len, frame))

    def send_now(self, frames: Sequence[bytes]) -> None:
        """Writes frames at once, not at the end of the tick: for who has long work to do before that."""
        self._waiting += frames
        self._waiting_bytes += sum(map(len, frames))
        self._flush()

    def close(self) -> None:
        """Ends the connection after all that was sent has left."""
        self._flush()
        if self._transport is not None:
            self._transport.close()
        self.closed = True

    def abort(self, error: Exception | None = None) -> None:
        """Ends the connection now."""
        self._error = self._error or error
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._transport is not None:
            self._transport.abort()
        self.closed = True

    def pause_reading(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        size, self._waiting_bytes = self._waiting_bytes, 0
        if not waiting or self._transport is None or self.closed:
            return
        if len(waiting) == 1:
            self._transport.write(waiting[0])
        elif size <= JOIN_BYTES_MAX:
            self._transport.write(b"".join(waiting))
        else:
            self._transport.writelines(waiting)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's transport, by create_connection's promise
        # Below its high-water mark uvloop keeps a write until the tick ends. What leaves here is a batch already.
        transport.set_write_buffer_limits(high=0)  # type: ignore[attr-defined]
        self._wakeups = Wakeups(transport.get_extra_info("socket"))
        if self._on_opened is not None:
            self._on_opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        if self.closed:
            return
        try:
            frames = self._reader.feed(nbytes)
            if self._wakeups is not None:
                self._wakeups.lacking(self._reader.lacking)
            if frames:
                self._on_frames(self, frames)
        except ProtocolError as error:
            self.abort(error)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._waiting.clear()
        self._waiting_bytes = 0
        self._on_closed(self, self._error or exc)


def split_address(address: str) -> tuple[str, int]:
    """``host:port`` as a pair; an IPv6 host may stand in brackets."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{address!r} is not an address: write host:port, as in 127.0.0.1:7070")
    return host.removeprefix("[").removesuffix("]"), int(port)
