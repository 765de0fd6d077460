"""How a row that Spark writes twice is known to be the same row.

Spark runs a batch again after a crash, and a task again after a failure, with the same rows in the same order. Brokers
drop what comes again from the same producer with the same numbers. So nothing is drawn here and nothing is asked for:
every number is a function of what Spark repeats.

1. A *producer* is (writer, Spark partition, era). The writer is the id of the query, which its checkpoint keeps, or the
   id of one batch write. Its number is a hash with bit 62 set; the brokers count theirs up from 0 and never get there.
2. A *producer epoch* is the batch: it grows with every batch and brokers fence the older ones. Epochs are numbers of 15
   bits, so an era has `BATCHES_PER_ERA` batches.
3. A *sequence* counts the records of one producer in one partition of a topic, from 0 in every batch.
4. The rows of a task are cut into *windows*, and the rows of a window that go to one partition into record batches, by
   number and size of the rows alone: it does not matter in what pieces Spark hands them over.
5. A row without a partition goes where its key says, as with every Kafka client; without a key, to the partitions in
   turn, by its position among the rows of its task.

The limits of windows and batches are part of the promise: a program with other limits cuts a rerun differently, and the
brokers refuse it. They do not change.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Integers = NDArray[np.int64]

BATCHES_PER_ERA = 16_384
PRODUCER_BIT = 1 << 62

WINDOW_ROWS = 32_768
WINDOW_BYTES = 8 * 1024 * 1024
BATCH_BYTES = 512 * 1024
ROW_OVERHEAD = 32
"""What a record takes beside its key, value and headers, at most."""

_SEED, _M = np.uint32(0x9747B28C), np.uint32(0x5BD1E995)


class Tag(NamedTuple):
    """What a producer signs its batches with."""

    producer_id: int
    epoch: int


def tag_of(writer: str, spark_partition: int, batch_id: int = 0) -> Tag:
    """Who writes the rows of one Spark partition in one batch."""
    era, epoch = divmod(batch_id, BATCHES_PER_ERA)
    digest = hashlib.blake2b(f"{era} {spark_partition} {writer}".encode(), digest_size=8, person=b"octoloom sink")
    return Tag(PRODUCER_BIT | int.from_bytes(digest.digest()) & (PRODUCER_BIT - 1), epoch)


def cuts(sizes: Integers, bytes_max: int, rows_max: int) -> list[int]:
    """Where pieces end if each takes as many rows as fit, one at least. The last end is the number of rows."""
    until = np.cumsum(sizes)
    ends: list[int] = []
    begin, taken = 0, 0
    while begin < len(sizes):
        fits = int(np.searchsorted(until, taken + bytes_max, side="right"))
        begin = min(max(fits, begin + 1), begin + rows_max)
        taken = int(until[begin - 1])
        ends.append(begin)
    return ends


def in_turn(first: int, positions: Integers, counts: Integers) -> Integers:
    """The partitions of rows without a key, at these positions, of topics with so many partitions."""
    return (positions + first) % counts


def by_key(keys: pa.Array, counts: Integers) -> Integers:
    """The partitions that these keys (binary, none of them null) belong to; see `wire.kafka.partitioner`."""
    return (murmur2(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % counts


def murmur2(keys: pa.Array) -> NDArray[np.uint32]:
    """The hash of every key: one pass over all of them for every four bytes of the longest."""
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    values = _SEED ^ lengths.astype(np.uint32)
    words = lengths >> 2
    left = np.arange(len(keys))
    for word in range(int(words.max(initial=0))):
        left = left[words[left] > word]
        mixed = _word(data, starts[left] + 4 * word, 4) * _M
        mixed = (mixed ^ mixed >> np.uint32(24)) * _M
        values[left] = values[left] * _M ^ mixed
    for rest in (1, 2, 3):
        some = np.flatnonzero(lengths & 3 == rest)
        if len(some):
            values[some] = (values[some] ^ _word(data, starts[some] + 4 * words[some], rest)) * _M
    values = (values ^ values >> np.uint32(13)) * _M
    return values ^ values >> np.uint32(15)


def _word(data: NDArray[np.uint8], at: Integers, size: int) -> NDArray[np.uint32]:
    """The number that `size` bytes at each place make, the lowest first."""
    word = data[at].astype(np.uint32)
    for place in range(1, size):
        word |= data[at + place].astype(np.uint32) << np.uint32(8 * place)
    return word
