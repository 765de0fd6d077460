"""Who a broker is: its name, what its disk is called, and how many lives it has begun with it.

A life is what the register counts on: a process, or what is left of one after damage to a log. Each has a number of
its own, that is made durable before anybody hears it. The disk's name is made once, by dice: a broker that comes back
with the same name and another disk holds nothing of what it had.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

import msgspec

from octoloom.core.errors import StoreError, UsageError
from octoloom.core.log_messages import TopicPartition
from octoloom.core.roster import NAME_MAX
from octoloom.storage.log_files import load_checked, save_checked

FILE = "identity"
LOCK = "lock"
_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{NAME_MAX}}}")


class _Saved(msgspec.Struct, frozen=True):
    name: str
    storage: str
    life: int
    damaged: list[TopicPartition] = []
    """Replicas that hold less than they had acknowledged, as long as the register may not have heard of it."""


class Identity:
    """The identity in a data directory, which belongs to this process until `close`."""

    def __init__(self, data_dir: Path, name: str) -> None:
        if name and not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no name for a broker: use letters, digits, dots, dashes and underscores")
        self._path = data_dir / FILE
        try:
            data_dir.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(data_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"cannot use the data directory {data_dir}: {error.strerror}") from error
        try:
            self._take_lock(data_dir)
            self._saved = self._load(name)
        except BaseException:
            os.close(self._lock)
            raise

    def _take_lock(self, data_dir: Path) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"another broker uses {data_dir}: give each broker a directory of its own") from error

    def _load(self, name: str) -> _Saved:
        data = load_checked(str(self._path))
        if data is None:
            if self._path.exists():
                raise StoreError(f"{self._path} is damaged: restore it, or begin with an empty directory")
            return _Saved(name or f"b{secrets.token_hex(3)}", secrets.token_hex(8), 0)
        saved = msgspec.json.decode(data, type=_Saved)
        if name and saved.name != name:
            raise UsageError(f"{self._path.parent} belongs to the broker {saved.name}, not to {name}")
        return saved

    @property
    def name(self) -> str:
        return self._saved.name

    @property
    def storage(self) -> str:
        return self._saved.storage

    @property
    def id(self) -> str:
        return f"{self._saved.name}#{self._saved.life}"

    @property
    def damaged(self) -> list[TopicPartition]:
        return self._saved.damaged

    def note_damage(self, damaged: Iterable[TopicPartition]) -> None:
        """To be said to the register, by this life or a later one: call it before the damage is cut off."""
        self._save(msgspec.structs.replace(self._saved, damaged=list(dict.fromkeys([*self.damaged, *damaged]))))

    def forget_damage(self) -> None:
        """The register has heard of it."""
        if self.damaged:
            self._save(msgspec.structs.replace(self._saved, damaged=[]))

    def begin_life(self) -> str:
        """The id of a new life, once it is durable that it was given."""
        self._save(msgspec.structs.replace(self._saved, life=self._saved.life + 1))
        return self.id

    def _save(self, saved: _Saved) -> None:
        self._saved = saved
        try:
            save_checked(str(self._path), msgspec.json.encode(self._saved), sync=True)
        except OSError as error:
            raise StoreError(f"cannot write {self._path}: {error}; check the free space") from error

    def close(self) -> None:
        os.close(self._lock)
