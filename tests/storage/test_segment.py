"""One segment: what was written by another process is proved before it is served, chunk by chunk and only once."""

from __future__ import annotations

from pathlib import Path

import pytest

from octoloom.storage.log_damage import DamagedLog
from octoloom.storage.log_index import load_index
from octoloom.storage.reader_cache import ReaderCache
from octoloom.storage.segment import Segment
from octoloom.storage.segment_search import read_slice
from octoloom.wire.kafka.batches import read_header
from tests.storage.log_batches import FAR, make_batch

SPACING = 300
COUNT = 40


def written(path: Path, count: int = COUNT) -> list[bytes]:
    segment = Segment(str(path), 100, SPACING, ReaderCache())
    segment.create()
    batches = [make_batch(100 + number, time=1000 + number) for number in range(count)]
    for batch in batches:
        segment.write([batch], len(batch))
        segment.note([read_header(batch)])
    assert segment.save(segment.saved())
    return batches


def adopted(path: Path, cache: ReaderCache | None = None) -> Segment:
    segment = Segment(str(path), 100, SPACING, ReaderCache() if cache is None else cache)
    saved = load_index(segment.index_path, 100)
    assert saved is not None
    segment.adopt(saved)
    return segment


def read(segment: Segment, offset: int, bytes_max: int = 1) -> bytes:
    found = read_slice(segment, offset, bytes_max, FAR)
    assert found is not None
    return found.read()


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_a_chunk_is_proved_before_its_first_byte_is_served_and_not_again(tmp_path: Path) -> None:
    batches = written(tmp_path)
    segment = adopted(tmp_path)
    assert read(segment, 100) == batches[0]
    size = len(batches[0])
    flip(Path(segment.path), 80)
    flip(Path(segment.path), 20 * size + 80)
    assert read(segment, 100) != batches[0], "it was proved, and what happens to it later is not looked for"
    with pytest.raises(DamagedLog) as caught:
        read(segment, 120)
    assert caught.value.offset == 120
    assert read(segment, 119) == batches[19]
    assert read(segment, 110, 1 << 20) == b"".join(batches[10:20])


def test_damage_is_found_through_whatever_slice_touches_it(tmp_path: Path) -> None:
    batches = written(tmp_path)
    size = len(batches[0])
    for number in range(COUNT):
        flip(path := tmp_path / f"{100:020d}.log", number * size + 70)
        for first in (0, max(0, number - 3), number):
            segment = adopted(tmp_path)
            with pytest.raises(DamagedLog) as caught:
                read(segment, 100 + first, 1 << 20)
            assert caught.value.offset == segment.damage == 100 + number
        flip(path, number * size + 70)
    assert read(adopted(tmp_path), 100, 1 << 20) == b"".join(batches)


def test_an_index_that_was_lost_meanwhile_is_made_again(tmp_path: Path) -> None:
    batches = written(tmp_path)
    cache = ReaderCache(1)
    segment = adopted(tmp_path, cache)
    Path(segment.index_path).unlink()
    assert read(segment, 115) == batches[15]
    cache.drop(segment)
    flip(Path(segment.path), 20 * len(batches[0]) + 14)
    assert read(segment, 115, 1 << 20) == b"".join(batches[15:20])
    with pytest.raises(DamagedLog) as caught:
        read(segment, 120)
    assert caught.value.offset == 120


def test_a_segment_without_its_file_is_damaged_from_its_first_offset(tmp_path: Path) -> None:
    written(tmp_path)
    segment = adopted(tmp_path)
    Path(segment.path).unlink()
    with pytest.raises(DamagedLog) as caught:
        read(segment, 120)
    assert caught.value.offset == 100


def test_cutting_keeps_the_index_exact(tmp_path: Path) -> None:
    for count in range(1, COUNT):
        place = tmp_path / str(count)
        place.mkdir()
        batches = written(place)
        segment = adopted(place)
        position = sum(map(len, batches[:count]))
        if count % 2:
            read(segment, 100 + count)
        segment.cut(position, 100 + count)
        (place / "other").mkdir()
        expected = written(place / "other", count)
        known = load_index(str(place / "other" / f"{100:020d}.index"), 100)
        assert segment.saved() == known
        assert read(segment, 100, 1 << 20) == b"".join(expected)
