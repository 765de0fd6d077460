"""What a device keeps on disk: events, next number and state, committed together in one SQLite transaction.

The state is stored as a base text and the patches since. A small change then writes a small row, not the whole state;
once the patches outgrow the base, they are folded into a new one, which costs what was written since the last time.

Invariants
1. What `load` answers is what one prefix of the committed steps makes: never a part of a step.
2. After `commit` the steps survive the end of the process and of the machine (`synchronous=FULL`).
3. A file belongs to one device of one space, and to one process at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from octoloom.core import merge_patch
from octoloom.core.device_effects import PendingEvent, Persist, Saved
from octoloom.core.errors import StoreError

FORMAT = 1
PATCHES_BYTES_MIN = 64 * 1024
"""Below this many bytes of patches a new base is not worth writing, however small the old one is."""

SCHEMA = """
CREATE TABLE owner (format INTEGER NOT NULL, space TEXT NOT NULL, device TEXT NOT NULL);
CREATE TABLE place (id INTEGER PRIMARY KEY CHECK (id = 1),
    next_sequencer INTEGER NOT NULL, version INTEGER NOT NULL, generation INTEGER NOT NULL);
CREATE TABLE events (sequencer INTEGER PRIMARY KEY, name TEXT NOT NULL, payload BLOB NOT NULL);
CREATE TABLE queue (ticket INTEGER PRIMARY KEY, name TEXT NOT NULL, payload BLOB NOT NULL);
CREATE TABLE base (id INTEGER PRIMARY KEY CHECK (id = 1), text BLOB NOT NULL);
CREATE TABLE patches (number INTEGER PRIMARY KEY, text BLOB NOT NULL);
"""


class Store(Protocol):
    """Where a device keeps itself. `blocking` says that `commit` waits for a disk."""

    blocking: bool

    def load(self) -> Saved | None: ...
    def commit(self, steps: Sequence[Persist]) -> None: ...
    def close(self) -> None: ...


class MemoryStore:
    """Keeps nothing: the device starts anew each time, and the chain tells it where it was."""

    blocking = False

    def load(self) -> Saved | None:
        return None

    def commit(self, steps: Sequence[Persist]) -> None:
        """There is nothing to make durable."""

    def close(self) -> None:
        """There is nothing to close."""


class DeviceStore:
    """One SQLite file for one device of one space. Calls may come from any thread, one at a time."""

    blocking = True

    def __init__(self, path: str | Path, space: str, device: str) -> None:
        self.path, self.space, self.device = str(path), space, device
        self._base_bytes = self._patches_bytes = 0
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=1)
        except sqlite3.Error as error:
            raise StoreError(
                f"cannot open {self.path}: {error}; check that the folder exists and is writable"
            ) from None
        try:
            self._open()
        except sqlite3.Error as error:
            self._db.close()
            raise self._fault(error) from None
        except StoreError:
            self._db.close()
            raise

    def load(self) -> Saved | None:
        """What was saved last, or None if nothing was."""
        try:
            place = self._db.execute("SELECT next_sequencer, version, generation FROM place").fetchone()
            if place is None:
                return None
            events = self._db.execute("SELECT sequencer, name, payload FROM events ORDER BY sequencer")
            pending = tuple(PendingEvent(sequencer, name, payload) for sequencer, name, payload in events)
            actions = self._db.execute("SELECT ticket, name, payload FROM queue ORDER BY ticket")
            queue = tuple(PendingEvent(0, name, payload, ticket) for ticket, name, payload in actions)
            next_sequencer, version, generation = place
            return Saved(next_sequencer, version, generation, self._state(), pending, queue)
        except (sqlite3.Error, msgspec.DecodeError) as error:
            raise self._fault(error) from None

    def commit(self, steps: Sequence[Persist]) -> None:
        """Makes all steps durable, or none of them."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for step in steps:
                    self._write(step)
                if self._patches_bytes > max(PATCHES_BYTES_MIN, self._base_bytes):
                    self._replace(msgspec.json.encode(self._state()))
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                self._measure()
                raise
        except sqlite3.Error as error:
            raise self._fault(error) from None

    def close(self) -> None:
        self._db.close()

    # Opening.

    def _open(self) -> None:
        # One process at a time: a second one with the same device would give the same numbers to other events.
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("BEGIN EXCLUSIVE")
        try:
            self._claim()
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._measure()

    def _claim(self) -> None:
        tables = [name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        if not tables:
            for statement in SCHEMA.split(";"):
                self._db.execute(statement)
            self._db.execute("INSERT INTO owner VALUES (?, ?, ?)", (FORMAT, self.space, self.device))
        elif "owner" not in tables:
            raise StoreError(f"{self.path} is a database, but not a device's store: choose another path")
        self._check_owner(self._db.execute("SELECT format, space, device FROM owner").fetchone())

    def _check_owner(self, owner: tuple[int, str, str]) -> None:
        number, space, device = owner
        if number != FORMAT:
            raise StoreError(
                f"{self.path} has format {number}, this version reads {FORMAT}: update, or choose another path"
            )
        if (space, device) != (self.space, self.device):
            raise StoreError(
                f"{self.path} belongs to device {device!r} of space {space!r}, not to {self.device!r} of "
                f"{self.space!r}: give each device of each space a file of its own"
            )

    def _measure(self) -> None:
        (self._base_bytes,) = self._db.execute("SELECT coalesce(sum(length(text)), 0) FROM base").fetchone()
        (self._patches_bytes,) = self._db.execute("SELECT coalesce(sum(length(text)), 0) FROM patches").fetchone()

    # Writing.

    def _write(self, step: Persist) -> None:
        run, run_many = self._db.execute, self._db.executemany
        if step.removed:
            run_many("DELETE FROM events WHERE sequencer = ?", [(sequencer,) for sequencer in step.removed])
        if step.numbered:
            rows = [(event.sequencer, event.name, event.payload) for event in step.numbered]
            run_many("INSERT INTO events VALUES (?, ?, ?)", rows)
        if step.unqueued:
            run_many("DELETE FROM queue WHERE ticket = ?", [(ticket,) for ticket in step.unqueued])
        if step.queued:
            rows = [(action.ticket, action.name, action.payload) for action in step.queued]
            run_many("INSERT INTO queue VALUES (?, ?, ?)", rows)
        if step.state is not None:
            self._replace(step.state)
        if step.patches:
            run_many("INSERT INTO patches (text) VALUES (?)", [(patch,) for patch in step.patches])
            self._patches_bytes += sum(map(len, step.patches))
        run("INSERT OR REPLACE INTO place VALUES (1, ?, ?, ?)", (step.next_sequencer, step.version, step.generation))

    def _replace(self, text: bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO base VALUES (1, ?)", (text,))
        self._db.execute("DELETE FROM patches")
        self._base_bytes, self._patches_bytes = len(text), 0

    def _state(self) -> Any:
        row = self._db.execute("SELECT text FROM base").fetchone()
        state = {} if row is None else msgspec.json.decode(row[0])
        for (text,) in self._db.execute("SELECT text FROM patches ORDER BY number"):
            state = merge_patch.apply(state, msgspec.json.decode(text))
        return state

    def _fault(self, error: Exception) -> StoreError:
        if "locked" in str(error):
            return StoreError(f"{self.path} is in use by another process: end that one, or choose another path")
        if isinstance(error, sqlite3.OperationalError):
            return StoreError(f"{self.path}: {error}; check the path, its rights and the free space of the disk")
        return StoreError(
            f"{self.path} is damaged ({error}): move it away and connect again; the chain returns what it holds, "
            "and only actions that never left this device are lost"
        )


def open_store(path: str | Path | None, space: str, device: str) -> Store:
    """The store at `path`; without one (or with ":memory:") nothing outlives the process."""
    return MemoryStore() if path is None or str(path) == ":memory:" else DeviceStore(path, space, device)
