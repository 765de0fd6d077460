"""A control batch, as a transaction leaves it: it takes an offset and holds nothing for a reader."""

from __future__ import annotations

from crc32c import crc32c

from octoloom.wire.kafka.records import CONTROL, Record, build_batch


def control_batch(base_offset: int = 0) -> bytes:
    batch = bytearray(build_batch([Record(0, 1_760_000_000_000, b"\0\0\0\1", b"")], base_offset=base_offset))
    batch[22] |= CONTROL
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return bytes(batch)
