"""The manifest: a whole one, always, and ranges that are cut without overlap or gap."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from octoloom.core.errors import UsageError
from octoloom.spark import archive_manifest
from octoloom.spark.archive_manifest import (
    MANIFEST,
    ArchiveBusy,
    ArchiveDamaged,
    ArchivedFile,
    Manifest,
    archived_topics,
    clear_remains,
    load_manifest,
    save_manifest,
    writing,
)


def a_file(first: int, end: int, partition: int = 0) -> ArchivedFile:
    return ArchivedFile(partition, first, end, end - first, 0, 0, 0, False, 100, "crc32c:00000000")


def test_pieces_are_the_range_and_files_have_what_they_say() -> None:
    dice = random.Random(1)
    for _ in range(300):
        edges = sorted(dice.sample(range(60), 8))
        files = [a_file(*edges[at : at + 2]) for at in range(0, 8, dice.choice((1, 2))) if at < 7]
        manifest = Manifest("moves", 1).with_files([*files, a_file(0, 60, 1), a_file(5, 9, 11)])
        assert manifest.fault() is None
        start, end = sorted(dice.choices(range(70), k=2))
        pieces = manifest.pieces(0, start, end)
        # The twin asks each offset where it is.
        found = [(offset, piece.file) for piece in pieces for offset in range(piece.start, piece.end)]
        twin = [
            (offset, next((one for one in files if one.first <= offset < one.end), None))
            for offset in range(start, end)
        ]
        assert found == twin
        assert all(piece.start < piece.end for piece in pieces)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    manifest = Manifest("moves", 7).with_files([a_file(5, 9, 2), a_file(0, 5, 2), a_file(3, 4)])
    assert load_manifest(str(tmp_path), "moves") is None
    with writing(str(tmp_path), "moves"):
        save_manifest(str(tmp_path), manifest)
    assert load_manifest(str(tmp_path), "moves") == manifest
    assert manifest.partitions() == [0, 2]
    assert manifest.bounds(2) == (0, 9)
    assert manifest.bounds(1) is None
    assert archived_topics(str(tmp_path)) == ["moves"]
    assert [path.name for path in (tmp_path / "moves").iterdir() if "tmp" in path.name] == []


def test_any_change_of_a_saved_manifest_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "moves").mkdir()
    save_manifest(str(tmp_path), Manifest("moves", 7).with_files([a_file(0, 5)]))
    path = tmp_path / "moves" / MANIFEST
    whole = path.read_bytes()
    for wrong in (whole[: len(whole) // 2], b"", whole.replace(b'"end": 5', b'"end": 6'), b"{}", whole + b"x"):
        path.write_bytes(wrong)
        with pytest.raises(ArchiveDamaged, match="bring it back from a copy"):
            load_manifest(str(tmp_path), "moves")
    path.write_bytes(whole)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / MANIFEST).write_bytes(whole)
    with pytest.raises(ArchiveDamaged, match="it is of moves"):
        load_manifest(str(tmp_path), "other")
    path.write_bytes(whole.replace(b'"format": 1', b'"format": 2'))
    with pytest.raises(UsageError, match="format 2"):
        load_manifest(str(tmp_path), "moves")


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ([a_file(0, 5), a_file(4, 9)], "overlap"),
        ([a_file(5, 5)], "cannot be"),
        ([a_file(0, 5, 1), a_file(0, 5, 0)], "out of order"),
        ([a_file(0, 5), a_file(5, 9)], None),
    ],
)
def test_files_that_cannot_be_together(files: list[ArchivedFile], fault: str | None) -> None:
    found = Manifest("moves", 1, files).fault()
    assert found is None if fault is None else found is not None and fault in found


def test_one_writes_and_the_other_is_told(tmp_path: Path) -> None:
    with writing(str(tmp_path), "moves"):
        with writing(str(tmp_path), "other"):
            pass
        with pytest.raises(ArchiveBusy, match="another process archives moves"), writing(str(tmp_path), "moves"):
            pass
    with writing(str(tmp_path), "moves"):
        pass


def test_only_our_own_remains_are_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "moves"
    folder.mkdir()
    kept = [a_file(0, 5).name, "_manifest.json", "_lock", "notes.txt", "part-0001.parquet"]
    gone = [a_file(5, 9).name, f".{a_file(5, 0).name}.tmp", "_manifest.json.tmp"]
    for name in kept + gone:
        (folder / name).write_text("x")
    clear_remains(str(tmp_path), Manifest("moves", 1, [a_file(0, 5)]))
    assert sorted(path.name for path in folder.iterdir()) == sorted(kept)


def test_names_and_numbers_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="is no topic"):
        load_manifest(str(tmp_path), "../etc")
    with pytest.raises(UsageError, match="there is no archive in"):
        archived_topics(str(tmp_path / "nowhere"))
    monkeypatch.setattr(archive_manifest, "FILES_MAX", 1)
    with pytest.raises(UsageError, match="write larger files"):
        Manifest("moves", 1).with_files([a_file(0, 5), a_file(5, 6)])
