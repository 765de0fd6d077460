"""Memory that is really there when a run begins.

The host of a virtual machine may take back memory that lies free. Whoever needs it next waits for the host, page by
page, and that takes ten times as long as writing to it: what is measured then is the host, and by chance, for a log
that writes where another one has just been finds memory that is still there.

So some memory is held between runs, and let go of right before one. On a machine of its own that changes nothing.
"""

from __future__ import annotations

import contextlib
import mmap

HELD_BYTES = 1024 * 1024 * 1024
"""More than most runs write. What is free in large amounts may go back at once, so more would not help."""
_POPULATE = 23
"""MADV_POPULATE_WRITE of Linux, which the module `mmap` has no name for."""


class Memory:
    def __init__(self, size: int = HELD_BYTES) -> None:
        self._size = size
        self._held: mmap.mmap | None = None

    def hold(self) -> None:
        self.let_go()
        self._held = mmap.mmap(-1, self._size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        # An older kernel cannot: then it is as if nothing were held.
        with contextlib.suppress(OSError):
            self._held.madvise(_POPULATE)

    def let_go(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None
