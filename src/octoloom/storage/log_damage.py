"""Damage: bytes of a log that are not what was written, and the place where such bytes are kept for people to look at.

A log never serves them and never destroys them without a word. What is cut off because of damage moves to the folder
`damaged` beside the segments, where the newest `DAMAGED_FILES_MAX` files stay.
"""

from __future__ import annotations

import errno
import os

from octoloom.core.errors import StoreError
from octoloom.storage.log_files import OpenFile, remove

FOLDER = "damaged"
DAMAGED_FILES_MAX = 4
_COPY_BYTES = 1024 * 1024


class DamagedLog(StoreError):  # noqa: N818
    """The log is whole up to `offset`; what follows there is not. Truncate it there, and fetch the rest again."""

    def __init__(self, path: str, offset: int) -> None:
        super().__init__(f"{path} is damaged from offset {offset} on: fetch that again from another replica")
        self.path = path
        self.offset = offset


def set_file_aside(directory: str, path: str, offset: int) -> None:
    """Moves a whole file away. An empty one holds nothing to look at."""
    try:
        if os.stat(path).st_size:
            os.rename(path, _place(directory, offset))
        else:
            os.unlink(path)
    except FileNotFoundError:
        return


def set_bytes_aside(directory: str, file: OpenFile, position: int, offset: int) -> None:
    """Copies all from `position` on. Zeros hold nothing to look at, and what cannot be read is left out."""
    size = file.size()
    if all(not any(file.read(_COPY_BYTES, at)) for at in range(position, size, _COPY_BYTES)):
        return
    path = _place(directory, offset)
    copy = OpenFile(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        while data := file.read(_COPY_BYTES, position):
            os.write(copy.fd, data)
            position += len(data)
        os.fdatasync(copy.fd)
    except OSError as error:
        remove(path)
        # A disk that is full is when tails tear. Keeping the evidence must not keep the log from opening.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise


def _place(directory: str, offset: int) -> str:
    """A free name in the folder, after making room for it."""
    folder = os.path.join(directory, FOLDER)
    os.makedirs(folder, exist_ok=True)
    names = sorted(name for name in os.listdir(folder) if name[:8].isdigit())
    for name in names[: max(0, len(names) - DAMAGED_FILES_MAX + 1)]:
        remove(os.path.join(folder, name))
    number = int(names[-1][:8]) + 1 if names else 1
    return os.path.join(folder, f"{number:08d}-{offset:020d}.bytes")
