"""The note that a cluster leaves, and its lock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from octoloom.core.errors import UsageError
from octoloom.runtime import cluster_file
from octoloom.runtime.cluster_file import ClusterNote, ProcessNote
from octoloom.runtime.processes import created_at

ME = os.getpid()
NOTE = ClusterNote(ME, created_at(ME), "127.0.0.1:7070", "a:app", 3, 1, 1, [ProcessNote("link1", "link", ME, 1.0)])


def test_a_note_comes_back_as_it_was_written(tmp_path: Path) -> None:
    cluster_file.write(tmp_path, NOTE)
    assert cluster_file.read(tmp_path) == NOTE
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"]


def test_the_note_of_a_dead_cluster_is_none(tmp_path: Path) -> None:
    cluster_file.write(tmp_path, replace(NOTE, created=NOTE.created - 50))
    with pytest.raises(UsageError, match="no cluster runs in"):
        cluster_file.read(tmp_path)


def test_a_process_with_our_number_but_another_start_is_not_ours() -> None:
    assert not NOTE.processes[0].running
    assert ProcessNote("link1", "link", ME, created_at(ME)).running
    assert not ProcessNote("link1", "link", 0, 0.0).running


def test_a_directory_has_one_cluster_at_a_time(tmp_path: Path) -> None:
    first = cluster_file.lock(tmp_path / "new")
    with pytest.raises(UsageError, match="a cluster runs in"):
        cluster_file.lock(tmp_path / "new")
    first.close()
    cluster_file.lock(tmp_path / "new").close()


def test_a_path_that_cannot_be_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="name another directory with --data"):
        cluster_file.lock(tmp_path / "file")
