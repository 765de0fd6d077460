"""Where the records of a batch begin: the one thing about them that has to be found out one after the other.

A record begins with its length, so the next one cannot be found without it. Two ways are tried, in turn:

- a *run* of records of the same length is found with numpy: it lies where every so many bytes the same length stands.
  Records of one size come in long runs, broken only where a distance within the batch needs one more byte;
- otherwise a loop takes one step per record, by a table of all lengths of one or two bytes.

Nothing here is trusted: the caller reads the lengths again, all at once, and holds every record's end against the next
one's beginning. So a walk over nonsense may end anywhere, as long as it ends after as many steps as there are records.
"""

from __future__ import annotations

from array import array
from itertools import repeat

import numpy as np

from octoloom.spark import varints
from octoloom.spark.varints import Bytes, Integers
from octoloom.wire.kafka.batches import CorruptBatch

RECORD_SIZE_MIN = 7
"""Length, attributes, two distances, the sizes of key and value, the number of headers: a byte each."""

_RUN_MIN = 64
"""Records that are tried as a run at first. Each success makes the next try larger, a failure brings on the loop."""
_RUN_GROWTH = 16
_STROLL = 1024
"""Steps of the loop until the next try."""


def _steps() -> list[list[int]]:
    """By the second and the first byte of a record: how far it is to the next one, or 0 where more has to be read."""
    table = []
    for second in range(256):
        # An odd number means a negative length.
        row = [0 if first & 1 else 1 + (first >> 1) for first in range(128)]
        if second < 0x80:
            row += [0 if first & 1 else 2 + ((first & 0x7F | second << 7) >> 1) for first in range(128, 256)]
        else:
            row += [0] * 128
        table.append(row)
    return table


_STEPS = _steps()


class Walk:
    """The beginnings of all records of some batches, which lie in `data`."""

    def __init__(self, data: bytes, view: Bytes) -> None:
        self._data = data
        self._view = view
        self._walked: list[int] = []
        self._found: list[Integers] = []

    def batch(self, start: int, end: int, count: int) -> None:
        """Adds a batch whose records lie from `start` to `end`."""
        position, left, run_max = start, count, _RUN_MIN
        while left:
            if left >= _RUN_MIN:
                run, step = self._run(position, end, min(left, run_max))
                if run >= _RUN_MIN:
                    self._settle()
                    self._found.append(np.arange(position, position + run * step, step))
                    position += run * step
                    left -= run
                    run_max *= _RUN_GROWTH
                    continue
            steps = min(left, _STROLL)
            position = self._stroll(position, steps)
            left -= steps
            run_max = _RUN_MIN

    def positions(self) -> Integers:
        self._settle()
        return np.concatenate(self._found) if self._found else np.empty(0, np.int64)

    def _settle(self) -> None:
        if self._walked:
            # This is three times faster than numpy's own way from a list.
            self._found.append(np.frombuffer(array("q", self._walked), np.int64))
            self._walked = []

    def _run(self, position: int, end: int, count_max: int) -> tuple[int, int]:
        """How many records from here on have the length of the first one, and how far they are apart."""
        step = self._step(position)
        count = min(count_max, (end - position) // step)
        if count < _RUN_MIN:
            return count, step
        if self._data[position] & self._data[position + 1] > 0x7F:
            # A length of three bytes or more: so few of these fit into a batch that they may be walked.
            return 0, step
        records = self._view[position : position + count * step].reshape(count, step)
        differs = (records[:, 0] != records[0, 0]) | (records[:, 1] != records[0, 1])
        return int(differs.argmax()) if differs.any() else count, step

    def _stroll(self, position: int, steps: int) -> int:
        data, table, append = self._data, _STEPS, self._walked.append
        try:
            for _ in repeat(None, steps):
                append(position)
                position += table[data[position + 1]][data[position]] or self._step(position)
        except IndexError:
            raise CorruptBatch("a record ends too early") from None
        return position

    def _step(self, position: int) -> int:
        """From one record to the next."""
        try:
            length, start = varints.read_one(self._data, position)
        except IndexError:
            raise CorruptBatch("a record ends too early") from None
        if length < RECORD_SIZE_MIN - 1:
            raise CorruptBatch(f"a record of {length} bytes")
        return start + length - position
