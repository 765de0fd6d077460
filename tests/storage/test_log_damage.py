"""Where damaged bytes go: a folder of a few files, the newest ones."""

from __future__ import annotations

from pathlib import Path

from octoloom.core.errors import StoreError
from octoloom.storage.log_damage import DAMAGED_FILES_MAX, FOLDER, DamagedLog, set_bytes_aside, set_file_aside
from octoloom.storage.log_files import OpenFile


def kept(path: Path) -> list[tuple[str, bytes]]:
    return [(file.name, file.read_bytes()) for file in sorted((path / FOLDER).iterdir())]


def test_the_newest_files_are_kept(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / "x").write_bytes(b"%d" % number)
        set_file_aside(str(tmp_path), str(tmp_path / "x"), number)
        assert not (tmp_path / "x").exists()
    expected = [(f"{n + 1:08d}-{n:020d}.bytes", b"%d" % n) for n in range(10 - DAMAGED_FILES_MAX, 10)]
    assert kept(tmp_path) == expected


def test_a_part_of_a_file_is_copied(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(3 << 20) + b"tail")
    set_bytes_aside(str(tmp_path), OpenFile(str(tmp_path / "x")), 100, 7)
    [(_, data)] = kept(tmp_path)
    assert data == bytes((3 << 20) - 100) + b"tail"
    assert (tmp_path / "x").stat().st_size == (3 << 20) + 4


def test_nothing_is_kept_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"head" + bytes(3 << 20))
    (tmp_path / "empty").write_bytes(b"")
    set_bytes_aside(str(tmp_path), OpenFile(str(tmp_path / "x")), 4, 7)
    set_file_aside(str(tmp_path), str(tmp_path / "empty"), 7)
    set_file_aside(str(tmp_path), str(tmp_path / "missing"), 7)
    assert not (tmp_path / FOLDER).exists()
    assert not (tmp_path / "empty").exists()


def test_a_damaged_log_says_up_to_where_it_is_whole() -> None:
    error = DamagedLog("moves-0", 17)
    assert isinstance(error, StoreError)
    assert (error.path, error.offset) == ("moves-0", 17)
    assert "17" in str(error)
