"""Logs that come back from bad days: flipped bits and cuts in every kind of file, missing files, torn tails."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from octoloom.storage import log_commit, log_recovery
from octoloom.storage.log import Log
from octoloom.storage.log_damage import DAMAGED_FILES_MAX, FOLDER, DamagedLog
from octoloom.storage.reader_cache import ReaderCache
from tests.storage.log_batches import FAR, SMALL, append, drain, fill, make_batch, quick_directory, read_all, split


@pytest.fixture
def quick() -> Iterator[Path]:
    with quick_directory() as path:
        yield path


def opened(path: Path) -> Log:
    return Log.open(path, SMALL, ReaderCache(4))


def closed_log(path: Path) -> list[bytes]:
    """A log of 64 KiB in many segments, closed in peace, with every kind of file in it."""
    log = opened(path)
    batches = fill(log, 220, epochs=5)
    assert log.size > 64 * 1024
    log.trim(2)
    log.save_side("table", b"some side data")
    log.close()
    assert {file.suffix for file in path.iterdir()} == {".log", ".index", ".side", ""}
    return batches


def whole_before(batches: list[bytes], path: Path, position: int) -> list[bytes]:
    """The batches of the log that lie before the one that holds this byte of this segment."""
    before = [batch for batch in batches if int.from_bytes(batch[:8], "big") < int(path.stem)]
    for batch in split(path.read_bytes()):
        position -= len(batch)
        if position < 0:
            break
        before.append(batch)
    return before


def places(path: Path, count: int) -> Iterator[tuple[Path, int]]:
    """So many bytes, each as likely as any other, and the first and last of every file."""
    files = [file for file in sorted(path.iterdir()) if file.is_file()]
    dice = random.Random(count)
    for file in dice.choices(files, [file.stat().st_size for file in files], k=count):
        yield file, dice.randrange(file.stat().st_size)
    for file in files:
        yield file, 0
        yield file, file.stat().st_size - 1


@pytest.mark.parametrize("count", [120, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("harm", ["flip", "cut"])
def test_harm_to_one_byte_costs_at_most_what_follows_it(quick: Path, harm: str, count: int) -> None:
    """A sample on real files. Every single byte is harmed in the tests of the scan, which decides what is whole."""
    template, place = quick / "template", quick / "log"
    batches = closed_log(template)
    for file, position in places(template, count):
        shutil.copytree(template, place)
        harmed = place / file.name
        data = bytearray(harmed.read_bytes())
        data[position] ^= 1 << position % 8
        harmed.write_bytes(data if harm == "flip" else data[:position])
        log = opened(place)
        assert log.end == 660
        found = drain(log)
        if file.suffix == ".log":
            assert found == [b for b in whole_before(batches, file, position) if log.start < end_of(b)]
            assert log.end == (end_of(found[-1]) if found else log.start)
        else:
            assert found == batches
        assert log.start in ((0, 2) if file.name == "start" else (min(2, log.end),))
        assert log.load_side("table") in ((b"some side data",) if file.suffix != ".side" else (None,))
        log.close()
        shutil.rmtree(place)


def end_of(batch: bytes) -> int:
    return int.from_bytes(batch[:8], "big") + int.from_bytes(batch[23:27], "big") + 1


def test_damage_is_reported_when_it_is_read_and_not_before(tmp_path: Path) -> None:
    log = opened(tmp_path)
    batches = fill(log, 60)
    log.close()
    second = sorted(tmp_path.glob("*.log"))[1]
    base = int(second.stem)
    flip(second, 700)
    log = opened(tmp_path)
    assert read_some(log, 0) == batches[0]
    assert read_some(log, log.end - 1) == batches[-1]
    whole = base + 3 * (700 // len(batches[0]))
    for offset in (whole, whole + 5, base + 3 * 5):
        with pytest.raises(DamagedLog) as caught:
            log.read(offset, 1 << 20, FAR)
        assert caught.value.offset == whole
    # What lies before it in the same segment is served, up to it.
    found = log.read(base, 1 << 20, FAR)
    assert found is not None
    assert found.next_offset == whole
    assert read_some(log, whole - 1) == batches[whole // 3 - 1]
    with pytest.raises(DamagedLog):
        list(log.headers(base))
    with pytest.raises(DamagedLog):
        log.offset_at(1000 + 10 * whole // 3, FAR)
    assert log.truncate(whole) == whole
    assert read_all(log) == batches[: whole // 3]
    append(log, [make_batch(whole, epoch=3)])
    assert len(read_all(log)) == whole // 3 + 1


def read_some(log: Log, offset: int) -> bytes:
    found = log.read(offset, 1, FAR)
    assert found is not None
    return found.read()


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 4
    path.write_bytes(data)


def test_the_earliest_damage_of_a_segment_is_named_whichever_is_read_first(tmp_path: Path) -> None:
    log = opened(tmp_path)
    batches = fill(log, 12)
    log.close()
    size = len(batches[0])
    flip(next(tmp_path.glob("*.log")), 3 * size + 70)
    flip(next(tmp_path.glob("*.log")), 9 * size + 70)
    log = opened(tmp_path)
    with pytest.raises(DamagedLog) as caught:
        log.read(3 * 9, 1, FAR)
    assert caught.value.offset == 3 * 3


def test_a_flipped_epoch_is_noticed_although_no_crc_covers_it(tmp_path: Path) -> None:
    log = opened(tmp_path)
    batches = fill(log, 12)
    log.close()
    flip(next(tmp_path.glob("*.log")), 11 * len(batches[0]) + 15)
    log = opened(tmp_path)
    assert drain(log) == batches[:11]


def test_what_was_damaged_is_set_aside_and_only_the_newest_is_kept(tmp_path: Path) -> None:
    log = opened(tmp_path)
    batches = fill(log, 100)
    log.close()
    files = sorted(tmp_path.glob("*.log"))
    bases = [int(file.stem) for file in files]
    flip(files[1], 700)
    expected = files[1].read_bytes()[2 * len(batches[0]) :]
    log = opened(tmp_path)
    drain(log)
    kept = sorted((tmp_path / FOLDER).iterdir())
    assert len(kept) == DAMAGED_FILES_MAX
    assert kept[-1].read_bytes() == expected
    assert int(kept[-1].stem[9:]) == log.end
    assert [int(file.stem[9:]) for file in kept[:-1]] == [bases[4], bases[3], bases[2]]
    fill(log, 3)
    log.truncate(log.end - 3)
    log.close()
    assert sorted((tmp_path / FOLDER).iterdir()) == kept, "a normal truncation sets nothing aside"


@pytest.mark.parametrize("junk", [b"junk that is no batch", make_batch(7, 500), b"x" * 9000])
def test_a_torn_tail_is_cut_and_set_aside(tmp_path: Path, junk: bytes) -> None:
    batches, path = crashed_log(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + junk)
    log = opened(tmp_path)
    assert read_all(log) == batches
    assert path.read_bytes() == whole
    assert [file.read_bytes() for file in (tmp_path / FOLDER).iterdir()] == [junk]
    append(log, [make_batch(log.end)])
    log.close()
    assert len(read_all(opened(tmp_path))) == len(batches) + 1


def crashed_log(path: Path) -> tuple[list[bytes], Path]:
    """A log that ended without a close, and the path of its last segment."""
    log = opened(path)
    batches = fill(log, 30)
    log.sync()
    return batches, sorted(path.glob("*.log"))[-1]


class Power:
    """What a loss of power would leave: of each file as much as was synced, and the names whose directory was."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: dict[str, int] = {}
        self.directories: list[str] = []
        really_sync = os.fdatasync

        def sync_file(fd: int) -> None:
            really_sync(fd)
            self.sizes[os.readlink(f"/proc/self/fd/{fd}")] = os.fstat(fd).st_size

        def sync_names(path: str) -> None:
            self.directories.append(path)

        monkeypatch.setattr(os, "fdatasync", sync_file)
        for module in (log_recovery, log_commit):
            monkeypatch.setattr(module, "sync_directory", sync_names)


