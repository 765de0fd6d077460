"""The values of many records, for readers that want nothing else of them, read in runs.

A *run* is records that lie alike: of one length, with every field at the same distance from the record's beginning.
One record is read field by field. Whether those behind it lie as it does is seen in a few columns, cut out of the bytes
at strides of its size: where lengths stand, every byte has to be the same, and where numbers stand that may differ,
they have to be as long. Then all values of the run are cut out at once.

Where records do not lie alike (values of many sizes) they are read one by one, and runs are tried now and then.
Whatever the bytes are, reading ends in a list of values or in `CorruptBatch`.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import NamedTuple

from octoloom.wire.kafka.batches import HEADER_SIZE, Buffer, CorruptBatch
from octoloom.wire.kafka.compression import decompress
from octoloom.wire.kafka.records import CODEC_MASK, CONTROL, fetched_batches, read_headers, read_varint
from octoloom.wire.kafka.value_batches import Value

_RUN_MIN = 8
"""Fewer are no run. So many are tried at first."""
_RUN_GROWTH = 16
"""So many times the last run are tried next: looking costs no more than in proportion to what was found."""
_STROLL_MAX = 1024
"""Records that are read one by one at most until the next try; each failure doubles it."""
_AT_ONCE = (64, 8)
"""Values of a run that are cut out in one step, as long as there are so many."""
_NULL = 0x01
_FLIPPED = bytes(byte ^ 0x80 for byte in range(256))


def read_fetched_values(buffer: Buffer, offset: int) -> tuple[list[Value], int]:
    """The values from `offset` on in the answer to a fetch, and the offset after the last; see `read_fetched`.

    Values have offsets one after the other. Control batches hold none, so what lies behind one is for the next fetch.
    """
    values: list[Value] = []
    run_max = _RUN_MIN
    for header, batch in fetched_batches(buffer, offset):
        if not header.attributes & CONTROL:
            records = decompress(header.attributes & CODEC_MASK, batch[HEADER_SIZE:])
            found, run_max = _read(records, header.count, run_max)
            values += found[offset - header.base_offset :] if header.base_offset < offset else found
        elif values:
            break
        offset = header.next_offset
    return values, offset


def read_values(data: bytes, count: int) -> list[Value]:
    """The values of so many records, which are all of `data`."""
    return _read(data, count, _RUN_MIN)[0]


def _read(data: bytes, count: int, run_max: int) -> tuple[list[Value], int]:
    """The values, and how long a run to try next: batches that follow one another are often alike."""
    values: list[Value] = []
    position, stroll = 0, 1
    try:
        while len(values) < count:
            place = _place(data, position)
            values.append(place.value(data))
            position = place.end
            run = place.alike(data, min(count - len(values), run_max))
            if run:
                position = place.take(data, run, values)
                run_max, stroll = run * _RUN_GROWTH, 1
            else:
                position = _stroll(data, position, min(count - len(values), stroll), values)
                run_max, stroll = _RUN_MIN, min(2 * stroll, _STROLL_MAX)
    except IndexError:
        raise CorruptBatch("a record ends too early") from None
    # Positions only grow, and the last of them is held against the end: nothing was read that is not there.
    if position != len(data):
        raise CorruptBatch(f"{len(data)} bytes of records end at {position}")
    return values, run_max


class _Place(NamedTuple):
    """Where a record's fields lie."""

    start: int
    body: int
    """Behind its length."""
    stamp_end: int
    number_end: int
    key_at: int
    key_end: int
    value_at: int
    value_end: int
    end: int
    has_value: bool
    has_headers: bool

    def value(self, data: bytes) -> Value:
        return data[self.value_at : self.value_end] if self.has_value else None

    def alike(self, data: bytes, count: int) -> int:
        """How many of the next `count` records lie as this one does; 0 if they are no run."""
        size = self.end - self.start
        count = min(count, (len(data) - self.end) // size)
        if self.has_headers or count < _RUN_MIN:
            return 0
        for begin, end in (self.start, self.body), (self.number_end, self.key_at), (self.key_end, self.value_at):
            for at in range(begin, end):
                column, byte = data[at + size : at + size * count + 1 : size], data[at : at + 1]
                if column != byte * count:
                    count -= len(column.lstrip(byte))
                    if count < _RUN_MIN:
                        return 0
        for begin, end in (self.body + 1, self.stamp_end), (self.stamp_end, self.number_end):
            for at in range(begin, end):
                column = data[at + size : at + size * count + 1 : size]
                # All bytes of a number but its last have the highest bit set.
                if not (column if at == end - 1 else column.translate(_FLIPPED)).isascii():
                    return 0
        # And none of them has headers.
        return count if data[self.value_end + size : self.value_end + size * count + 1 : size].count(0) == count else 0

    def take(self, data: bytes, count: int, values: list[Value]) -> int:
        """Adds the values of the next `count` records, which lie as this one does; answers where they end."""
        size, at = self.end - self.start, self.end
        end = at + size * count
        if not self.has_value:
            values += [None] * count
            return end
        lead, width, view = self.value_at - self.start, self.value_end - self.value_at, memoryview(data)
        for many in _AT_ONCE:
            stop = end - (end - at) // size % many * size
            if stop > at:
                values += chain.from_iterable(_cutter(lead, width, size, many).iter_unpack(view[at:stop]))
                at = stop
        values += [data[place : place + width] for place in range(at + lead, end, size)]
        return end


@lru_cache(maxsize=512)
def _cutter(lead: int, width: int, size: int, many: int) -> Struct:
    """Cuts the values out of so many records of one size."""
    return Struct(f"{lead}x{width}s{size - lead - width}x" * many)


def _place(data: bytes, start: int) -> _Place:
    length, body = read_varint(data, start)
    # Byte `body` holds the record's attributes, of which there are none yet.
    _, stamp_end = read_varint(data, body + 1)
    _, number_end = read_varint(data, stamp_end)
    key_size, key_at = read_varint(data, number_end)
    key_end = key_at + max(key_size, 0)
    value_size, value_at = read_varint(data, key_end)
    value_end = end = value_at + max(value_size, 0)
    has_headers = data[value_end] != 0
    if has_headers:
        _, end = read_headers(data, value_end)
    else:
        end += 1
    if end != body + length:
        raise CorruptBatch(f"a record of {length} bytes ends after {end - body}")
    has_value = value_size >= 0
    return _Place(start, body, stamp_end, number_end, key_at, key_end, value_at, value_end, end, has_value, has_headers)


def _stroll(data: bytes, position: int, count: int, values: list[Value]) -> int:
    """Adds the values of the next `count` records, one by one; answers where they end."""
    for _ in range(count):
        start = position
        # What is usual is read here, flat: sizes of one or two bytes, no key, no headers.
        first, second = data[start], data[start + 1]
        end = start + (2 + ((first & 0x7F | second << 7) >> 1) if first > 0x7F else 1 + (first >> 1))
        position = start + (3 if first > 0x7F else 2)
        while data[position] > 0x7F:
            position += 1
        position += 1
        while data[position] > 0x7F:
            position += 1
        is_usual = data[position + 1] == _NULL and not first & 1 and (first < 0x80 or second < 0x80)
        first, second = data[position + 2], data[position + 3]
        value_at = position + (4 if first > 0x7F else 3)
        position = value_at + ((first & 0x7F | second << 7) >> 1 if first > 0x7F else first >> 1)
        # A size of three bytes, read as two, does not end there.
        if is_usual and not first & 1 and position == end - 1 and not data[position]:
            values.append(data[value_at:position])
            position = end
        else:
            place = _place(data, start)
            values.append(place.value(data))
            position = place.end
    return position
