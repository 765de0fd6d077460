"""Small checked files: the old one, the new one, or none, and never a mixture."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from octoloom.storage.log_files import OpenFile, append_whole, load_checked, remove, save_checked


@pytest.mark.parametrize("sync", [True, False])
def test_what_is_saved_comes_back_and_leaves_nothing_beside_it(tmp_path: Path, sync: bool) -> None:
    path = str(tmp_path / "x")
    assert load_checked(path) is None
    for data in (b"one", b"", bytes(100_000)):
        save_checked(path, data, sync)
        assert load_checked(path) == data
    assert os.listdir(tmp_path) == ["x"]


def test_any_flip_and_any_cut_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    save_checked(str(path), b"some data that matters", sync=False)
    whole = path.read_bytes()
    for position in range(len(whole)):
        for harmed in (whole[:position], whole[:position] + bytes([whole[position] ^ 16]) + whole[position + 1 :]):
            path.write_bytes(harmed)
            assert load_checked(str(path)) is None
    path.write_bytes(whole + b"\0")
    assert load_checked(str(path)) is None


def test_a_file_stays_open_as_long_as_somebody_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"still here")
    file = OpenFile(str(path))
    also, fd = file, file.fd
    path.unlink()
    del file
    assert also.read(100, 6) == b"here"
    assert also.size() == 10
    del also
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    with pytest.raises(FileNotFoundError):
        OpenFile(str(path))
    remove(str(path))


def test_appending_writes_at_the_end_that_it_is_told(tmp_path: Path) -> None:
    file = OpenFile(str(tmp_path / "x"), os.O_RDWR | os.O_CREAT)
    append_whole(file, [b"ab", memoryview(b"cd")], 0, 4)
    append_whole(file, [b"ef"], 4, 2)
    assert file.read(10, 0) == b"abcdef"
