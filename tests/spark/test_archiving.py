"""The archiver: it goes on where it stopped, however that ended, and never says more than is there.

A crash is every step at which a process may end: each write, sync, rename and removal is one, and after it nothing
more is done.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octoloom.core.errors import StoreError, UsageError
from octoloom.runtime.log_consumer import Timestamp
from octoloom.runtime.log_errors import UnknownTopic
from octoloom.spark import archive_files, archiving
from octoloom.spark.archive import Archive, check_archive
from octoloom.spark.archive_manifest import ArchiveBusy, ArchiveDamaged, load_manifest
from octoloom.spark.archiving import ArchiveReport, RecordsLost, Until, archive_topic
from octoloom.spark.fetching import Reader
from octoloom.spark.ranges import Range
from octoloom.spark.record_batches import ALL
from tests.spark.archived_logs import TOPIC, Disk, expected, ms_of, rows
from tests.spark.conftest import MakeTopic
from tests.spark.kafka_rows import read, rows_of, write


class Crash(BaseException):
    """The process has ended."""


def archived(disk: Disk, partition: int = 0) -> list[tuple[int, int]]:
    manifest = load_manifest(disk.archive, TOPIC)
    return [(file.first, file.end) for file in manifest.of(partition)] if manifest is not None else []


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.write(25)
    disk.write(8, partition=1, headers=True)
    with disk.archiver() as archiver:
        report = archiver.run()
    assert (report.files, report.rows) == (4, 33)
    assert archived(disk) == [(0, 10), (10, 20), (20, 25)]
    assert [(part.first, part.end) for part in report.partitions] == [(0, 25), (0, 8)]
    disk.write(10)
    with disk.archiver() as archiver:
        assert archiver.run().rows == 10
        assert archiver.run().files == 0
        disk.write(1)
        assert archiver.run().rows == 1
    assert archived(disk)[2:] == [(20, 25), (25, 35), (35, 36)]
    assert archived(disk, 1) == [(0, 8)]
    alone = Archive(disk.archive)
    assert rows(alone, 0, 36) == expected(0, 36)
    assert rows(alone, 0, 8, 1) == expected(0, 8, 1, headers=True)
    assert check_archive(disk.archive, TOPIC) == []


@pytest.mark.parametrize(
    ("until", "end"),
    [("end", 25), ("sealed", 20), (13, 13), (99, 25), (Timestamp(ms_of(17)), 17), (Timestamp(2**50), 25)],
)
def test_how_far_it_goes(tmp_path: Path, until: Until, end: int) -> None:
    disk = Disk(tmp_path)
    disk.write(25)
    with disk.archiver() as archiver:
        assert archiver.run(until).partitions[0].end == end
    assert archived(disk)[-1][1] == end
    assert rows(Archive(disk.archive), 0, end) == expected(0, end)


def test_files_end_by_their_size_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "FILE_BYTES", 5_000)
    monkeypatch.setattr(archive_files, "GROUP_BYTES", 500)
    monkeypatch.setattr(archive_files, "PART_ROWS", 3)
    monkeypatch.setattr("octoloom.spark.record_batches.PIECE_ROWS", 20)
    disk = Disk(tmp_path)
    disk.write(500, headers=True)
    with disk.archiver(file_rows=1000) as archiver:
        assert archiver.run().files > 2
    assert rows(Archive(disk.archive), 0, 500) == expected(0, 500, headers=True)
    assert rows(Archive(disk.archive), 123, 321) == expected(123, 321, headers=True)


def test_what_was_lost_before_is_said_and_skipped_if_one_wants(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.write(25)
    with disk.archiver() as archiver:
        archiver.run()
    disk.write(25)
    disk.write(5, partition=1)
    disk.trim(31)
    with disk.archiver() as archiver, pytest.raises(RecordsLost, match="the offsets 25 to 30 of moves-0") as lost:
        archiver.run()
    assert "--allow-gaps" in str(lost.value)
    assert archived(disk, 1) == []
    with disk.archiver(allow_gaps=True) as archiver:
        report = archiver.run()
    assert [(part.first, part.end, part.lost) for part in report.partitions] == [(31, 50, 6), (0, 5, 0)]
    assert archived(disk) == [(0, 10), (10, 20), (20, 25), (31, 41), (41, 50)]


def test_a_second_archiver_is_told(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.write(5)
    with disk.archiver() as archiver:
        with pytest.raises(ArchiveBusy, match="let it go on, or end it"), disk.archiver():
            pass
        assert archiver.run().rows == 5


def test_bad_calls_change_nothing(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.write(5)
    with (
        pytest.raises(UsageError, match="there is no topic other"),
        archiving.Archiver(disk.log(), "other", disk.archive),
    ):
        pass
    with pytest.raises(UsageError, match="a file has 1 to"), disk.archiver(file_rows=0):
        pass
    with (
        pytest.raises(UsageError, match="choose one of"),
        archiving.Archiver(disk.log(), TOPIC, disk.archive, 1, "rar"),
    ):
        pass
    assert not os.path.exists(disk.archive)


def test_another_topic_of_the_same_name_is_refused(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.write(5)
    with disk.archiver() as archiver:
        archiver.run()
    again = Disk(tmp_path, number=2)
    again.write(9)
    with pytest.raises(UsageError, match="another topic of that name"), again.archiver():
        pass
    with pytest.raises(UsageError, match="another topic of that name"):
        Archive(disk.archive, again.log()).bounds([(TOPIC, 0)])
    assert archived(disk) == [(0, 5)]


def test_without_a_manifest_nothing_is_touched(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.write(25)
    with disk.archiver() as archiver:
        archiver.run()
    folder = Path(disk.archive) / TOPIC
    names = sorted(path.name for path in folder.glob("*.parquet"))
    manifest = (folder / "_manifest.json").read_bytes()
    for wrong in (manifest[:-20], None):
        (folder / "_manifest.json").unlink()
        if wrong is not None:
            (folder / "_manifest.json").write_bytes(wrong)
        with pytest.raises(ArchiveDamaged, match="bring it back from a copy"), disk.archiver():
            pass
        assert sorted(path.name for path in folder.glob("*.parquet")) == names


# Crashes.


class Steps:
    """Counts the steps that change files, and ends the process at one of them: before it, or half-way through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, crash_at: int | None = None) -> None:
        self.done: list[str] = []
        self.crash_at = crash_at
        for name in ("rename", "fsync", "unlink", "ftruncate"):
            monkeypatch.setattr(os, name, self._step(name, getattr(os, name)))
        monkeypatch.setattr(
            os, "pwritev", self._step("pwritev", os.pwritev, lambda fd, parts, at: (fd, [parts[0][:9]], at))
        )
        write = archive_files._Checked.write
        monkeypatch.setattr(
            archive_files._Checked, "write", self._step("write", write, lambda own, data: (own, data[:9]))
        )

    def _step(self, name: str, work: Callable[..., Any], half: Callable[..., Any] | None = None) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            if self.crash_at is not None and len(self.done) >= self.crash_at:
                if half is not None and len(self.done) == self.crash_at:
                    work(*half(*arguments))
                self.done.append(name)
                raise Crash
            self.done.append(f"{name} {arguments[0]}" if name == "rename" else name)
            return work(*arguments)

        return step


