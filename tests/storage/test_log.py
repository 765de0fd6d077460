"""The log as its broker sees it: appended, read, shortened; refused when it cannot be, and then as it was."""

from __future__ import annotations

import os
import resource
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from octoloom.core.errors import StoreError, UsageError
from octoloom.storage.log import SIDE_BYTES_MAX, Log, LogSettings
from octoloom.storage.log_files import BUFFERS_MAX
from octoloom.storage.reader_cache import ReaderCache
from octoloom.wire.kafka.batches import read_header
from tests.storage.log_batches import FAR, SMALL, append, fill, make_batch, open_files, quick_directory, read_all, split


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log.open(tmp_path / "deep" / "log", SMALL)
    yield log
    log.close()


def reopened(log: Log) -> Log:
    log.close()
    return Log.open(log.path, SMALL)


def test_a_new_log_is_empty(log: Log) -> None:
    assert (log.start, log.end, log.synced, log.size, log.epochs) == (0, 0, 0, 0, [])
    assert log.read(0, 100, FAR) is None
    assert list(log.headers(0)) == []
    assert log.offset_at(0, FAR) is None
    assert log.end_of_epoch(5) == (-1, -1)
    assert log.truncate(0) == 0
    log.trim(0)
    assert not log.retain(FAR, 0, 0, FAR)
    log.append([], [])
    assert (reopened(log).start, log.end) == (0, 0)


def test_batches_come_back_as_they_were_appended(log: Log) -> None:
    batches = fill(log, 50, epochs=3)
    assert read_all(log) == batches
    assert log.synced == 0
    assert log.sync() == log.synced == log.end == 150
    again = reopened(log)
    assert read_all(again) == batches
    assert (again.synced, again.size) == (150, sum(map(len, batches)))
    assert len(list(Path(log.path).glob("*.log"))) > 3


def test_memory_of_any_kind_can_be_appended(log: Log) -> None:
    whole = bytearray(make_batch(0) + make_batch(1))
    half = len(whole) // 2
    batches: list[bytes | memoryview] = [memoryview(whole)[:half], bytes(whole[half:])]
    log.append(batches, [read_header(batch) for batch in batches])
    assert b"".join(read_all(log)) == whole


def test_many_batches_can_come_in_one_piece(log: Log) -> None:
    batches = [make_batch(offset) for offset in range(20)]
    log.append([b"".join(batches)], [read_header(batch) for batch in batches])
    assert read_all(log) == batches
    found = log.read(7, 1, FAR)
    assert found is not None
    assert found.read() == batches[7]


def test_more_batches_than_one_write_takes(log: Log) -> None:
    batches = [make_batch(offset, 70) for offset in range(BUFFERS_MAX * 2 + 5)]
    append(log, batches)
    assert read_all(log) == batches
    assert log.size == sum(map(len, batches))


