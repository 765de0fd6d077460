"""A topic as a table: which files and which offsets it is made of. That Spark reads them is shown with the archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from octoloom.core.errors import UsageError
from octoloom.spark.archive_table import _plan
from octoloom.spark.fetching import OffsetsGone
from tests.spark.archived_logs import TOPIC, Disk


def offsets(files: list[str]) -> list[tuple[int, int, int]]:
    parts = [Path(file).stem.split("-") for file in files]
    return [(int(partition), int(first), int(end)) for partition, first, end in parts]


def test_a_table_is_the_files_of_the_manifest_and_says_what_is_missing(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.write(15)
    disk.write(4, partition=1)
    with disk.archiver() as archiver:
        archiver.run()
    files, rest = _plan(TOPIC, disk.archive, "", True)
    assert offsets(files) == [(0, 0, 10), (0, 10, 15), (1, 0, 4)]
    assert all(Path(file).exists() for file in files)
    assert rest == {}
    disk.write(10)
    disk.trim(18)
    with disk.archiver(allow_gaps=True) as archiver:
        archiver.run()
    with pytest.raises(OffsetsGone) as gone:
        _plan(TOPIC, disk.archive, "", True)
    assert (gone.value.wanted.start, gone.value.wanted.end, gone.value.first) == (15, 18, 18)
    files, rest = _plan(TOPIC, disk.archive, "", False)
    assert offsets(files) == [(0, 0, 10), (0, 10, 15), (0, 18, 25), (1, 0, 4)]
    with pytest.raises(UsageError, match="no archive of other"):
        _plan("other", disk.archive, "", True)
