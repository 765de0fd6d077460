"""The device's store: steps become durable together, and survive whatever ends the process."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.core import merge_patch
from octoloom.core.device_effects import PendingEvent, Persist, Saved
from octoloom.core.errors import StoreError
from octoloom.storage import device_store
from octoloom.storage.device_store import DeviceStore, MemoryStore, open_store

WRITER = """
import sys
from octoloom.core.device_effects import PendingEvent, Persist
from octoloom.storage.device_store import DeviceStore

store = DeviceStore(sys.argv[1], "lobby", "ada")
saved = store.load()
n = saved.version if saved else 0
filler = "x" * 3000
while True:
    steps = []
    for _ in range(3):
        n += 1
        removed = (n - 3,) if n > 3 else ()
        event = PendingEvent(n, "e", str(n).encode(), 5)
        patch = b'{"n":%d,"m":{"k%d":"%s"}}' % (n, n % 40, filler.encode())
        steps.append(Persist(n + 1, n, 1, removed, (event,), patches=(patch,)))
    store.commit(steps)
    print(n, flush=True)
"""


def reopened(store: DeviceStore) -> DeviceStore:
    store.close()
    return DeviceStore(store.path, store.space, store.device)


def test_nothing_saved_is_none(tmp_path: Path) -> None:
    assert DeviceStore(tmp_path / "a.db", "lobby", "ada").load() is None


def test_events_queue_number_and_state_come_back(tmp_path: Path) -> None:
    store = DeviceStore(tmp_path / "a.db", "lobby", "ada")
    one, two, later = (
        PendingEvent(1, "a", b"1", 9),
        PendingEvent(2, "b", b'{"x":  1}', 9),
        PendingEvent(0, "c", b"3", 4),
    )
    store.commit([Persist(2, 0, 7, numbered=(one,), queued=(later,), state=b'{"n":0}')])
    store.commit([Persist(3, 1, 7, numbered=(two,), removed=(1,), patches=(b'{"n":1}',))])
    saved = reopened(store).load()
    assert saved == Saved(3, 1, 7, {"n": 1}, (PendingEvent(2, "b", b'{"x":  1}'),), (later,))


def test_a_step_removes_before_it_adds(tmp_path: Path) -> None:
    store = DeviceStore(tmp_path / "a.db", "lobby", "ada")
    store.commit([Persist(2, 0, 7, numbered=(PendingEvent(1, "mine", b"1"),))])
    store.commit([Persist(2, 0, 7, removed=(1,), numbered=(PendingEvent(1, "theirs", b"2"),))])
    saved = store.load()
    assert saved is not None
    assert saved.pending == (PendingEvent(1, "theirs", b"2"),)


def test_a_batch_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    store = DeviceStore(tmp_path / "a.db", "lobby", "ada")
    event = PendingEvent(1, "a", b"1")
    store.commit([Persist(2, 0, 7, numbered=(event,))])
    with pytest.raises(StoreError):
        store.commit([Persist(3, 1, 7, patches=(b'{"n":1}',)), Persist(2, 2, 7, numbered=(event,))])
    saved = store.load()
    assert saved is not None
    assert (saved.version, saved.state) == (0, {})


def test_a_small_change_does_not_write_the_whole_state(tmp_path: Path) -> None:
    store = DeviceStore(tmp_path / "a.db", "lobby", "ada")
    state = {f"k{n}": "x" * 1000 for n in range(1000)}
    store.commit([Persist(1, 1, 7, state=msgspec.json.encode(state))])
    wal = tmp_path / "a.db-wal"
    before = wal.stat().st_size
    store.commit([Persist(1, 2, 7, patches=(b'{"k1":1}',))])
    assert wal.stat().st_size - before < 100_000


json_text = st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 9) | st.text(max_size=40), max_size=3)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.booleans(), json_text), max_size=30))
def test_the_folded_state_equals_a_plain_fold(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[bool, dict[str, Any]]]
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(device_store, "PATCHES_BYTES_MIN", 50)
        store = DeviceStore(tmp_path_factory.mktemp("twin") / "a.db", "lobby", "ada")
        twin: Any = {}
        for version, (replaces, value) in enumerate(changes, 1):
            text = msgspec.json.encode(value)
            if replaces:
                twin = value
                store.commit([Persist(1, version, 7, state=text)])
            else:
                twin = merge_patch.apply(twin, msgspec.json.decode(text))
                store.commit([Persist(1, version, 7, patches=(text,))])
        saved = store.load()
        assert (saved.state if saved else {}) == twin
        store.close()


def test_patches_are_folded_once_they_outgrow_the_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_store, "PATCHES_BYTES_MIN", 100)
    store = DeviceStore(tmp_path / "a.db", "lobby", "ada")
    for version in range(1, 101):
        store.commit([Persist(1, version, 7, patches=(b'{"n":%d}' % version,))])
    store.close()
    with sqlite3.connect(tmp_path / "a.db") as db:
        assert db.execute("SELECT count(*) FROM patches").fetchone()[0] < 15


def test_a_store_belongs_to_one_device_of_one_space(tmp_path: Path) -> None:
    DeviceStore(tmp_path / "a.db", "lobby", "ada").close()
    for space, device in (("lobby", "bob"), ("attic", "ada")):
        with pytest.raises(StoreError, match="belongs to device 'ada' of space 'lobby'"):
            DeviceStore(tmp_path / "a.db", space, device)
    DeviceStore(tmp_path / "a.db", "lobby", "ada").close()


def test_a_store_belongs_to_one_opener_at_a_time(tmp_path: Path) -> None:
    store = DeviceStore(tmp_path / "a.db", "lobby", "ada")
    with pytest.raises(StoreError, match="in use"):
        DeviceStore(tmp_path / "a.db", "lobby", "ada")
    store.close()


def test_a_damaged_file_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"this is not a database, whatever its name says" * 100)
    with pytest.raises(StoreError, match="move it away"):
        DeviceStore(tmp_path / "a.db", "lobby", "ada")


def test_another_database_and_a_missing_folder_are_named(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE shopping (item TEXT)")
    with pytest.raises(StoreError, match="another path"):
        DeviceStore(tmp_path / "other.db", "lobby", "ada")
    with pytest.raises(StoreError, match="folder"):
        DeviceStore(tmp_path / "nowhere" / "a.db", "lobby", "ada")


def test_without_a_path_nothing_is_kept() -> None:
    store = open_store(None, "lobby", "ada")
    assert isinstance(store, MemoryStore)
    store.commit([Persist(2, 0, 7)])
    assert store.load() is None


def test_a_killed_process_leaves_what_belongs_together(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    reached = 0
    for commits in (1, 7, 30):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        for _ in range(commits):
            reached = int(writer.stdout.readline())
        writer.kill()
        writer.communicate()
        store = DeviceStore(path, "lobby", "ada")
        saved = store.load()
        store.close()
        assert saved is not None
        n = saved.version
        assert n >= reached, "what was committed is gone"
        assert n % 3 == 0, "a batch was torn"
        assert (saved.state["n"], saved.next_sequencer) == (n, n + 1)
        assert [event.sequencer for event in saved.pending] == [n - 2, n - 1, n]


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    store = DeviceStore(tmp_path / "a.db", "lobby", "ada")
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,), "FULL: a loss of power costs no commit"
    store.close()
