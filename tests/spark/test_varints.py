"""Many numbers at once against one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.spark import varints
from octoloom.wire.kafka.batches import CorruptBatch
from octoloom.wire.kafka.records import read_varint, varint

BIT_EDGES = [sign * (1 << bits) + near for bits in range(63) for sign in (1, -1) for near in (-1, 0, 1)]
numbers = st.sampled_from(BIT_EDGES) | st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-70, 70)


@given(st.lists(numbers, max_size=40), st.integers(1, 3))
def test_what_was_written_is_read(numbers: list[int], repeated: int) -> None:
    encoded = [varint(number) for number in numbers * repeated]
    ends = np.cumsum([len(one) for one in encoded], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(encoded)]
    # With nothing behind the last number, nothing behind it can have been needed.
    found, found_ends = varints.read(np.frombuffer(b"".join(encoded), np.uint8), starts)
    assert found.tolist() == numbers * repeated
    assert found_ends.tolist() == ends.tolist()


@given(st.binary(min_size=1, max_size=30) | st.lists(st.sampled_from([0, 1, 127, 128, 255]), min_size=1).map(bytes))
def test_any_bytes_are_read_as_one_by_one_and_never_beyond_the_end_unseen(noise: bytes) -> None:
    data = np.frombuffer(noise, np.uint8)
    for position in range(len(noise)):
        try:
            expected = varints.read_one(noise, position)
        except CorruptBatch:
            with pytest.raises(CorruptBatch):
                varints.read(data, np.array([position]))
        except IndexError:
            # A number that is cut off: refused, or seen to end where nothing is.
            try:
                _, [end] = varints.read(data, np.array([position]))
            except CorruptBatch:
                continue
            assert end > len(noise)
        else:
            [value], [end] = varints.read(data, np.array([position]))
            assert (value, end) == expected


@pytest.mark.parametrize("number", [(1 << 63) - 1, -(1 << 63), 1 << 63, -(1 << 63) - 1, 1 << 68])
def test_a_number_has_64_bits(number: int) -> None:
    zigzag = number * 2 if number >= 0 else -number * 2 - 1
    encoded = bytes([*(zigzag >> 7 * place & 0x7F | 0x80 for place in range(9)), zigzag >> 63])
    assert read_varint(encoded, 0) == (number, 10)
    data = np.frombuffer(b"\x02" + encoded, np.uint8)
    if -(1 << 63) <= number < 1 << 63:
        assert varints.read_one(encoded, 0) == (number, 10)
        assert [column.tolist() for column in varints.read(data, np.array([0, 1]))] == [[1, number], [1, 11]]
    else:
        with pytest.raises(CorruptBatch, match="more than 64 bits"):
            varints.read_one(encoded, 0)
        with pytest.raises(CorruptBatch, match="more than 64 bits"):
            varints.read(data, np.array([0, 1]))
