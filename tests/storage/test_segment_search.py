"""Finding by time, to the record, in batches of every kind; and by offset in a segment that is only known sparsely."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from octoloom.storage.log import Log, LogSettings
from octoloom.storage.log_index import CHUNK_BATCHES_MAX
from octoloom.wire.kafka.records import LOG_APPEND_TIME, Record, build_batch
from tests.storage.log_batches import FAR, SMALL, append, fill, make_batch, split


def timed(offset: int, times: list[int], codec: str = "none") -> bytes:
    records = [Record(0, time, b"key", b"value " * 20) for time in times]
    return build_batch(records, codec=codec, base_offset=offset, leader_epoch=0)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_first_record_that_is_not_older(tmp_path: Path, codec: str) -> None:
    log = Log.open(tmp_path, SMALL)
    # Times need not rise, neither in a batch nor from one to the next.
    append(log, [timed(0, [50, 10, 30], codec), timed(3, [5, 70, 60], codec), timed(6, [40, 40, 90], codec)])
    expected = {0: (0, 50), 50: (0, 50), 51: (4, 70), 70: (4, 70), 71: (8, 90), 90: (8, 90), 91: None}
    assert {asked: log.offset_at(asked, FAR) for asked in expected} == expected
    assert log.offset_at(51, 4) is None
    assert log.offset_at(51, 5) == (4, 70)
    log.trim(1)
    assert log.offset_at(0, FAR) == (1, 10)
    log.trim(5)
    assert log.offset_at(51, FAR) == (5, 60)
    assert log.offset_at(61, FAR) == (8, 90)
    log.close()


def test_a_batch_that_was_stamped_on_arrival_has_one_time(tmp_path: Path) -> None:
    log = Log.open(tmp_path, SMALL)
    append(log, [timed(0, [1, 2, 3]), changed(timed(3, [5, 6, 70]), LOG_APPEND_TIME)])
    assert log.offset_at(4, FAR) == (3, 70)
    log.trim(4)
    assert log.offset_at(4, FAR) == (4, 70)


def test_records_that_nobody_can_read_are_as_old_as_their_batch(tmp_path: Path) -> None:
    log = Log.open(tmp_path, SMALL)
    append(log, [timed(0, [1, 2, 3]), changed(timed(3, [5, 6, 70]), 4)])
    assert log.offset_at(4, FAR) == (3, 70)


def changed(batch: bytes, attributes: int) -> bytes:
    """The same batch with other attributes, and a CRC to go with them."""
    body = struct.pack(">h", attributes) + batch[23:]
    return batch[:17] + struct.pack(">I", crc32c(body)) + body


def test_times_are_found_across_segments_and_after_a_restart(tmp_path: Path) -> None:
    log = Log.open(tmp_path, SMALL)
    fill(log, 60)
    for _ in range(2):
        for number in range(60):
            assert log.offset_at(1000 + 10 * number, FAR) == (3 * number, 1000 + 10 * number)
            assert log.offset_at(1000 + 10 * number + 1, FAR) == (3 * number + 1, 1000 + 10 * number + 1)
        assert log.offset_at(5000, FAR) is None
        assert log.offset_at(1500, 100) is None
        log.close()
        log = Log.open(tmp_path, SMALL)


@pytest.mark.parametrize("settings", [SMALL, LogSettings()])
def test_many_small_batches_are_found_one_by_one(tmp_path: Path, settings: LogSettings) -> None:
    log = Log.open(tmp_path, settings)
    batches = [make_batch(offset, 75) for offset in range(4 * CHUNK_BATCHES_MAX)]
    for first in range(0, len(batches), 10):
        append(log, batches[first : first + 10])
    for _ in range(2):
        for offset in range(0, len(batches), 7):
            found = log.read(offset, 1, FAR)
            assert found is not None
            assert split(found.read()) == [batches[offset]]
            below = log.read(offset, 1 << 20, offset + 3)
            assert below is not None
            assert batches[offset : below.next_offset] == split(below.read())
        log.close()
        log = Log.open(tmp_path, settings)


def test_headers_begin_with_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    log = Log.open(tmp_path, SMALL)
    fill(log, 60)
    for _ in range(2):
        for offset in (0, 1, 50, 100, 179):
            assert [header.base_offset for header in log.headers(offset)] == list(range(offset // 3 * 3, 180, 3))
        assert list(log.headers(180)) == []
        log.close()
        log = Log.open(tmp_path, SMALL)
