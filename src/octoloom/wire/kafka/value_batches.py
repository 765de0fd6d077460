"""Batches of records that are nothing but a value, built without a step per record.

Such records differ in little: their values, their sizes, and how far they are from the first. Where all values have
one size, records of numbers that take as many bytes differ in nothing else but their number and their timestamp. So
they are joined with what is alike between them, and the bytes of numbers and timestamps are laid over that, each in
one step for all records:

    header · [end of the record before, length, attributes, timestamp, number, null key, value's size] · value · [...

Where sizes differ, a batch is joined from four columns, each of them made at once:

    the end of the record before, length, attributes, timestamp · number · null key, value's size · value

`build_batch` builds the same bytes of the same records, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import NamedTuple, Unpack

from octoloom.wire.kafka.batches import HEADER_SIZE
from octoloom.wire.kafka.records import BatchFields, seal, seal_in_place, varint

Value = bytes | None

VALUE_OVERHEAD_MAX = 24
"""A record of a value alone is at most this much larger than the value."""
SIZES_DIFFER = -1
_KEPT_MAX = 1 << 16
"""Numbers up to here are kept as they are written."""
_WIDTHS = (1 << 6, 1 << 13, 1 << 20)
"""Where the number of a record takes one byte more."""
_APART_MAX = 1 << 6
"""Timestamps that are less than this apart take one byte."""


class Run(NamedTuple):
    """Values of one moment."""

    timestamp: int
    values: Sequence[Value]
    size: int = SIZES_DIFFER
    """Of each of them, if it is known to be the same for all."""


def build_value_batch(runs: Sequence[Run], **fields: Unpack[BatchFields]) -> bytearray:
    """One batch of all these values, in this order, without keys."""
    count = sum(len(run.values) for run in runs)
    first, last = (runs[0].timestamp, max(run.timestamp for run in runs)) if runs else (-1, -1)
    is_alike = (
        0 < count <= _KEPT_MAX
        and fields.get("codec", "none") == "none"
        and {run.size for run in runs} == {runs[0].size}
        and runs[0].size != SIZES_DIFFER
        and all(0 <= run.timestamp - first < _APART_MAX for run in runs)
    )
    if is_alike:
        return seal_in_place(_alike(runs, count), count, first, last, **fields)
    return seal(_pieces(runs, first), count, first, last, **fields)


# Values of one size.


def _alike(runs: Sequence[Run], count: int) -> bytearray:
    """A batch without its header."""
    values: list[bytes] = list(chain.from_iterable(run.values for run in runs))  # type: ignore[misc]  # none is None
    values[-1] += b"\x00"
    # What stands between two records begins with the end of the first. Before the first that is the header's last byte.
    batch = bytearray(HEADER_SIZE - 1)
    size = runs[0].size
    apart = b"".join([varint(run.timestamp - runs[0].timestamp) * len(run.values) for run in runs])
    for width, (start, stop) in enumerate(_spans(0, count), 1):
        front, back = _around(size, 1 + width)
        between = b"".join((front, bytes(1 + width), back))
        stamp_at, stride = len(batch) + len(front), len(between) + size
        batch = bytearray(between).join([batch, *values[start:stop]])
        for at, column in enumerate([apart[start:stop], *_number_columns(width, start, stop)], stamp_at):
            batch[at : at + (stop - start - 1) * stride + 1 : stride] = column
    return batch


def _number_columns(width: int, start: int, stop: int) -> Iterator[bytes]:
    """The first bytes of these numbers, all of which take `width` bytes, then their second bytes, and so on."""
    begin = _WIDTHS[width - 2] if width > 1 else 0
    return (column[start - begin : stop - begin] for column in _kept_columns(width))


@lru_cache(maxsize=len(_WIDTHS))
def _kept_columns(width: int) -> tuple[bytes, ...]:
    begin = _WIDTHS[width - 2] if width > 1 else 0
    numbers = b"".join(_numbers(begin, min(_WIDTHS[width - 1], _KEPT_MAX)))
    return tuple(numbers[place::width] for place in range(width))


# Values of all sizes.


def _pieces(runs: Sequence[Run], first: int) -> list[bytes]:
    ends = list(accumulate(len(run.values) for run in runs))
    pieces: list[bytes] = []
    for run, end in zip(runs, ends, strict=True):
        begin = end - len(run.values)
        for start, stop in _spans(begin, end):
            pieces += _columns(run.values[start - begin : stop - begin], varint(run.timestamp - first), start)
    if pieces:
        # Every record ends with the byte that the next one's first piece begins with.
        pieces[0] = pieces[0][1:]
        pieces.append(b"\x00")
    return pieces


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
    around = [_around(size, taken) for size in sizes]
    pieces: list[bytes] = [b""] * (4 * count)
    pieces[0::4] = [front + apart for front, _ in around]
    pieces[1::4] = numbers
    pieces[2::4] = [back for _, back in around]
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
