"""Batches of values, which are to the byte what `build_batch` makes of the same records."""

from __future__ import annotations

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
alike = st.builds(lambda value, count: [value] * count, values, st.integers(1, 150))
timestamps = st.integers(NOW - 10_000_000, NOW + 10_000_000)
runs = st.lists(st.builds(Run, timestamps, st.lists(values, min_size=1, max_size=80) | alike), min_size=1, max_size=4)


def one_by_one(runs: list[Run]) -> list[Record]:
    return [Record(0, run.timestamp, None, value) for run in runs for value in run.values]


@given(runs, st.sampled_from(CODECS))
def test_a_batch_is_the_same_as_of_single_records(runs: list[Run], codec: str) -> None:
    tag = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 11}
    assert build_value_batch(runs, codec=codec, **tag) == build_batch(one_by_one(runs), codec=codec, **tag)


@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193, 70_000])
def test_numbers_take_more_bytes_in_time(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_batches, "_kept", [])
    runs = [Run(NOW, [b"a"] * 40), Run(NOW + 5, [b"b"] * (count - 40))]
    # Once with numbers that nobody has kept yet, and once with those that were.
    assert build_value_batch(runs) == build_value_batch(runs) == build_batch(one_by_one(runs))
    assert len(value_batches._kept) == min(count, value_batches._KEPT_MAX)


@pytest.mark.parametrize("size", [0, 1, 50, 100, 8_000, 1_100_000])
def test_a_record_is_not_much_larger_than_its_value(size: int) -> None:
    far = Run(NOW + (1 << 40), [bytes(size)] * 2)
    batch = build_value_batch([Run(NOW, [b""]), far])
    assert len(batch) - HEADER_SIZE <= 2 * size + 3 * VALUE_OVERHEAD_MAX


def test_a_batch_without_values_is_refused() -> None:
    for runs in ([], [Run(NOW, [])]):
        with pytest.raises(UsageError, match="1 to 1000000 records, not 0"):
            build_value_batch(runs)
