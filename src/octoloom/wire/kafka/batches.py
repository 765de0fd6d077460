"""Record batches (magic 2): the unit that producers send, logs keep and consumers fetch.

A batch is a header of 61 bytes and then its records, perhaps compressed. A broker reads the header and nothing else:

     0  base offset       8    given by the leader
     8  length            4    what follows these first twelve bytes
    12  leader epoch      4    given by the leader
    16  magic             1
    17  CRC32C            4    of everything from byte 21 on
    21  attributes        2    compression (3 bits), timestamp type, transactional, control
    23  last offset delta 4
    27  base timestamp    8
    35  max timestamp     8
    43  producer id       8
    51  producer epoch    2
    53  base sequence     4
    57  count             4

The CRC leaves out the two fields that a leader fills in, so a batch is stamped where it lies and stays whole.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

from octoloom.core.errors import ProtocolError

HEADER_SIZE = 61
MAGIC = 2

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_BEFORE_LENGTH_ENDS = 12
_LEADER_EPOCH_AT = 12
_CRC_COVERS_FROM = 21

Buffer = bytes | bytearray | memoryview


class CorruptBatch(ProtocolError):  # noqa: N818
    """Bytes that should be whole record batches are not."""

    def __init__(self, detail: str) -> None:
        super().__init__("corrupt-batch", detail)


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # tuple.count is of no use to a header

    @property
    def size(self) -> int:
        """The whole batch in bytes."""
        return self.length + _BEFORE_LENGTH_ENDS

    @property
    def next_offset(self) -> int:
        """The offset of the first record after this batch."""
        return self.base_offset + self.last_offset_delta + 1


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header that begins at `position`, unchecked. The caller knows that 61 bytes are there."""
    # The tuple is made directly: that takes half the time of BatchHeader's own constructor.
    return tuple.__new__(BatchHeader, _HEADER.unpack_from(buffer, position))


def check_batches(buffer: memoryview) -> list[tuple[int, BatchHeader]]:
    """Every batch in the buffer as (position, header), in order; all of them are whole, or this raises."""
    batches: list[tuple[int, BatchHeader]] = []
    position, end = 0, len(buffer)
    while position < end:
        if end - position < HEADER_SIZE:
            raise CorruptBatch(f"{end - position} bytes at {position} are less than a header")
        header: BatchHeader = tuple.__new__(BatchHeader, _HEADER.unpack_from(buffer, position))
        size = header.length + _BEFORE_LENGTH_ENDS
        if size < HEADER_SIZE or size > end - position:
            raise CorruptBatch(f"a batch of {size} bytes at {position}, with {end - position} left")
        if header.magic != MAGIC:
            raise CorruptBatch(f"magic {header.magic} at {position} is not {MAGIC}")
        # A log that is never compacted has no holes inside a batch.
        if header.count < 1 or header.count != header.last_offset_delta + 1:
            raise CorruptBatch(f"{header.count} records at {position}, the last of them {header.last_offset_delta}")
        crc = crc32c(buffer[position + _CRC_COVERS_FROM : position + size])
        if crc != header.crc:
            raise CorruptBatch(f"the CRC at {position} is {header.crc:#010x}, the bytes have {crc:#010x}")
        batches.append((position, header))
        position += size
    return batches


def stamp(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Gives the batch at `position` its place in the log. Its CRC stays right: it covers neither field."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + _LEADER_EPOCH_AT, leader_epoch)
