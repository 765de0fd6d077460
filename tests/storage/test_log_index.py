"""The sparse index against a list of all batches, and its saved form, which is believed whole or not at all."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.storage.log_files import save_checked
from octoloom.storage.log_index import CHUNK_BATCHES_MAX, FORMAT, SavedIndex, SparseIndex, load_index, save_index

SPACING = 1000


@given(st.lists(st.tuples(st.integers(61, 400), st.integers(1, 5), st.integers(-1, 99)), min_size=1))
def test_an_index_leads_to_the_chunk_of_every_batch(shapes: list[tuple[int, int, int]]) -> None:
    index = SparseIndex(SPACING)
    batches: list[tuple[int, int, int]] = []
    offset = position = 0
    for size, count, time in shapes:
        index.add(offset, position, time)
        batches.append((offset, position, time))
        near = index.near(offset + count - 1)
        assert near == (position, offset)
        offset, position = offset + count, position + size
    for number, (first, place, _) in enumerate(batches):
        chunk = index.chunk_of(first)
        assert chunk == index.chunk_at(place)
        assert index.positions[chunk] <= place < index.positions[chunk] + SPACING
        assert (index.offsets[chunk], index.positions[chunk]) in [batch[:2] for batch in batches[: number + 1]]
        assert index.near(first) in (None, (place, first))
    for chunk in range(len(index)):
        inside = [time for first, _, time in batches if index.chunk_of(first) == chunk]
        assert index.times[chunk] == max(inside)


def test_chunks_of_tiny_batches_and_the_memory_of_the_newest_are_bounded() -> None:
    index = SparseIndex(1 << 30)
    for number in range(1000):
        index.add(number, number * 61, 0)
        assert len(index.near_offsets) == len(index.near_positions) <= 2 * CHUNK_BATCHES_MAX
    assert list(index.offsets) == list(range(0, 1000, CHUNK_BATCHES_MAX))
    assert index.near(1000 - CHUNK_BATCHES_MAX) is not None


def test_what_is_dropped_is_forgotten() -> None:
    index = SparseIndex(SPACING)
    for number in range(20):
        index.add(number, number * 300, number)
    index.drop_from(3)
    assert (len(index), index.near(5), index.near(19)) == (3, None, None)
    index.add(12, 3600, 7)
    assert (list(index.offsets), list(index.times)) == ([0, 4, 8, 12], [3, 7, 11, 7])
    assert index.near(12) == (3600, 12)


def saved(base: int = 10) -> SavedIndex:
    index = SparseIndex(SPACING)
    for number in range(20):
        index.add(base + number, number * 300, number)
    columns = (index.offsets.tobytes(), index.positions.tobytes(), index.times.tobytes())
    return SavedIndex(FORMAT, base, base + 20, 6000, 19, [(1, base)], *columns)


def test_a_saved_index_comes_back(tmp_path: Path) -> None:
    path = str(tmp_path / "x.index")
    assert load_index(path, 10) is None
    save_index(path, saved())
    assert load_index(path, 10) == saved()
    assert load_index(path, 11) is None
    index = saved().index(SPACING)
    assert index.near(15) is None
    assert list(index.positions) == [0, 1200, 2400, 3600, 4800]
    index.add(30, 6000, 5)
    assert (index.offsets[-1], index.positions[-1]) == (30, 6000), "what is new begins a chunk of its own"


@pytest.mark.parametrize(
    "change",
    [
        {"format": FORMAT + 1},
        {"base": 9},
        {"end": 20},
        {"size": 4000},
        {"epochs": []},
        {"offsets": b"1234567"},
        {"positions": b""},
        {"times": b"12345678"},
        {"offsets": b"", "positions": b"", "times": b""},
    ],
)
def test_what_cannot_be_the_index_is_not_believed(tmp_path: Path, change: dict[str, object]) -> None:
    path = str(tmp_path / "x.index")
    save_index(path, msgspec.structs.replace(saved(), **change))
    assert load_index(path, 10) is None


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x90", msgspec.msgpack.encode([1, 2, 3])])
def test_what_is_no_index_at_all_is_not_believed(tmp_path: Path, data: bytes) -> None:
    path = str(tmp_path / "x.index")
    save_checked(path, data, sync=False)
    assert load_index(path, 10) is None
