"""Appending in one thread and syncing in another; and what happens when a sync fails."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest

from octoloom.core.errors import StoreError
from octoloom.storage.log import Log, LogSettings
from octoloom.storage.log_index import load_index
from octoloom.storage.reader_cache import ReaderCache
from tests.storage.log_batches import FAR, SMALL, append, fill, make_batch, open_files, quick_directory, read_all
from tests.waiting import until

COUNT = 1500


@pytest.mark.parametrize("truncates", [False, True])
def test_one_thread_appends_and_reads_while_another_syncs(truncates: bool) -> None:
    with quick_directory() as path:
        log = Log.open(path / "log", SMALL, ReaderCache(3))
        done, seen, faults = threading.Event(), [0], []

        def keep_syncing() -> None:
            try:
                while not done.is_set():
                    end = log.sync()
                    assert truncates or end == log.synced >= seen[-1]
                    seen.append(end)
            except BaseException as fault:
                faults.append(fault)

        thread = threading.Thread(target=keep_syncing)
        thread.start()
        batches = []
        for number in range(COUNT):
            batch = make_batch(log.end, 200, epoch=number // 100, time=number)
            append(log, [batch])
            batches.append(batch)
            assert log.synced <= log.end
            found = log.read(max(0, number - 40), 1, FAR)
            assert found is not None
            assert found.read() == batches[max(0, number - 40)]
            if number % 100 == 99:
                turns = len(seen)
                until(lambda turns=turns: faults or len(seen) > turns + 1, "two more syncs")  # type: ignore[misc]
            if truncates and number % 200 == 199:
                assert log.truncate(log.end - 5) == log.end
                del batches[-5:]
                for offset in range(log.end, log.end + 5):
                    batches.append(make_batch(offset, 150, epoch=number // 100))
                    append(log, batches[-1:])
        done.set()
        thread.join()
        assert faults == []
        assert len(set(seen)) > COUNT // 100
        assert read_all(log) == batches
        log.close()
        assert read_all(Log.open(path / "log", SMALL)) == batches


def test_what_was_synced_is_there_without_a_close(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "log", SMALL)
    batches = fill(log, 40)
    assert log.sync() == 120
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    fill(log, 3)
    assert read_all(Log.open(tmp_path / "copy", SMALL)) == batches


@pytest.mark.parametrize("late", [1, 20])
def test_what_is_appended_while_a_sync_runs_waits_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    """It may be in the page cache only when the sync is through. With 20 late batches, new segments begin meanwhile."""
    log = Log.open(tmp_path / "log", SMALL)
    batches = fill(log, 5)
    really_sync, meanwhile = os.fdatasync, [late]

    def slow_sync(fd: int) -> None:
        really_sync(fd)
        if meanwhile:
            fill(log, meanwhile.pop())

    monkeypatch.setattr(os, "fdatasync", slow_sync)
    assert log.sync() == log.synced == 15
    assert log.end == 15 + 3 * late
    assert log.sync() == log.synced == log.end
    assert read_all(log)[:5] == batches


def test_a_saved_index_says_nothing_of_what_came_while_its_sync_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a loss of power the bytes behind the sync may be gone: to recovery that would be damage."""
    log = Log.open(tmp_path / "log", LogSettings(segment_bytes=1 << 20, checkpoint_bytes=1000))
    fill(log, 5)
    path = tmp_path / "log" / f"{0:020d}.log"
    synced_size, really_sync = path.stat().st_size, os.fdatasync

    def slow_sync(fd: int) -> None:
        really_sync(fd)
        if log.end == 15:
            fill(log, 5)

    monkeypatch.setattr(os, "fdatasync", slow_sync)
    log.sync()
    saved = load_index(str(path.with_suffix(".index")), 0)
    assert saved is not None
    assert (saved.size, saved.end) == (synced_size, 15)


def test_sealed_segments_leave_memory_once_they_are_synced(tmp_path: Path) -> None:
    cache = ReaderCache(2)
    log = Log.open(tmp_path, SMALL, cache)
    before = open_files(tmp_path)
    fill(log, 100)
    sealed = len(list(tmp_path.glob("*.log"))) - 1
    assert open_files(tmp_path) - before == sealed
    assert list(tmp_path.glob("*.index")) == []
    log.sync()
    assert open_files(tmp_path) - before == 2
    assert len(list(tmp_path.glob("*.index"))) >= sealed
    log.close()


def test_the_index_of_the_active_segment_is_saved_now_and_then(tmp_path: Path) -> None:
    log = Log.open(tmp_path, LogSettings(segment_bytes=1 << 20, checkpoint_bytes=2000))
    index = tmp_path / f"{0:020d}.index"
    fill(log, 5)
    log.sync()
    assert not index.exists()
    fill(log, 5)
    log.sync()
    saved = index.read_bytes()
    fill(log, 1)
    log.sync()
    assert index.read_bytes() == saved
    log.close()
    assert index.read_bytes() != saved