def test_a_crash_at_any_step_leaves_a_whole_archive(tmp_path: Path) -> None:
    begun = Disk(tmp_path / "begun")
    begun.write(12)
    with begun.archiver(file_rows=5) as archiver:
        archiver.run()
    begun.write(13, headers=True)

    def prepared(name: str) -> Disk:
        shutil.copytree(tmp_path / "begun", tmp_path / name)
        return Disk(tmp_path / name)

    def work(disk: Disk, file_rows: int = 5) -> None:
        with disk.archiver(file_rows) as archiver:
            archiver.run()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archiving, "COMMIT_S", -1.0)
        disk = prepared("whole")
        steps = Steps(patch)
        work(disk)
    # Parquet's writer writes in many small pieces, of which some are as good as all.
    moments = [at for at, step in enumerate(steps.done) if step != "write" or at % 10 == 0]
    assert len(moments) > 20
    for crash_at in moments:
        disk = prepared(str(crash_at))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(archiving, "COMMIT_S", -1.0)
            Steps(patch, crash_at)
            with pytest.raises(Crash):
                work(disk)
        ranges = archived(disk)
        assert check_archive(disk.archive, TOPIC) == [], crash_at
        end = ranges[-1][1]
        assert end >= 12
        assert len(rows(Archive(disk.archive), 0, end)) == end
        assert len(rows(Archive(disk.archive, disk.log()), 0, 25)) == 25
        # Files of another size do not overwrite what was left behind.
        work(disk, 4)
        assert rows(Archive(disk.archive), 0, 25) == expected(0, 12) + expected(12, 25, headers=True)
        names = {path.name for path in (Path(disk.archive) / TOPIC).iterdir()}
        assert names == {"_lock", "_manifest.json"} | {f"00000-{a:020d}-{b:020d}.parquet" for a, b in archived(disk)}


