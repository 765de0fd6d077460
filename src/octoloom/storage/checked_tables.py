"""Tables of the register's file: one row for each thing, found by a name and a number.

Bodies are JSON, for people who look with ``sqlite3``. Each row has a checksum over its key and body: a row that was
changed or moved is found. What a row that is missing looks like, the kinds of tables know themselves.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import TypeVar
from zlib import crc32

import msgspec

from octoloom.core.errors import StoreError

Key = tuple[str, int]
Body = TypeVar("Body", bound=msgspec.Struct)

_encode = msgspec.json.Encoder().encode


class CheckedTables:
    """The tables in an open database. Whoever owns it begins and ends the transactions, and names the file."""

    TABLES: tuple[str, ...] = ()

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def create(self) -> None:
        """Makes those that are not there."""
        columns = "name TEXT NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL"
        for table in self.TABLES:
            text = f"CREATE TABLE IF NOT EXISTS {table} ({columns}, PRIMARY KEY (name, number)) WITHOUT ROWID"
            self._database.execute(text)

    def _put(self, table: str, entries: Iterable[tuple[Key, msgspec.Struct | None]]) -> None:
        """Writes rows, and deletes those that have no body."""
        kept, gone = [], []
        for key, body in entries:
            if body is None:
                gone.append(key)
            else:
                raw = _encode(body)
                kept.append((*key, raw, _checksum(key, raw)))
        self._database.executemany(f"DELETE FROM {table} WHERE name = ? AND number = ?", gone)
        self._database.executemany(f"REPLACE INTO {table} (name, number, body, crc) VALUES (?, ?, ?, ?)", kept)

    def _rows(self, table: str, kind: type[Body]) -> Iterator[tuple[Key, Body]]:
        decode = msgspec.json.Decoder(kind).decode
        for name, number, raw, checksum in self._database.execute(f"SELECT name, number, body, crc FROM {table}"):
            if not isinstance(raw, bytes) or _checksum((name, number), raw) != checksum:
                raise StoreError(f"the checksum of {name or 'the only row'} in {table} does not match")
            yield (name, number), decode(raw)


def _checksum(key: Key, raw: bytes) -> int:
    return crc32(raw, crc32(f"{key[0]}\0{key[1]}".encode()))
