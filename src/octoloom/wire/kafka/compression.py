"""How the records of a batch are compressed: the codecs of the Kafka protocol, each as its clients write it.

What comes from a peer is decompressed into a bounded space, whatever its header promises: a few bytes that claim to
be gigabytes cost no more than `DECOMPRESSED_MAX` and end in an error.

Two of the codecs have habits. Snappy comes raw (librdkafka) or cut into blocks behind the header of the xerial library
(Java, Python); we read both and write the second, which every reader knows. An LZ4 frame must have independent blocks:
Java's reader refuses the linked ones that most libraries write by default.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Final, Literal

import cramjam

from octoloom.core.errors import UsageError
from octoloom.wire.kafka.batches import Buffer, CorruptBatch

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CODECS: Final[tuple[Codec, ...]] = ("none", "gzip", "snappy", "lz4", "zstd")
"""In the order of their numbers in a batch's attributes."""

DECOMPRESSED_MAX = 128 * 1024 * 1024
"""Bytes that the records of one batch may have."""

_GZIP_LEVEL = 6
_GZIP_WINDOW = zlib.MAX_WBITS | 16
_MEMBERS_MAX = 1024
"""Each member copies what follows it: without a bound, many empty ones would cost the square of their number."""
_LZ4_LEVEL = 1
_ZSTD_LEVEL = 3

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_BLOCK_SIZE = struct.Struct(">i")

_GROWTH = 8
_SPACE_MIN = 64 * 1024
_SPACE_IS_FULL = "failed to write whole buffer"


def number_of(codec: str) -> int:
    """The codec's number in a batch's attributes."""
    try:
        return CODECS.index(codec)
    except ValueError:
        raise UsageError(f"there is no codec {codec!r}: name one of {', '.join(CODECS)}") from None


def compress(codec: int, data: bytes) -> bytes:
    return data if codec == 0 else _COMPRESSORS[codec](data)


def decompress(codec: int, data: Buffer, size_max: int = DECOMPRESSED_MAX) -> bytes:
    """The bytes that were compressed, `size_max` of them at most; raises `CorruptBatch` where that cannot be."""
    if codec == 0:
        return bytes(data)
    if codec not in _DECOMPRESSORS:
        raise CorruptBatch(f"there is no codec with the number {codec}")
    try:
        return _DECOMPRESSORS[codec](data, size_max)
    except (zlib.error, cramjam.DecompressionError, struct.error) as error:
        raise CorruptBatch(f"{CODECS[codec]} cannot decompress it: {error}") from error


def _too_large(size_max: int) -> CorruptBatch:
    return CorruptBatch(f"the records of a batch have more than {size_max} bytes when decompressed")


# gzip


def _gzip(data: bytes) -> bytes:
    compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    return compressor.compress(data) + compressor.flush()


def _gunzip(data: Buffer, size_max: int) -> bytes:
    """A gzip stream may have several members, one after the other."""
    parts: list[bytes] = []
    size, rest = 0, bytes(data)
    while rest or not parts:
        member = zlib.decompressobj(_GZIP_WINDOW)
        # One byte more than is allowed tells a full space from an overfull one; a maximum of 0 would mean none.
        parts.append(member.decompress(rest, size_max - size + 1))
        size += len(parts[-1])
        if size > size_max:
            raise _too_large(size_max)
        if not member.eof:
            raise CorruptBatch("a gzip stream ends too early")
        if len(parts) > _MEMBERS_MAX:
            raise CorruptBatch(f"a gzip stream of more than {_MEMBERS_MAX} members")
        rest = member.unused_data
    return b"".join(parts)


# snappy


def _snap(data: bytes) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for position in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[position : position + _XERIAL_BLOCK]))
        parts += (_BLOCK_SIZE.pack(len(block)), block)
    return b"".join(parts)


def _unsnap(data: Buffer, size_max: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unsnap_block(view, 0, size_max)
    parts: list[bytes] = []
    position, size = len(_XERIAL_HEADER), 0
    while position < len(view):
        (length,) = _BLOCK_SIZE.unpack_from(view, position)
        position += _BLOCK_SIZE.size
        if not 0 <= length <= len(view) - position:
            raise CorruptBatch(f"a snappy block of {length} bytes, with {len(view) - position} left")
        parts.append(_unsnap_block(view[position : position + length], size, size_max))
        size += len(parts[-1])
        position += length
    return b"".join(parts)


def _unsnap_block(block: memoryview, size: int, size_max: int) -> bytes:
    # A block begins with the length of what it holds, and what it holds is never longer.
    if size + cramjam.snappy.decompress_raw_len(block) > size_max:
        raise _too_large(size_max)
    return bytes(cramjam.snappy.decompress_raw(block))


# lz4 and zstd


def _lz4(data: bytes) -> bytes:
    compressor = cramjam.lz4.Compressor(level=_LZ4_LEVEL, content_checksum=False, block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())


def _unlz4(data: Buffer, size_max: int) -> bytes:
    return _into_space(cramjam.lz4.decompress_into, data, size_max)


def _zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))


def _unzstd(data: Buffer, size_max: int) -> bytes:
    return _into_space(cramjam.zstd.decompress_into, data, size_max)


def _into_space(decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, size_max: int) -> bytes:
    """Decompresses into a space that grows until the data fits, or until it may not grow any more.

    Both formats may leave out how much they hold, and a liar would say less. Nothing is written beyond the space.
    """
    space_size = max(len(data) * _GROWTH, _SPACE_MIN)
    while True:
        space = bytearray(min(space_size, size_max))
        try:
            return bytes(memoryview(space)[: decompress_into(data, space)])
        except cramjam.DecompressionError as error:
            if _SPACE_IS_FULL not in str(error):
                raise
            if space_size >= size_max:
                raise _too_large(size_max) from error
        space_size *= _GROWTH


_COMPRESSORS: dict[int, Callable[[bytes], bytes]] = {1: _gzip, 2: _snap, 3: _lz4, 4: _zstd}
_DECOMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {1: _gunzip, 2: _unsnap, 3: _unlz4, 4: _unzstd}