def test_files_are_on_disk_before_the_manifest_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path)
    disk.write(5)
    steps = Steps(monkeypatch)
    with disk.archiver() as archiver:
        archiver.run()
    told = [step.rpartition("/")[2] if step.startswith("rename") else step for step in steps.done]
    told = [step for step in told if step in ("fsync",) or step.endswith(".tmp")]
    # The first manifest, then data: each is synced before it is renamed, and its folder after that.
    named = ".00000-00000000000000000000-00000000000000000000.parquet.tmp"
    assert told == [
        "fsync",
        "_manifest.json.tmp",
        "fsync",
        "fsync",
        named,
        "fsync",
        "fsync",
        "_manifest.json.tmp",
        "fsync",
    ]


def test_a_full_disk_is_an_error_with_a_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path)
    disk.write(25)

    def full(_file: object, _data: object) -> int:
        raise OSError(28, "No space left on device")

    with disk.archiver() as archiver:
        archiver.run(10)
        monkeypatch.setattr(archive_files._Checked, "write", full)
        with pytest.raises(StoreError, match="check its rights and the free space"):
            archiver.run()
        monkeypatch.undo()
        assert archiver.run().rows == 15
    assert rows(Archive(disk.archive), 0, 25) == expected(0, 25)


PROGRAM = """
import sys
from octoloom.spark import archiving
archiving.COMMIT_S = 0.0
print("begun", flush=True)
archiving.archive_topic(sys.argv[1], sys.argv[2], sys.argv[3], file_rows=100)
"""


def test_kill_9_at_random_moments(bootstrap: str, topic: MakeTopic, tmp_path: Path) -> None:
    name, dice, killed = topic(partitions=2), random.Random(7), 0
    write(bootstrap, name, 2, 800)
    expected_rows = read(bootstrap, name, 2, 4000)
    for _ in range(3):
        command = [sys.executable, "-c", PROGRAM, bootstrap, name, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            time.sleep(dice.uniform(0.05, 0.4))
            killed += process.poll() is None
            process.send_signal(signal.SIGKILL)
        if load_manifest(str(tmp_path), name) is not None:
            assert check_archive(str(tmp_path), name) == []
    assert killed
    archive_topic(bootstrap, name, tmp_path, file_rows=100)
    with Reader(bootstrap) as log:
        archive = Archive(str(tmp_path), log)
        found = [batch for number in (0, 1) for batch in archive_rows(archive, name, number, 4000)]
    assert rows_of(found) == expected_rows


def archive_rows(archive: Archive, name: str, partition: int, end: int) -> list[Any]:
    return list(archive.rows(Range(name, partition, 0, end), ALL))


def test_a_missing_topic_leaves_no_folder_and_progress_is_told(
    bootstrap: str, topic: MakeTopic, tmp_path: Path
) -> None:
    with pytest.raises(UnknownTopic, match="does not exist"):
        archive_topic(bootstrap, "nowhere", tmp_path)
    assert list(tmp_path.iterdir()) == []
    name, told = topic(), []
    write(bootstrap, name, 1, 10, ["none"])

    def note(report: ArchiveReport) -> None:
        told.append((report.rows, report.files, report.partitions[0].until))

    report = archive_topic(bootstrap, name, tmp_path, file_rows=6, on_progress=note)
    assert told[0] == (6, 0, 10)
    assert told[-1] == (10, 2, 10)
    assert report.bytes == sum(path.stat().st_size for path in (tmp_path / name).glob("*.parquet"))
