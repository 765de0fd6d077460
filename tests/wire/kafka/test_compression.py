"""The codecs against those of another client, and against data that would fill the memory."""

from __future__ import annotations

import contextlib
import gzip

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.wire.kafka.batches import CorruptBatch
from octoloom.wire.kafka.compression import CODECS, compress, decompress, number_of

NUMBERS = range(1, len(CODECS))
data = st.binary(max_size=500) | st.tuples(st.binary(max_size=20), st.integers(0, 20_000)).map(lambda d: d[0] * d[1])


@given(data, st.sampled_from(range(len(CODECS))))
def test_what_was_compressed_comes_back(data: bytes, number: int) -> None:
    assert decompress(number, memoryview(compress(number, data))) == data


@given(data.filter(bool), st.sampled_from(CODECS[1:]))
def test_aiokafka_and_we_read_each_other(data: bytes, codec: str) -> None:
    number = number_of(codec)
    assert decompress(number, getattr(aiokafka_codec, f"{codec}_encode")(data)) == data
    assert bytes(getattr(aiokafka_codec, f"{codec}_decode")(compress(number, data))) == data


def test_snappy_is_read_raw_too() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"abc" * 50_000))
    assert decompress(number_of("snappy"), raw) == b"abc" * 50_000


def test_lz4_blocks_are_independent_for_java() -> None:
    frame = compress(number_of("lz4"), b"abc" * 100_000)
    assert frame[4] & 0b0010_0000


def test_gzip_members_may_follow_each_other() -> None:
    assert decompress(1, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"
    with pytest.raises(CorruptBatch, match="1024 members"):
        decompress(1, gzip.compress(b"") * 1025)


@pytest.mark.parametrize("number", NUMBERS, ids=CODECS[1:])
def test_a_bomb_is_refused(number: int) -> None:
    bomb = compress(number, bytes(8_000_000))
    assert len(bomb) < 800_000
    assert len(decompress(number, bomb, 8_000_000)) == 8_000_000
    with pytest.raises(ProtocolError, match="more than 7999999 bytes"):
        decompress(number, bomb, 7_999_999)


def test_a_raw_snappy_bomb_is_refused_by_its_word() -> None:
    with pytest.raises(CorruptBatch, match="more than 1000 bytes"):
        decompress(2, cramjam.snappy.compress_raw(bytes(1001)).read(), 1000)
    # A claim of 4 GiB in front of nothing.
    with pytest.raises(CorruptBatch, match="more than"):
        decompress(2, b"\xff\xff\xff\xff\x0f")


@pytest.mark.parametrize("number", NUMBERS, ids=CODECS[1:])
def test_what_is_cut_off_or_no_such_thing_is_refused(number: int) -> None:
    whole = compress(number, b"some words that are worth it" * 9)
    for end in (1, len(whole) // 2, len(whole) - 1):
        with pytest.raises(CorruptBatch):
            decompress(number, whole[:end])
    with pytest.raises(CorruptBatch):
        decompress(number, b"\xf0nonsense that is nothing")


@given(st.binary(max_size=80), st.sampled_from(NUMBERS))
def test_any_bytes_are_decompressed_or_refused(noise: bytes, number: int) -> None:
    for data in (noise, compress(number, noise)[:6] + noise, compress(number, noise)[:20] + noise):
        with contextlib.suppress(CorruptBatch):
            decompress(number, data)


def test_a_snappy_block_that_reaches_too_far_is_refused() -> None:
    framed = compress(2, b"x" * 100)
    with pytest.raises(CorruptBatch, match="a snappy block of 268435456 bytes"):
        decompress(2, framed[:16] + b"\x10\x00\x00\x00" + framed[20:])
    with pytest.raises(CorruptBatch, match="a snappy block of -1 bytes"):
        decompress(2, framed[:16] + b"\xff\xff\xff\xff" + framed[20:])


def test_codecs_have_numbers() -> None:
    assert [number_of(codec) for codec in CODECS] == [0, 1, 2, 3, 4]
    with pytest.raises(UsageError, match="there is no codec 'rar'"):
        number_of("rar")
    with pytest.raises(CorruptBatch, match="number 7"):
        decompress(7, b"")
