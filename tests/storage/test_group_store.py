"""The register's tables of groups: what was saved comes back whole or not at all, and damage is named."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from octoloom.core.errors import StoreError
from octoloom.core.group_messages import GroupView, MemberAddress
from octoloom.core.group_saved import GroupsSaved, Persist, SavedGroup
from octoloom.core.log_saved import Counters
from octoloom.core.log_saved import Persist as LogPersist
from octoloom.core.register_messages import Directory
from octoloom.storage.group_store import GroupTables
from octoloom.storage.register_store import RegisterStore


def saved(group: str, epoch: int, *members: str) -> SavedGroup:
    addresses = [MemberAddress(member, "127.0.0.1:1", "udp", 7) for member in members]
    return SavedGroup(GroupView(group, epoch, "total", addresses), {"bö#b": 3})


def loaded(path: Path) -> GroupsSaved | None:
    store = RegisterStore(path)
    try:
        return store.load_groups()
    finally:
        store.close()


def test_what_was_saved_comes_back_and_what_was_deleted_does_not(tmp_path: Path) -> None:
    path = tmp_path / "register.db"
    store = RegisterStore(path)
    assert store.load_groups() is None
    store.save(None, [Persist(1, {"room": saved("room", 1, "ada#1")}), Persist(2, {"hall": saved("hall", 2, "ada#1")})])
    store.save(None, [Persist(4, {"room": saved("room", 3, "ada#1", "bob#2"), "hall": None})])
    store.close()
    assert loaded(path) == GroupsSaved(4, {"room": saved("room", 3, "ada#1", "bob#2")})


def test_the_epochs_outlive_the_last_group(tmp_path: Path) -> None:
    path = tmp_path / "register.db"
    store = RegisterStore(path)
    store.save(None, [Persist(1, {"room": saved("room", 1, "ada#1")})])
    store.save(None, [Persist(2, {"room": None})])
    store.close()
    assert loaded(path) == GroupsSaved(2, {})


def test_random_steps_are_what_they_are_said_to_be(tmp_path: Path) -> None:
    dice = random.Random(4)
    store, twin = RegisterStore(tmp_path / "register.db"), GroupsSaved()
    for _ in range(50):
        steps = []
        for _ in range(dice.randrange(1, 4)):
            name, epoch = dice.choice("abcdef"), twin.epoch + 1
            steps.append(Persist(epoch, {name: saved(name, epoch, "ada#1") if dice.random() < 0.6 else None}))
            twin = twin.after(steps[-1])
        store.save(None, steps)
        assert store.load_groups() == twin
    store.close()


def test_groups_topics_and_chains_are_saved_together_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "register.db"
    store = RegisterStore(path)
    step = Persist(1, {"room": saved("room", 1, "ada#1")})
    store.save(Directory(1, {}, {}), [LogPersist(Counters(revision=1)), step])
    store._database.execute("DROP TABLE group_counters")
    with pytest.raises(StoreError):
        store.save(Directory(2, {}, {}), [LogPersist(Counters(revision=2)), step])
    assert store.load() == Directory(1, {}, {})
    log = store.load_log()
    assert log is not None
    assert log.counters.revision == 1
    store.close()


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_from_before_there_were_groups_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    path = tmp_path / "register.db"
    store = RegisterStore(path)
    store.save(Directory(3, {}, {}), [LogPersist(Counters(revision=9))] if version == 2 else [])
    store.close()
    with sqlite3.connect(path) as database:
        for table in GroupTables.TABLES:
            database.execute(f"DROP TABLE {table}")
        database.execute(f"PRAGMA user_version = {version}")
    database.close()
    store = RegisterStore(path)
    assert store.load() == Directory(3, {}, {})
    assert (store.load_log() is not None) == (version == 2)
    assert store.load_groups() is None
    store.save(None, [Persist(1, {"room": saved("room", 1, "ada#1")})])
    store.close()
    assert loaded(path) == GroupsSaved(1, {"room": saved("room", 1, "ada#1")})


DAMAGE = [
    "UPDATE group_views SET body = replace(body, 'ada#1', 'eve#1')",
    "UPDATE group_views SET crc = crc + 1",
    "UPDATE group_views SET name = 'other' WHERE name = 'room'",
    "UPDATE group_views SET body = 'text'",
    "DELETE FROM group_views WHERE name = 'room'",
    "DELETE FROM group_views",
    "DELETE FROM group_counters",
    "DROP TABLE group_views",
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_says_what_to_do(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "register.db"
    store = RegisterStore(path)
    store.save(None, [Persist(2, {name: saved(name, epoch, "ada#1") for epoch, name in ((1, "room"), (2, "hall"))})])
    store.close()
    with sqlite3.connect(path) as database:
        database.executescript(damage)
    database.close()
    with pytest.raises(StoreError, match=r"is damaged .*put a backup in its place"):
        loaded(path)


def test_an_old_counter_beside_newer_groups_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "register.db"
    store = RegisterStore(path)
    store.save(None, [Persist(1, {"room": saved("room", 5, "ada#1")})])
    store.close()
    with pytest.raises(StoreError, match="older than the groups"):
        loaded(path)
