"""Batches of records that are nothing but a value, built without a step per record.

Such records differ in little: their values, their sizes, and how far they are from the first. So a batch is joined
from four columns, each of them made at once:

    the end of the record before, length, attributes, timestamp · number · null key, value's size · value

`build_batch` builds the same bytes of the same records, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, Unpack

from octoloom.wire.kafka.records import BatchFields, seal, varint

Value = bytes | None

VALUE_OVERHEAD_MAX = 24
"""A record of a value alone is at most this much larger than the value."""
_KEPT_MAX = 1 << 16
_WIDTHS = (1 << 6, 1 << 13, 1 << 20)
"""Where the number of a record takes one byte more."""


class Run(NamedTuple):
    """Values of one moment."""

    timestamp: int
    values: Sequence[Value]


def build_value_batch(runs: Sequence[Run], **fields: Unpack[BatchFields]) -> bytes:
    """One batch of all these values, in this order, without keys."""
    ends = list(accumulate(len(run.values) for run in runs))
    count = ends[-1] if ends else 0
    first, last = (runs[0].timestamp, max(run.timestamp for run in runs)) if runs else (-1, -1)
    pieces: list[bytes] = []
    for run, end in zip(runs, ends, strict=True):
        begin = end - len(run.values)
        for start, stop in _spans(begin, end):
            pieces += _columns(run.values[start - begin : stop - begin], varint(run.timestamp - first), start)
    if pieces:
        # Every record ends with the byte that the next one's first piece begins with.
        pieces[0] = pieces[0][1:]
        pieces.append(b"\x00")
    return seal(b"".join(pieces), count, first, last, **fields)


def _spans(begin: int, end: int) -> Iterable[tuple[int, int]]:
    """The numbers from `begin` to `end`, cut where they take one byte more."""
    for width in _WIDTHS:
        stop = min(width, end)
        if begin < stop:
            yield begin, stop
            begin = stop


def _columns(values: Sequence[Value], apart: bytes, start: int) -> list[bytes]:
    """The pieces of records whose numbers, from `start` on, all take as many bytes."""
    count = len(values)
    numbers = _numbers(start, start + count)
    taken = len(apart) + len(numbers[0])
    contents, sizes = _measured(values)
    pieces: list[bytes] = [b""] * (4 * count)
    if sizes.count(sizes[0]) == count:
        front, back = _around(sizes[0], taken)
        pieces[0::4] = [front + apart] * count
        pieces[2::4] = [back] * count
    else:
        around = [_around(size, taken) for size in sizes]
        pieces[0::4] = [front + apart for front, _ in around]
        pieces[2::4] = [back for _, back in around]
    pieces[1::4] = numbers
    pieces[3::4] = contents
    return pieces


def _measured(values: Sequence[Value]) -> tuple[Sequence[bytes], list[int]]:
    """The values' bytes and sizes. One that is null has none, and the size -1."""
    try:
        return values, list(map(len, values))  # type: ignore[arg-type, return-value]  # it raises where one is None
    except TypeError:
        return [value or b"" for value in values], [-1 if value is None else len(value) for value in values]


_kept: list[bytes] = []


def _numbers(start: int, end: int) -> list[bytes]:
    """The numbers of records as varints. Most are kept, for every batch has the same ones."""
    _kept.extend(varint(number) for number in range(len(_kept), min(end, _KEPT_MAX)))
    return _kept[start:end] + [varint(number) for number in range(max(start, _KEPT_MAX), end)]


@lru_cache(maxsize=16_384)
def _around(size: int, taken: int) -> tuple[bytes, bytes]:
    """What stands before a record's timestamp, with the end of the record before it, and what follows its number."""
    back = b"\x01" + varint(size)
    length = 1 + taken + len(back) + max(size, 0) + 1
    return b"\x00" + varint(length) + b"\x00", back
