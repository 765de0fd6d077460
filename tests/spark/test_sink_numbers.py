"""The numbers of the sink: the same for the same rows, whoever asks, and against twins that do it row by row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.spark.sink_numbers import BATCHES_PER_ERA, PRODUCER_BIT, by_key, cuts, in_turn, murmur2, tag_of
from octoloom.wire.kafka import partitioner


def test_a_tag_is_the_same_wherever_it_is_made() -> None:
    # These numbers are in topics: a program that makes others writes reruns twice.
    assert tag_of("3f6f0b1e-8a0a-4f4c-9a0e-000000000001", 0, 0) == (4820208844089256958, 0)
    assert tag_of("3f6f0b1e-8a0a-4f4c-9a0e-000000000001", 7, 20_000) == (8626256449978424547, 3616)


@given(st.text(), st.integers(0, 10_000), st.integers(0, 2**62))
def test_tags_are_none_that_brokers_hand_out_and_fit_into_a_batch(writer: str, partition: int, batch: int) -> None:
    tag = tag_of(writer, partition, batch)
    assert PRODUCER_BIT <= tag.producer_id < 2 * PRODUCER_BIT
    assert 0 <= tag.epoch < 2**15
    assert tag == tag_of(writer, partition, batch)


def test_batches_of_an_era_share_a_producer_and_fence_each_other() -> None:
    first, second = tag_of("q", 1, 5), tag_of("q", 1, 6)
    assert first.producer_id == second.producer_id
    assert first.epoch < second.epoch
    last, next_era = tag_of("q", 1, BATCHES_PER_ERA - 1), tag_of("q", 1, BATCHES_PER_ERA)
    assert last.producer_id == first.producer_id != next_era.producer_id
    assert next_era.epoch == 0


def test_writers_and_partitions_have_producers_of_their_own() -> None:
    tags = {tag_of(writer, partition, 0) for writer in ("q", "q 1", "1 q", "r") for partition in range(100)}
    assert len(tags) == 400


@given(st.lists(st.integers(32, 400), max_size=60), st.integers(1, 1000), st.integers(1, 10))
def test_cuts_are_those_of_a_twin_that_goes_row_by_row(sizes: list[int], bytes_max: int, rows_max: int) -> None:
    expected: list[int] = []
    rows = held = 0
    for place, size in enumerate(sizes):
        if rows and (held + size > bytes_max or rows == rows_max):
            expected.append(place)
            rows = held = 0
        rows, held = rows + 1, held + size
    if rows:
        expected.append(len(sizes))
    assert cuts(np.array(sizes, np.int64), bytes_max, rows_max) == expected


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=40), st.integers(0, 5))
def test_keys_belong_where_every_client_puts_them(keys: list[bytes], skipped: int) -> None:
    array = pa.array([b"before"] * skipped + keys, pa.binary()).slice(skipped)
    assert murmur2(array).tolist() == [partitioner.murmur2(key) for key in keys]
    counts = np.arange(1, len(keys) + 1)
    assert by_key(array, counts).tolist() == [
        partitioner.partition_of(key, count) for key, count in zip(keys, counts.tolist(), strict=True)
    ]


@pytest.mark.parametrize("first", [0, 1, 7])
def test_rows_without_a_key_take_turns(first: int) -> None:
    assert in_turn(first, np.arange(6), np.full(6, 3)).tolist() == [(first + row) % 3 for row in range(6)]
