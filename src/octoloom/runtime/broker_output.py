"""What a connection has to send: pieces, bytes or slices of files, in order.

Bytes that stand next to each other leave in one call. A slice of a file is sent by the kernel, straight from the file,
and never passes through this process.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterable

from octoloom.storage.segment_search import FileSlice

PIECES_MAX = 512
"""Given to the kernel in one call."""
SEND_BYTES_MAX = 8 * 1024 * 1024
"""Sent in one go before others have their turn."""

Piece = bytes | memoryview | FileSlice


class Output:
    __slots__ = ("_file_sent", "_pieces", "size")

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self.size = 0
        """Bytes that were not sent yet."""
        self._file_sent = 0
        """Of the slice that is the first piece."""

    def put(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            size = piece.size if type(piece) is FileSlice else len(piece)
            if size:
                self._pieces.append(piece)
                self.size += size

    def clear(self) -> None:
        self._pieces.clear()
        self.size = self._file_sent = 0

    @property
    def has_files(self) -> bool:
        return any(isinstance(piece, FileSlice) for piece in self._pieces)

    def send(self, sock: socket.socket) -> None:
        """Sends as much as the other side takes. Raises OSError, `BlockingIOError` if it takes no more now."""
        pieces, budget = self._pieces, SEND_BYTES_MAX
        while pieces and budget > 0:
            first = pieces[0]
            if isinstance(first, FileSlice):
                budget -= self._send_file(sock, first)
            elif len(pieces) == 1:
                count = sock.send(first)
                self.size -= count
                budget -= count
                if count == len(first):
                    pieces.popleft()
                else:
                    pieces[0] = memoryview(first)[count:]
            else:
                budget -= self._send_many(sock)

    def _send_many(self, sock: socket.socket) -> int:
        """All bytes up to the next slice of a file, in one call."""
        pieces = self._pieces
        some: list[bytes | memoryview] = []
        flags = 0
        for piece in pieces:
            if isinstance(piece, FileSlice) or len(some) == PIECES_MAX:
                flags = socket.MSG_MORE
                break
            some.append(piece)
        sent = count = sock.sendmsg(some, (), flags)
        self.size -= sent
        for piece in some:
            if count < len(piece):
                if count:
                    pieces[0] = memoryview(piece)[count:]
                break
            count -= len(piece)
            pieces.popleft()
        return sent

    def _send_file(self, sock: socket.socket, piece: FileSlice) -> int:
        left = piece.size - self._file_sent
        count = os.sendfile(sock.fileno(), piece.fd, piece.position + self._file_sent, left)
        if count == 0:
            # The file is shorter than it was: nothing true can follow.
            raise ConnectionAbortedError("a log's file has shrunk")
        self.size -= count
        if count == left:
            self._file_sent = 0
            self._pieces.popleft()
        else:
            self._file_sent += count
        return count