@pytest.mark.parametrize("torn", [b"", b"junk"])
def test_what_was_recovered_survives_a_loss_of_power_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: bytes
) -> None:
    """The process died before it had synced its last batches: they can be read, perhaps from the cache alone."""
    log = opened(tmp_path)
    batches = fill(log, 30)
    newest = sorted(tmp_path.glob("*.log"))
    whole = {str(path): path.stat().st_size for path in newest}
    with newest[-1].open("ab") as file:
        file.write(torn)
    power = Power(monkeypatch)
    again = opened(tmp_path)
    assert read_all(again) == batches
    assert again.synced == again.end
    assert {path: power.sizes.get(path) for path in whole} == whole, "whatever counts as synced is"
    assert str(tmp_path) in power.directories


def test_what_was_cut_off_stays_off_after_a_loss_of_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path)
    fill(log, 5)
    log.sync()
    power, path = Power(monkeypatch), tmp_path / f"{0:020d}.log"
    assert log.truncate(7) == 6
    assert power.sizes[str(path)] == path.stat().st_size


@pytest.mark.parametrize("written", [0, 3])
def test_a_log_that_was_made_just_before_a_crash_is_durable_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """The process died before its first sync: neither the segment's name nor the log's own need be on the disk."""
    fill(opened(tmp_path / "log"), written)
    power = Power(monkeypatch)
    again = opened(tmp_path / "log")
    fill(again, 1)
    again.sync()
    assert {str(tmp_path), str(tmp_path / "log")} <= set(power.directories)


def test_an_empty_segment_that_was_made_just_before_a_crash_is_durable_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)
    fill(log, 30)
    log.close()
    (tmp_path / f"{log.end:020d}.log").touch()
    power = Power(monkeypatch)
    again = opened(tmp_path)
    fill(again, 1)
    again.sync()
    assert str(tmp_path) in power.directories


def test_zeros_are_cut_without_a_word(tmp_path: Path) -> None:
    batches, path = crashed_log(tmp_path)
    with path.open("ab") as file:
        file.write(bytes(3000))
    assert read_all(opened(tmp_path)) == batches
    assert not (tmp_path / FOLDER).exists()


