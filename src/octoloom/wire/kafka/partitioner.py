"""Which partition a key belongs to: murmur2, as Java's clients and librdkafka's `murmur2_random` have it.

All who write to a topic have to agree on it: records of one key keep their order only within one partition.
"""

from __future__ import annotations

import struct

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """One of so many partitions. An empty key is a key like any other."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """The unsigned 32 bits of the hash."""
    size = len(data)
    words = size >> 2
    value = _SEED ^ size
    for word in struct.unpack_from(f"<{words}I", data):
        word = word * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        value = value * _M & _MASK ^ word
    rest = data[words << 2 :]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15
