"""The register's memory: an SQLite file, synced before `save` returns.

The directory of chains is one row, replaced whole; topics and ordered groups have tables of their own (`topic_store.py`
and `group_store.py`). What is saved together is one transaction. Bodies are JSON, so that ``sqlite3 register.db 'select
body from directory'`` shows them to people. The file is locked while it is open: of two registers on one file each
would believe to be the only one.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import msgspec

from octoloom.core import group_saved, log_saved
from octoloom.core.errors import StoreError
from octoloom.core.register_messages import Directory
from octoloom.storage.group_store import GroupTables
from octoloom.storage.topic_store import TopicTables

SCHEMA_VERSION = 3
OLDER_VERSIONS = (1, 2)
"""Files of before there were topics, and of before there were groups; they are brought up to date when opened."""
APPLICATION_ID = 0x4F435230

Step = log_saved.Persist | group_saved.Persist

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Directory)


class RegisterStore:
    """Opens or creates the file at `path`; raises `StoreError` with the next step if it cannot be used."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self.path, isolation_level=None, timeout=1.0)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot open the register's store {self.path}: {error}; is the path writable?") from error
        self._topics = TopicTables(self._database)
        self._groups = GroupTables(self._database)
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._database.close()
            raise self._unusable(error) from error
        except StoreError:
            self._database.close()
            raise

    def save(self, directory: Directory | None, steps: Sequence[Step] = ()) -> None:
        """Replaces the directory, if there is a new one, and applies the steps. When this returns, all is on disk."""
        execute = self._database.execute
        try:
            execute("BEGIN IMMEDIATE")
            if directory is not None:
                body = _encoder.encode(directory)
                execute("REPLACE INTO directory (id, body, crc) VALUES (1, ?, ?)", (body, crc32(body)))
            self._topics.save([step for step in steps if isinstance(step, log_saved.Persist)])
            self._groups.save([step for step in steps if isinstance(step, group_saved.Persist)])
            execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                execute("ROLLBACK")
            raise self._unusable(error) from error

    def load(self) -> Directory | None:
        """What was saved last, or None in a new store."""
        try:
            row = self._database.execute("SELECT body, crc FROM directory WHERE id = 1").fetchone()
            if row is None:
                return None
            if crc32(row[0]) != row[1]:
                raise self._unusable("its checksum does not match")
            return _decoder.decode(row[0])
        except (sqlite3.Error, msgspec.MsgspecError, TypeError) as error:
            raise self._unusable(error) from error

    def load_log(self) -> log_saved.LogSaved | None:
        """What was saved of brokers and topics, or None in a new store."""
        try:
            return self._topics.load()
        except (sqlite3.Error, msgspec.MsgspecError, StoreError) as error:
            raise self._unusable(error) from error

    def load_groups(self) -> group_saved.GroupsSaved | None:
        """What was saved of ordered groups, or None in a new store."""
        try:
            return self._groups.load()
        except (sqlite3.Error, msgspec.MsgspecError, StoreError) as error:
            raise self._unusable(error) from error

    def close(self) -> None:
        self._database.close()

    def _prepare(self) -> None:
        execute = self._database.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("PRAGMA synchronous = FULL")
        execute("BEGIN IMMEDIATE")
        application, version = execute("PRAGMA application_id").fetchone()[0], self._version()
        if (application, version) == (0, 0) and not execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            execute("CREATE TABLE directory (id INTEGER PRIMARY KEY CHECK (id = 1), body BLOB NOT NULL, crc INTEGER)")
            execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._upgrade()
        elif application != APPLICATION_ID:
            raise StoreError(f"{self.path} is not a register's store: name another file")
        elif version in OLDER_VERSIONS:
            self._upgrade()
        elif version != SCHEMA_VERSION:
            text = f"{self.path} has version {version}, this Octoloom knows {SCHEMA_VERSION}: use the one that wrote it"
            raise StoreError(text)
        execute("COMMIT")
        # Only now that the file is known to be ours: one sync per save instead of three, on the way of every failover.
        execute("PRAGMA journal_mode = WAL")

    def _upgrade(self) -> None:
        self._topics.create()
        self._groups.create()
        self._database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _version(self) -> int:
        return int(self._database.execute("PRAGMA user_version").fetchone()[0])

    def _unusable(self, reason: object) -> StoreError:
        if "locked" in str(reason):
            return StoreError(f"another register uses {self.path}: stop it, or name another file")
        step = "put a backup in its place, or stop all that use it, move the file away and start anew, empty"
        return StoreError(f"the register's store {self.path} is damaged ({reason}): {step}")
