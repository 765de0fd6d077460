"""Batches of values, which are to the byte what `build_batch` makes of the same records."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.errors import UsageError
from octoloom.wire.kafka import value_batches
from octoloom.wire.kafka.batches import HEADER_SIZE
from octoloom.wire.kafka.compression import CODECS
from octoloom.wire.kafka.records import Record, build_batch
from octoloom.wire.kafka.value_batches import VALUE_OVERHEAD_MAX, Run, build_value_batch

NOW = 1_760_000_000_000

values = st.none() | st.binary(max_size=150) | st.binary(max_size=3).map(lambda piece: piece * 3000)
timestamps = st.integers(NOW - 10_000_000, NOW + 10_000_000)
runs = st.lists(
    st.builds(lambda timestamp, found: Run(timestamp, found), timestamps, st.lists(values, min_size=1, max_size=80)),
    min_size=1,
    max_size=4,
)
near = st.lists(st.sampled_from([0, 0, 1, 63, 64, -1, 9000]), min_size=1, max_size=4)


def of_one_size(size: int, apart: list[int], numbers: random.Random) -> list[Run]:
    """As the producer makes them, of values that all are as long and differ."""
    return [
        Run(NOW + stamp, [numbers.randbytes(size) for _ in range(numbers.randrange(1, 150))], size) for stamp in apart
    ]


def one_by_one(runs: list[Run]) -> list[Record]:
    return [Record(0, run.timestamp, None, value) for run in runs for value in run.values]


@given(runs, st.sampled_from(CODECS))
def test_a_batch_is_the_same_as_of_single_records(runs: list[Run], codec: str) -> None:
    tag = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 11}
    assert build_value_batch(runs, codec=codec, **tag) == build_batch(one_by_one(runs), codec=codec, **tag)


@given(st.sampled_from([0, 1, 20, 63, 64, 5000]), near, st.randoms(use_true_random=False), st.sampled_from(CODECS))
def test_values_of_one_size_make_the_same_batch(
    size: int, apart: list[int], numbers: random.Random, codec: str
) -> None:
    tag = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 11, "leader_epoch": 5}
    runs = of_one_size(size, apart, numbers)
    assert build_value_batch(runs, codec=codec, **tag) == build_batch(one_by_one(runs), codec=codec, **tag)
    # One of another size among them, and all are joined from columns.
    runs.append(Run(NOW, [bytes(size + 1)], size + 1))
    assert build_value_batch(runs, codec=codec, **tag) == build_batch(one_by_one(runs), codec=codec, **tag)


@pytest.mark.parametrize("size", [1, value_batches.SIZES_DIFFER])
@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193, 70_000])
def test_numbers_take_more_bytes_in_time(count: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_batches, "_kept", [])
    value_batches._kept_columns.cache_clear()
    runs = [Run(NOW, [b"a"] * 40, size), Run(NOW + 5, [b"b"] * (count - 40), size)]
    # Once with numbers that nobody has kept yet, and once with those that were.
    assert build_value_batch(runs) == build_value_batch(runs) == build_batch(one_by_one(runs))
    assert min(count, value_batches._KEPT_MAX) <= len(value_batches._kept) <= value_batches._KEPT_MAX


@pytest.mark.parametrize("size", [0, 1, 50, 100, 8_000, 1_100_000])
def test_a_record_is_not_much_larger_than_its_value(size: int) -> None:
    far = Run(NOW + (1 << 40), [bytes(size)] * 2)
    batch = build_value_batch([Run(NOW, [b""]), far])
    assert len(batch) - HEADER_SIZE <= 2 * size + 3 * VALUE_OVERHEAD_MAX


def test_a_batch_without_values_is_refused() -> None:
    for runs in ([], [Run(NOW, [])]):
        with pytest.raises(UsageError, match="1 to 1000000 records, not 0"):
            build_value_batch(runs)
