"""Pieces of a byte string as Arrow columns, gathered by Arrow.

An Arrow column of bytes is one buffer and the offsets at which its values meet. Laid over the raw bytes, with offsets
at every beginning and every end of a piece, it has the pieces as values, and what lies between them as values too. To
take every so many of them is then all that is left to do, and Arrow does that at the speed of copying.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from octoloom.spark.varints import Integers

DATA_MAX = 1 << 30
"""Offsets have 32 bits."""


class PiecePairs:
    """Two pieces for each row, one after the other: key and value of a record, name and value of a header."""

    def __init__(
        self, raw: bytes, starts: Integers, ends: Integers, next_starts: Integers, next_ends: Integers
    ) -> None:
        assert len(raw) <= DATA_MAX
        offsets = np.empty((starts.size, 4), np.int32)
        for place, edges in enumerate((starts, ends, next_starts, next_ends)):
            offsets[:, place] = edges
        self._count = starts.size
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(raw)]
        self._all = pa.Array.from_buffers(pa.binary(), max(offsets.size - 1, 0), buffers)

    def first(self, missing: NDArray[np.bool_]) -> Any:
        """The first piece of each row, or null where it is missing."""
        return self._every_fourth(0, missing)

    def second(self, missing: NDArray[np.bool_]) -> Any:
        return self._every_fourth(2, missing)

    def _every_fourth(self, place: int, missing: NDArray[np.bool_]) -> Any:
        taken = self._all.take(pa.array(np.arange(place, 4 * self._count, 4)))
        return taken if not missing.any() else with_nulls(taken, missing)


def with_nulls(column: Any, missing: NDArray[np.bool_]) -> Any:
    """The same bytes or lists, null where they are missing."""
    _, *buffers = column.buffers()
    return pa.Array.from_buffers(column.type, len(column), [validity(missing), *buffers])


def validity(missing: NDArray[np.bool_]) -> Any:
    """Arrow's own way to say which values there are: a bit for each, the first one lowest."""
    return pa.py_buffer(np.packbits(~missing, bitorder="little"))
