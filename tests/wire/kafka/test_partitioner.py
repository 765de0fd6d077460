"""The hash against another client's, and against values that Java's own tests know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner import murmur2 as python_murmur2  # type: ignore[import-untyped]

from octoloom.wire.kafka.partitioner import murmur2, partition_of


@given(st.binary(max_size=64))
def test_the_hash_is_everyones(key: bytes) -> None:
    assert murmur2(key) == python_murmur2(key)


@given(st.binary(max_size=40), st.integers(1, 100))
def test_a_key_lands_where_other_clients_put_it(key: bytes, partitions: int) -> None:
    assert partition_of(key, partitions) == (python_murmur2(key) & 0x7FFFFFFF) % partitions


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_javas(key: bytes, value: int) -> None:
    assert murmur2(key) == value & 0xFFFFFFFF
