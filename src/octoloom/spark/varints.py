"""Varints by the thousand: the numbers at many positions of a byte string, in a few passes of numpy.

A varint has seven bits to a byte, the lowest ones first; a byte from 128 on says that another one follows, and the sign
is in the lowest bit of all. Most take one or two bytes, and for those the answer stands in a table: of 256 entries for
what is short everywhere, of 65,536 for the rest. Only what is longer is put together, byte by byte.

Positions may lie beyond the end: what is read there is some number, and `ends` lies beyond the end too. A caller that
holds its last position against the place where it has to be has thereby checked all those before it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from octoloom.wire.kafka.batches import CorruptBatch
from octoloom.wire.kafka.records import read_varint

Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]

BYTES_MAX = 10
"""Seven bits to a byte: that many hold 64 bits, and the last of them only one."""

_TOO_LARGE = "a number of more than 64 bits"


def _decoded(zigzag: NDArray[np.uint64]) -> Integers:
    return (zigzag >> 1).view(np.int64) ^ -(zigzag & 1).view(np.int64)


def _pairs() -> Integers:
    pair = np.arange(1 << 16, dtype=np.uint64)
    first, second = pair & 0xFF, pair >> 8
    return _decoded(np.where(first < 0x80, first, first & 0x7F | (second & 0x7F) << 7))


# A table of shorts stays in the cache.
_PAIRS = _pairs().astype(np.int16)
"""The number whose first two bytes are these, the first of them in the lower half."""
_SINGLES = _PAIRS[:128].astype(np.int64)


def read(data: Bytes, positions: Integers) -> tuple[Integers, Integers]:
    """The signed numbers at the positions, and where each of them ends."""
    first = data.take(positions, mode="clip")
    ends = positions + 1
    if not first.size or first.max() < 0x80:
        return _SINGLES.take(first), ends
    second = data.take(ends, mode="clip")
    values = _PAIRS.take(second.astype(np.uint16) << 8 | first).astype(np.int64)
    ends += first >> 7
    long = np.flatnonzero(first & second & 0x80)
    if long.size:
        values[long], ends[long] = _read_long(data, positions[long])
    return values, ends


def _read_long(data: Bytes, positions: Integers) -> tuple[Integers, Integers]:
    """The same for numbers of any length. One that does not fit into 64 bits is none of ours."""
    zigzag = np.zeros(positions.size, dtype=np.uint64)
    ends = positions.copy()
    going = np.arange(positions.size)
    for place in range(BYTES_MAX):
        byte = data.take(ends[going], mode="clip").astype(np.uint64)
        if place == BYTES_MAX - 1 and byte.max() > 1:
            raise CorruptBatch(_TOO_LARGE)
        zigzag[going] |= (byte & 0x7F) << np.uint64(7 * place)
        ends[going] += 1
        going = going[byte > 0x7F]
        if not going.size:
            break
    return _decoded(zigzag), ends


def read_one(data: bytes, position: int) -> tuple[int, int]:
    """The same for a single number. Beyond the end it raises `IndexError`."""
    value, end = read_varint(data, position)
    if not -(1 << 63) <= value < 1 << 63:
        raise CorruptBatch(_TOO_LARGE)
    return value, end
