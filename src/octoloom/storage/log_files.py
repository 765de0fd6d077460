"""Files as a log needs them: descriptors that outlive names, appends that are whole or undone, small checked files.

A descriptor belongs to everyone who holds its `OpenFile` and is closed when the last of them lets go. So a file can be
unlinked, or fall out of a cache, while its bytes are still on their way to a socket.

A small file is replaced in one step (written beside, renamed) behind a CRC32C. Whatever happens to the machine in
between, a reader finds the old one, the new one, or nothing that it would believe.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from crc32c import crc32c

from octoloom.core.errors import StoreError

BUFFERS_MAX = 1024
"""What Linux takes in one call (IOV_MAX)."""
TEMPORARY = ".tmp"

Buffer = bytes | bytearray | memoryview


class OpenFile:
    """A file descriptor that closes itself when nobody holds it any more."""

    __slots__ = ("fd",)

    def __init__(self, path: str, flags: int = os.O_RDONLY) -> None:
        self.fd = -1
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def read(self, size: int, position: int) -> bytes:
        """Up to `size` bytes. Bytes that the disk cannot give back are as good as missing: the answer ends there."""
        try:
            return os.pread(self.fd, size, position)
        except OSError as error:
            if error.errno == errno.EIO:
                return b""
            raise StoreError(f"cannot read a log's segment: {error}") from error


def append_whole(file: OpenFile, buffers: Sequence[Buffer], position: int, size: int) -> None:
    """Writes `size` bytes at `position`, the file's end. On OSError the file has been cut back to where it was."""
    try:
        if len(buffers) <= BUFFERS_MAX:
            written = os.pwritev(file.fd, buffers, position)
        else:
            written = _write_parts(file.fd, buffers, position)
        if written < size:
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}, {written} of {size} bytes fitted")
    except OSError:
        os.ftruncate(file.fd, position)
        raise


def _write_parts(fd: int, buffers: Sequence[Buffer], position: int) -> int:
    """How much was written. Less than all of it, if a part was not written whole."""
    written = 0
    for first in range(0, len(buffers), BUFFERS_MAX):
        part = buffers[first : first + BUFFERS_MAX]
        count = os.pwritev(fd, part, position + written)
        written += count
        if count < sum(map(len, part)):
            break
    return written


def sync_directory(path: str) -> None:
    """Makes the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def save_checked(path: str, data: bytes, sync: bool) -> None:
    """Replaces the file. Without `sync` a machine that loses power may come back with the old one, or with none."""
    beside = path + TEMPORARY
    file = OpenFile(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    append_whole(file, [crc32c(data).to_bytes(4, "little"), data], 0, len(data) + 4)
    if sync:
        os.fdatasync(file.fd)
    os.rename(beside, path)
    if sync:
        sync_directory(os.path.dirname(path))


def load_checked(path: str) -> bytes | None:
    """What was saved last; None if there is nothing, or nothing that can be believed."""
    try:
        file = OpenFile(path)
        data = os.pread(file.fd, file.size() + 1, 0)
    except OSError:
        return None
    body = data[4:]
    return body if len(data) >= 4 and crc32c(body) == int.from_bytes(data[:4], "little") else None


def remove(path: str) -> None:
    """Unlinks the file, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