def test_a_log_that_nothing_happened_to_is_closed_without_writing(tmp_path: Path) -> None:
    log = Log.open(tmp_path, SMALL)
    fill(log, 30)
    log.close()
    times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    log = Log.open(tmp_path, SMALL)
    log.sync()
    log.close()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == times


def break_file(fd: int) -> None:
    """From now on the descriptor is a pipe's, which no system call can sync or truncate."""
    reader, writer = os.pipe()
    os.dup2(writer, fd)
    os.close(reader)
    os.close(writer)


def test_a_failed_sync_ends_the_log(tmp_path: Path) -> None:
    log = Log.open(tmp_path, SMALL)
    fill(log, 3)
    log.sync()
    batches = fill(log, 3)
    found = log.read(0, 1, FAR)
    assert found is not None
    break_file(found.fd)
    with pytest.raises(StoreError, match="could not be synced"):
        log.sync()
    assert log.synced == 9
    for _ in range(2):
        with pytest.raises(StoreError, match="could not be synced"):
            log.sync()
    with pytest.raises(StoreError, match="open the log anew"):
        append(log, [make_batch(18)])
    with pytest.raises(StoreError, match="open the log anew"):
        log.read(0, 1, FAR)
    with pytest.raises(StoreError, match="open the log anew"):
        log.truncate(3)
    with pytest.raises(StoreError, match="open the log anew"):
        log.close()
    again = Log.open(tmp_path, SMALL)
    assert again.end == 18
    assert read_all(again)[3:] == batches


def test_a_write_that_cannot_be_undone_ends_the_log(tmp_path: Path) -> None:
    log = Log.open(tmp_path, SMALL)
    batches = fill(log, 3)
    log.sync()
    found = log.read(0, 1, FAR)
    assert found is not None
    break_file(found.fd)
    with pytest.raises(StoreError):
        append(log, [make_batch(9)])
    with pytest.raises(StoreError, match="could not be undone"):
        append(log, [make_batch(9)])
    assert read_all(Log.open(tmp_path, SMALL)) == batches


def test_a_truncation_that_fails_ends_the_log(tmp_path: Path) -> None:
    log = Log.open(tmp_path, SMALL)
    fill(log, 3)
    found = log.read(0, 1, FAR)
    assert found is not None
    break_file(found.fd)
    with pytest.raises(StoreError, match="could not be changed"):
        log.truncate(3)
    with pytest.raises(StoreError, match="could not be changed"):
        log.sync()


def test_a_sync_covers_every_segment_that_was_written_to(tmp_path: Path) -> None:
    log = Log.open(tmp_path, SMALL)
    fill(log, 40)
    found = log.read(20, 1, FAR)
    assert found is not None
    break_file(found.fd)
    with pytest.raises(StoreError, match="could not be synced"):
        log.sync()
    assert log.synced == 0


def test_new_segments_are_durable_by_name(tmp_path: Path) -> None:
    """A directory that is not where it was can be written into, through open files, but not be synced."""
    log = Log.open(tmp_path / "log", SMALL)
    fill(log, 3)
    log.sync()
    (tmp_path / "log").rename(tmp_path / "moved")
    fill(log, 3)
    assert log.sync() == 18, "no name is new"
    (tmp_path / "moved").rename(tmp_path / "log")
    fill(log, 40)
    (tmp_path / "log").rename(tmp_path / "moved")
    with pytest.raises(StoreError, match="could not be synced"):
        log.sync()


def test_a_new_log_is_durable_by_name(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "log", SMALL)
    (tmp_path / "log").rename(tmp_path / "moved")
    with pytest.raises(StoreError, match="could not be synced"):
        log.sync()


def test_half_an_append_that_cannot_be_cut_off_ends_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log.open(tmp_path, SMALL)
    batches = fill(log, 3)
    really_write = os.pwritev

    def write_half(fd: int, buffers: list[bytes], position: int) -> int:
        data = b"".join(buffers)
        return really_write(fd, [data[: len(data) // 2]], position)

    def fail(_fd: int, _size: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(os, "pwritev", write_half)
        broken.setattr(os, "ftruncate", fail)
        with pytest.raises(StoreError):
            append(log, [make_batch(9)])
    with pytest.raises(StoreError, match="could not be undone"):
        append(log, [make_batch(9)])
    assert read_all(Log.open(tmp_path, SMALL)) == batches


def test_an_index_that_could_not_be_saved_is_saved_by_the_next_sync(tmp_path: Path) -> None:
    log = Log.open(tmp_path, SMALL)
    index = tmp_path / f"{0:020d}.index"
    index.mkdir()  # nothing can be put in its place
    fill(log, 20)
    log.sync()
    index.rmdir()
    fill(log, 1)
    log.sync()
    assert index.is_file()