@pytest.mark.parametrize(
    "batches",
    [
        [make_batch(7)],
        [make_batch(8, epoch=2)],
        [make_batch(9)],
        [make_batch(9, epoch=2), make_batch(11, epoch=2)],
        [make_batch(9, epoch=3), make_batch(10, epoch=2)],
        [make_batch(9, epoch=2) + b"x"],
        [make_batch(9, epoch=2)[:-1]],
    ],
)
def test_what_does_not_follow_is_refused_and_changes_nothing(log: Log, batches: list[bytes]) -> None:
    append(log, [make_batch(0, epoch=2, count=9)])
    before = (read_all(log), log.end, log.size, list(log.epochs))
    with pytest.raises(UsageError):
        append(log, batches)
    with pytest.raises(UsageError):
        log.append(batches, [])
    assert (read_all(log), log.end, log.size, log.epochs) == before
    append(log, [make_batch(9, epoch=2)])


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """The kernel refuses to let any file of this process grow beyond `size`, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 1, 150])
def test_an_append_that_does_not_fit_leaves_the_log_as_it_was(log: Log, room: int) -> None:
    batches = fill(log, 5)
    before = (log.end, log.size, list(log.epochs))
    with files_no_larger_than(log.size + room), pytest.raises(StoreError, match="the log is as it was"):
        append(log, [make_batch(log.end, 200, epoch=7), make_batch(log.end + 1, 200, epoch=7)])
    assert (log.end, log.size, log.epochs) == before
    assert Path(log.path, f"{0:020d}.log").stat().st_size == log.size
    assert read_all(log) == batches
    batches += [make_batch(log.end, 200, epoch=1)]
    append(log, batches[-1:])
    assert read_all(reopened(log)) == batches


def test_a_write_in_many_parts_that_does_not_fit_is_undone_whole(log: Log) -> None:
    first = fill(log, 1)
    batches = [make_batch(3 + offset, 70) for offset in range(BUFFERS_MAX + 5)]
    with files_no_larger_than(sum(map(len, batches[:-2]))), pytest.raises(StoreError):
        append(log, batches)
    assert read_all(log) == first
    assert Path(log.path, f"{3:020d}.log").stat().st_size == 0


def test_a_slice_is_whole_batches_within_its_bounds(log: Log) -> None:
    batches = fill(log, 60)
    size = len(batches[0])
    for offset in (0, 1, 2, 3, 17, 100, 178):
        for bytes_max in (0, 1, size - 1, size, 2 * size + 1, 1000, 1 << 30):
            for before in (offset + 1, offset + 3, offset + 4, offset + 20, 180, FAR):
                found = log.read(offset, bytes_max, before)
                first = offset // 3
                if first * 3 + 3 > before:
                    assert found is None
                    continue
                assert found is not None
                got = split(found.read())
                assert got == batches[first : first + len(got)]
                assert found.next_offset == 3 * (first + len(got)) <= before
                assert len(got) == 1 or found.size <= bytes_max


def test_reading_moves_in_large_steps(log: Log) -> None:
    fill(log, 60)
    found = log.read(0, 2000, FAR)
    assert found is not None
    assert 2000 - SMALL.index_bytes - 400 < found.size <= 2000


@pytest.mark.parametrize("offset", [-1, 2, 151, FAR])
def test_an_offset_outside_of_the_log_is_refused(log: Log, offset: int) -> None:
    fill(log, 50)
    log.trim(3)
    with pytest.raises(UsageError, match="holds 3 to 150"):
        log.read(offset, 100, FAR)
    with pytest.raises(UsageError, match="holds 3 to 150"):
        next(log.headers(offset))


def test_a_slice_can_be_sent_after_its_segment_is_deleted_and_the_log_closed(log: Log) -> None:
    batches = fill(log, 60)
    log.sync()
    found = log.read(0, 1 << 20, FAR)
    assert found is not None
    assert log.retain(0, -1, 0, FAR)
    log.close()
    assert not Path(log.path, f"{0:020d}.log").exists()
    here, there = socket.socketpair()
    with here, there:
        assert os.sendfile(here.fileno(), found.fd, found.position, found.size) == found.size
        assert split(there.recv(1 << 20)) == batches[: found.next_offset // 3]
    fd = found.fd
    del found
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_epochs(log: Log) -> None:
    for offset, epoch in [(0, 2), (1, 2), (2, 5), (3, 5), (4, 6)]:
        append(log, [make_batch(offset, epoch=epoch)])
    assert log.epochs == [(2, 0), (5, 2), (6, 4)]
    ends = {1: (-1, -1), 2: (2, 2), 3: (2, 2), 4: (2, 2), 5: (5, 4), 6: (6, 5), 9: (6, 5)}
    assert {epoch: log.end_of_epoch(epoch) for epoch in ends} == ends
    log.trim(3)
    assert log.epochs == [(5, 3), (6, 4)]
    log = reopened(log)
    assert log.epochs == [(5, 3), (6, 4)]
    log.trim(5)
    assert log.epochs == [(6, 5)]
    append(log, [make_batch(5, epoch=8)])
    assert log.epochs == [(8, 5)]
    assert reopened(log).epochs == [(8, 5)]


def test_truncation_ends_at_a_batch_and_can_be_appended_to(log: Log) -> None:
    batches = fill(log, 60, epochs=4)
    assert log.epochs == [(0, 0), (1, 45), (2, 90), (3, 135)]
    assert log.truncate(180) == 180
    assert log.truncate(FAR) == 180
    assert log.truncate(100) == 99
    assert (log.end, log.synced, log.epochs) == (99, 99, [(0, 0), (1, 45), (2, 90)])
    assert log.offset_at(1000 + 10 * 33, FAR) is None
    extra = make_batch(99, 3000, epoch=9, time=5000)
    append(log, [extra])
    assert read_all(log) == [*batches[:33], extra]
    assert read_all(reopened(log)) == [*batches[:33], extra]


def test_truncating_to_nothing(log: Log) -> None:
    fill(log, 20)
    log.trim(4)
    assert log.truncate(5) == 3
    assert (log.start, log.end, log.size > 0) == (3, 3, True)
    with pytest.raises(UsageError, match="reset it"):
        log.truncate(-1)
    assert log.truncate(0) == 0
    assert (log.start, log.end, log.size, log.epochs) == (0, 0, 0, [])
    batches = fill(log, 20)
    assert read_all(reopened(log)) == batches


def test_a_reset_log_begins_where_it_is_told(log: Log) -> None:
    fill(log, 20)
    for offset in (1000, 5):
        log.reset(offset)
        assert (log.start, log.end, log.synced, log.size, log.epochs) == (offset, offset, offset, 0, [])
        batches = fill(log, 20)
        assert read_all(log) == batches
        log.trim(offset + 4)
    with pytest.raises(UsageError):
        log.reset(-1)
    log.reset(7)
    log = reopened(log)
    assert (log.start, log.end) == (7, 7)


def test_trimming_deletes_segments_and_remembers_the_start(log: Log) -> None:
    batches = fill(log, 60)
    log.sync()
    with pytest.raises(UsageError, match="ends at 180"):
        log.trim(181)
    log.trim(100)
    assert log.start == 100
    assert min(int(path.stem) for path in Path(log.path).glob("*.log")) in range(70, 100)
    log.trim(50)
    assert log.start == 100
    assert read_all(log) == batches[33:]
    again = reopened(log)
    assert again.start == 100
    assert read_all(again) == batches[33:]
    again.trim(180)
    assert again.read(180, 100, FAR) is None


def test_what_is_not_synced_is_trimmed_later(log: Log) -> None:
    fill(log, 60)
    log.trim(180)
    assert len(list(Path(log.path).glob("*.log"))) > 3
    log.sync()
    assert not log.retain(0, -1, -1, FAR)
    assert len(list(Path(log.path).glob("*.log"))) == 1


def test_retention_by_size_keeps_at_least_so_much(log: Log) -> None:
    fill(log, 60)
    log.sync()
    size = log.size
    assert not log.retain(0, -1, size, FAR)
    assert not log.retain(0, -1, size - 1000, FAR)
    assert log.retain(0, -1, 9000, FAR)
    assert 9000 <= log.size < 9000 + SMALL.segment_bytes
    assert log.size == sum(path.stat().st_size for path in Path(log.path).glob("*.log"))
    assert not log.retain(0, -1, 9000, FAR)


def test_retention_by_time_looks_at_the_youngest_record_of_a_segment(log: Log) -> None:
    fill(log, 60)
    log.sync()
    second = sorted(int(path.stem) for path in Path(log.path).glob("*.log"))[1]
    youngest = 1000 + 10 * (second // 3 - 1) + 2
    assert not log.retain(youngest + 500, 500, -1, FAR)
    assert not log.retain(youngest + 501, 500, -1, second - 1)
    assert log.retain(youngest + 501, 500, -1, FAR)
    assert log.start == second
    assert not log.retain(FAR, -1, -1, FAR)


def test_in_time_even_the_active_segment_goes(log: Log) -> None:
    fill(log, 3)
    log.sync()
    assert not log.retain(FAR, 500, -1, 8), "not all of it may go"
    log.retain(FAR, 500, -1, FAR)
    log.sync()
    assert log.retain(FAR, 500, -1, FAR)
    assert (log.start, log.end, log.size) == (9, 9, 0)
    append(log, [make_batch(9)])
    assert len(read_all(reopened(log))) == 1


def test_records_without_a_time_are_as_old_as_their_file(log: Log) -> None:
    append(log, [make_batch(0, time=-1)])
    log.sync()
    now = int(Path(log.path, f"{0:020d}.log").stat().st_mtime * 1000)
    log.retain(now + 400, 500, -1, FAR)
    log.sync()
    assert not log.retain(now + 400, 500, -1, FAR)
    log.retain(now + 600, 500, -1, FAR)
    log.sync()
    assert log.retain(now + 600, 500, -1, FAR)


def test_side_data(log: Log) -> None:
    assert log.load_side("high") is None
    for sync in (True, False):
        log.save_side("high", b"17", sync=sync)
        assert log.load_side("high") == b"17"
        log.save_side("high", b"")
        assert log.load_side("high") == b""
    log.save_side("producers-1", bytes(range(256)))
    with files_no_larger_than(100), pytest.raises(StoreError, match="what was there stays"):
        log.save_side("producers-1", bytes(5000))
    again = reopened(log)
    assert again.load_side("producers-1") == bytes(range(256))
    for name in ("", "../x", "x.y", "X", "x" * 65, "x/y"):
        with pytest.raises(UsageError):
            again.save_side(name, b"")
        with pytest.raises(UsageError):
            again.load_side(name)
    with pytest.raises(UsageError, match="too much"):
        again.save_side("large", bytes(SIDE_BYTES_MAX + 1))


def test_a_closed_log_refuses_work(log: Log) -> None:
    fill(log, 3)
    log.close()
    log.close()
    for work in (
        lambda: append(log, [make_batch(9)]),
        lambda: log.read(0, 1, FAR),
        lambda: list(log.headers(0)),
        lambda: log.offset_at(0, FAR),
        lambda: log.sync(),
        lambda: log.truncate(3),
        lambda: log.reset(3),
        lambda: log.trim(3),
        lambda: log.retain(0, 0, 0, 0),
        lambda: log.save_side("x", b""),
    ):
        with pytest.raises(StoreError, match="closed"):
            work()


def test_bad_settings_and_bad_places_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        LogSettings(segment_bytes=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot open the log"):
        Log.open(tmp_path / "file")


def test_many_logs_share_a_bounded_number_of_files() -> None:
    with quick_directory() as path:
        before = open_files(path)
        cache = ReaderCache(5)
        logs = [Log.open(path / str(number), SMALL, cache) for number in range(10)]
        for log in logs:
            fill(log, 60)
            log.sync()
        for log in logs:
            assert len(read_all(log)) == 60
        assert open_files(path) - before == 10 + 5
        for log in logs:
            log.close()
        assert open_files(path) == before


def test_an_idle_log_is_small() -> None:
    with quick_directory() as path:
        settings, cache = LogSettings(), ReaderCache()
        for number in range(50):
            log = Log.open(path / str(number), settings, cache)
            fill(log, 20)
            log.close()
        tracemalloc.start()
        try:
            logs = [Log.open(path / str(number), settings, cache) for number in range(50)]
            used, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert used / len(logs) < 10_000
        for log in logs:
            log.close()


def test_a_record_of_that_time_beyond_the_watermark_is_not_found_yet(tmp_path: Path) -> None:
    log = Log.open(tmp_path, SMALL)
    fill(log, 5)  # three records each, from 1000 on, ten apart
    assert log.offset_at(1040, before=15) == (12, 1040)
    assert log.offset_at(1040, before=12) is None


def test_a_log_that_was_trimmed_and_reset_begins_where_it_was_reset_to(tmp_path: Path) -> None:
    log = Log.open(tmp_path, SMALL)
    fill(log, 5)
    log.trim(4)
    log.reset(0)
    batches = fill(log, 5)
    log.close()
    again = Log.open(tmp_path, SMALL)
    assert again.start == 0
    assert read_all(again) == batches