def test_a_segment_that_does_not_follow_is_set_aside(tmp_path: Path) -> None:
    """The machine kept a new segment, but not the end of the one before."""
    log = opened(tmp_path)
    batches = fill(log, 8)
    last = sorted(tmp_path.glob("*.log"))[-1]
    last.write_bytes(last.read_bytes()[:-1])
    stray = tmp_path / f"{log.end:020d}.log"
    stray.write_bytes(make_batch(log.end))
    again = opened(tmp_path)
    assert read_all(again) == batches[:-1]
    assert not stray.exists()
    assert len(list((tmp_path / FOLDER).iterdir())) == 2


def test_a_missing_segment_is_damage(tmp_path: Path) -> None:
    log = opened(tmp_path)
    batches = fill(log, 60)
    log.close()
    second, third = sorted(tmp_path.glob("*.log"))[1:3]
    second.unlink()
    log = opened(tmp_path)
    assert read_some(log, int(third.stem)) == batches[int(third.stem) // 3]
    with pytest.raises(DamagedLog) as caught:
        read_all(log)
    assert caught.value.offset == int(second.stem)
    assert drain(log) == batches[: int(second.stem) // 3]


def test_a_segment_that_goes_missing_while_the_log_is_open_is_damage(tmp_path: Path) -> None:
    log = opened(tmp_path)
    batches = fill(log, 60)
    log.close()
    log = opened(tmp_path)
    second = sorted(tmp_path.glob("*.log"))[1]
    second.unlink()
    assert drain(log) == batches[: int(second.stem) // 3]


def test_of_two_segments_that_claim_the_same_offsets_the_later_one_is_believed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    batches = fill(log, 60)
    log.close()
    first, second = sorted(tmp_path.glob("*.log"))[:2]
    with first.open("ab") as file:
        file.write(second.read_bytes()[: len(batches[0])])
    first.with_suffix(".index").unlink()
    assert read_all(opened(tmp_path)) == batches


def test_an_index_of_another_segment_is_not_believed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    batches = fill(log, 60)
    log.close()
    first, second = sorted(tmp_path.glob("*.index"))[:2]
    first.write_bytes(second.read_bytes())
    log = opened(tmp_path)
    assert read_all(log) == batches
    # The scan has put a good one in its place.
    log.close()
    assert first.read_bytes() != second.read_bytes()


@pytest.mark.parametrize("kept", [4, 9])
def test_a_short_segment_is_damage_and_is_not_written_to(tmp_path: Path, kept: int) -> None:
    log = opened(tmp_path)
    batches = fill(log, 10)
    log.close()
    first = next(tmp_path.glob("*.log"))
    size = sum(map(len, batches[:kept])) + 7
    first.write_bytes(first.read_bytes()[:size])
    log = opened(tmp_path)
    extra = make_batch(log.end)
    append(log, [extra])
    assert read_some(log, 30) == extra
    assert first.stat().st_size == size
    log.close()
    log = opened(tmp_path)
    assert log.end == 31
    assert drain(log) == batches[:kept]


def test_no_index_outlives_what_it_speaks_of(tmp_path: Path) -> None:
    """A crash right after a truncation, before anything was saved anew."""
    for offset in (0, 4, 20, 40, 100):
        place = tmp_path / str(offset)
        log = opened(place)
        fill(log, 60)
        log.close()
        log = opened(place)
        end = log.truncate(offset)
        before = read_all(log)
        others = [make_batch(end, 90, epoch=7)]
        append(log, others)
        log.sync()
        shutil.copytree(place, tmp_path / "copy")
        assert read_all(opened(tmp_path / "copy")) == before + others
        shutil.rmtree(tmp_path / "copy")


def test_a_start_that_was_lost_with_its_records_does_not_come_back(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 3)
    log.trim(5)
    next(tmp_path.glob("*.log")).write_bytes(b"")
    log = opened(tmp_path)
    assert (log.start, log.end) == (0, 0)
    batches = fill(log, 6)
    log.close()
    log = opened(tmp_path)
    assert log.start == 0
    assert read_all(log) == batches


def test_leftovers_are_cleared_away(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 3)
    log.close()
    orphan, half = tmp_path / f"{77:020d}.index", tmp_path / "x.side.tmp"
    orphan.write_bytes(b"")
    half.write_bytes(b"")
    (tmp_path / "notes.txt").write_text("a stranger's")
    log = opened(tmp_path)
    assert not orphan.exists()
    assert not half.exists()
    assert (tmp_path / "notes.txt").exists()


def test_only_what_no_index_knows_is_read_at_opening(quick: Path) -> None:
    """A log that was closed opens although its old segments cannot even be looked at."""
    log = opened(quick)
    batches = fill(log, 60)
    log.close()
    for file in sorted(quick.glob("*.log"))[:-1]:
        file.write_bytes(b"")
    log = opened(quick)
    assert (log.start, log.end) == (0, 180)
    assert read_some(log, 179) == batches[-1]
    assert drain(log) == []
