"""The register's store: what was saved comes back, and a file that cannot be trusted is refused with the next step."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from octoloom.core.errors import StoreError
from octoloom.core.register_messages import Directory, LinkAddress, View
from octoloom.storage.register_store import RegisterStore


def directory(revision: int) -> Directory:
    address = LinkAddress("a#1", "127.0.0.1:1", "ws://127.0.0.1:2", 42, "game.py:app")
    view = View("c0", revision, 1, ["a#1"], ["a#1"], "b#1")
    return Directory(revision, {"a#1": address}, {"c0": view})


def test_a_new_store_is_empty_and_the_last_save_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "register.db"
    store = RegisterStore(path)
    assert store.load() is None
    for revision in (1, 2, 3):
        store.save(directory(revision))
    assert store.load() == directory(3)
    store.close()
    again = RegisterStore(path)
    assert again.load() == directory(3)
    again.close()


def test_what_was_saved_survives_without_a_close(tmp_path: Path) -> None:
    """The files as another process would find them after this one was killed."""
    store = RegisterStore(tmp_path / "register.db")
    store.save(directory(7))
    for name in ("register.db", "register.db-wal"):
        (tmp_path / name.replace("register", "copy")).write_bytes((tmp_path / name).read_bytes())
    survivor = RegisterStore(tmp_path / "copy.db")
    assert survivor.load() == directory(7)
    survivor.close()
    store.close()


def test_two_registers_cannot_share_a_store(tmp_path: Path) -> None:
    store = RegisterStore(tmp_path / "register.db")
    with pytest.raises(StoreError, match="another register uses"):
        RegisterStore(tmp_path / "register.db")
    store.close()


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE notes (text)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="name another file"):
        RegisterStore(path)
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    RegisterStore(tmp_path / "register.db").close()
    with sqlite3.connect(tmp_path / "register.db") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="version 99"):
        RegisterStore(tmp_path / "register.db")


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to look like one" * 100, b"SQLite format 3\0junk"]
)
def test_a_damaged_file_says_what_to_do(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "register.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="put a backup in its place"):
        RegisterStore(path)


@pytest.mark.parametrize("change", ["body = x'7b7d'", "body = 'text'", "crc = crc + 1"])
def test_a_damaged_row_says_what_to_do(tmp_path: Path, change: str) -> None:
    store = RegisterStore(tmp_path / "register.db")
    store.save(directory(1))
    store.close()
    with sqlite3.connect(tmp_path / "register.db") as database:
        database.execute(f"UPDATE directory SET {change}")
    database.close()
    store = RegisterStore(tmp_path / "register.db")
    with pytest.raises(StoreError, match="is damaged"):
        store.load()
    store.close()


def test_a_path_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is the path writable"):
        RegisterStore(tmp_path / "file" / "register.db")


def test_a_save_waits_for_the_disk(tmp_path: Path) -> None:
    store = RegisterStore(tmp_path / "register.db")
    assert store._database.execute("PRAGMA synchronous").fetchone() == (2,), "FULL: a loss of power costs no save"
    store.close()
