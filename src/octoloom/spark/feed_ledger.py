"""What a feed has promised to send: the rows of each batch, written down before the first of them leaves.

A batch may be run again, at any moment of the first run, and a query need not give the same rows twice. So the rows of
a batch are those that were written down first, and each has its number for good: a space's rows in a batch are numbered
on from the number that its device was at. A chain that gets a number twice drops the second.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from octoloom.core.errors import StoreError, UsageError

KEPT_BATCHES = 100
"""So many batches that are done are remembered, with what was refused in them."""

SCHEMA = """
CREATE TABLE owner (feed TEXT NOT NULL);
CREATE TABLE batches (batch INTEGER PRIMARY KEY, done INTEGER NOT NULL);
CREATE TABLE rows (batch INTEGER NOT NULL, space TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL,
    payload BLOB NOT NULL, PRIMARY KEY (batch, space, position)) WITHOUT ROWID;
CREATE TABLE firsts (batch INTEGER NOT NULL, space TEXT NOT NULL, first INTEGER NOT NULL,
    PRIMARY KEY (batch, space)) WITHOUT ROWID;
CREATE TABLE refused (batch INTEGER NOT NULL, space TEXT, name TEXT, payload BLOB, reason TEXT NOT NULL);
"""


class FeedRow(NamedTuple):
    space: str
    name: str
    payload: bytes


class Refused(NamedTuple):
    batch: int
    space: str | None
    name: str | None
    payload: bytes | None
    reason: str


class FeedLedger:
    """One SQLite file for one feed."""

    def __init__(self, path: Path, feed: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1)
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                self._claim(path, feed)
        except (sqlite3.Error, OSError) as error:
            text = "it is in use by another feed" if "locked" in str(error) else str(error)
            raise StoreError(
                f"cannot keep a feed's ledger at {path} ({text}): choose another state directory"
            ) from None

    def _claim(self, path: Path, feed: str) -> None:
        if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'owner'").fetchone():
            for statement in SCHEMA.split(";"):
                self._db.execute(statement)
            self._db.execute("INSERT INTO owner VALUES (?)", (feed,))
        (owner,) = self._db.execute("SELECT feed FROM owner").fetchone()
        if owner != feed:
            raise UsageError(f"{path} belongs to the feed {owner!r}, not to {feed!r}: give each a directory of its own")

    def close(self) -> None:
        self._db.close()

    def _transaction(self) -> _Transaction:
        return _Transaction(self._db)

    # Batches.

    def is_done(self, batch: int) -> bool:
        found = self._db.execute("SELECT done FROM batches WHERE batch = ?", (batch,)).fetchone()
        return found is not None and bool(found[0])

    def has(self, batch: int) -> bool:
        return self._db.execute("SELECT 1 FROM batches WHERE batch = ?", (batch,)).fetchone() is not None

    def add(self, batch: int, rows: Iterable[FeedRow], refused: Iterable[Refused]) -> None:
        """These are the rows of the batch, for good."""
        counts: dict[str, int] = {}
        numbered = []
        for row in rows:
            position = counts[row.space] = counts.get(row.space, -1) + 1
            numbered.append((batch, row.space, position, row.name, row.payload))
        with self._transaction():
            self._db.execute("INSERT INTO batches VALUES (?, 0)", (batch,))
            self._db.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", numbered)
            self._db.executemany("INSERT INTO refused VALUES (?, ?, ?, ?, ?)", list(refused))

    def rows(self, batch: int) -> dict[str, list[FeedRow]]:
        """By space, in order."""
        found: dict[str, list[FeedRow]] = {}
        query = "SELECT space, name, payload FROM rows WHERE batch = ? ORDER BY space, position"
        for space, name, payload in self._db.execute(query, (batch,)):
            found.setdefault(space, []).append(FeedRow(space, name, payload))
        return found

    def first(self, batch: int, space: str) -> int | None:
        """The number of the space's first row in the batch."""
        query = "SELECT first FROM firsts WHERE batch = ? AND space = ?"
        found = self._db.execute(query, (batch, space)).fetchone()
        return found[0] if found is not None else None

    def set_first(self, batch: int, space: str, first: int) -> None:
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO firsts VALUES (?, ?, ?)", (batch, space, first))

    def refuse(self, refused: Iterable[Refused]) -> None:
        with self._transaction():
            self._db.executemany("INSERT INTO refused VALUES (?, ?, ?, ?, ?)", list(refused))

    def finish(self, batch: int) -> None:
        """All rows of the batch are settled."""
        with self._transaction():
            self._db.execute("UPDATE batches SET done = 1 WHERE batch = ?", (batch,))
            self._db.execute("DELETE FROM rows WHERE batch = ?", (batch,))
            self._db.execute("DELETE FROM firsts WHERE batch = ?", (batch,))
            for table in ("batches", "refused"):
                self._db.execute(f"DELETE FROM {table} WHERE batch <= ?", (batch - KEPT_BATCHES,))

    def refused(self) -> list[Refused]:
        query = "SELECT batch, space, name, payload, reason FROM refused ORDER BY rowid"
        return [Refused(*row) for row in self._db.execute(query)]


class _Transaction:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._db.execute("COMMIT" if kind is None else "ROLLBACK")
