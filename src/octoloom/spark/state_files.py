"""The state of an operator in a streaming query: files, one line of versions for each partition of its input.

A batch of a query changes the state of some keys of a partition. What changed is a *delta*; now and then all of it is
written anew, a *base*. Both are named after the batch. Then:

1. A batch goes on from the newest version of an earlier batch, whatever else is there. So a batch that is run again,
   because a task, an executor or the driver died, starts from the same state and comes to the same result.
2. A batch that brings a partition nothing leaves no version, and the next one goes on from the one before.
3. A file is there whole or not at all: it is written beside, synced, and renamed. A file that is damaged is noticed.
4. Only the last batch of a query is ever run again; versions that neither it nor the one before needs are deleted.
5. A partition whose rows come in several tasks of one batch would lose all but the last task's: a task *claims* the
   batch first, and a second one is refused.

The directory must be one that all executors see, as the checkpoint's: keep it next to that, and delete both or none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgspec

from octoloom.core.errors import StoreError, UsageError

DELTAS_MAX = 16
"""Deltas that lie on one base."""
KEPT_BATCHES = 2

Changes = dict[str, bytes]
"""What is saved of each key."""
Mark = tuple[int, int]
"""Tells a file from any other that has, or had, the same name."""

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Changes)


class Version(NamedTuple):
    batch: int
    end: int
    """The offset after the last row that it has seen, if its rows have offsets."""
    kind: str
    """base or delta"""

    @property
    def file(self) -> str:
        return f"{self.batch:012d}-{self.end:020d}.{self.kind}"


class StateFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def newest(self, before: int) -> Version | None:
        """The version that a batch goes on from."""
        return max((version for version in self._versions() if version.batch < before), default=None)

    def read(self, version: Version | None, since: int = -1) -> Changes:
        """The state as of a version, or what has changed since an earlier one of its line."""
        found: Changes = {}
        for each in self._line(version):
            if each.batch > since:
                found |= self._load(each)
        return found

    def claim(self, batch: int, run: str, task: int) -> None:
        """All rows of this partition come to this task, in this run of the batch."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{batch:012d}.claim"
        # A claim must not be seen before its content: it is linked, and the first link wins.
        fresh = self._folder / f".claim-{os.getpid()}-{batch}"
        fresh.write_text(f"{run}\n{task}")
        try:
            os.link(fresh, path)
        except FileExistsError:
            other_run, _, other = path.read_text().partition("\n")
            if other_run == run and other != str(task):
                text = f"the rows of {self._folder.name} come in several tasks ({other} and {task})"
                raise UsageError(f"{text}: read without minPartitions, or set colocated=False") from None
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)

    def write(self, batch: int, end: int, changes: Mapping[str, bytes]) -> Version:
        """What a batch has changed. If it is run again it writes the same once more."""
        self._folder.mkdir(parents=True, exist_ok=True)
        line = self._line(self.newest(batch))
        if len(line) % (DELTAS_MAX + 1) == 0:
            version = Version(batch, end, "base")
            self._store(version, {**self._merge(line), **changes})
        else:
            version = Version(batch, end, "delta")
            self._store(version, changes)
        self._clean(version)
        return version

    def mark(self, version: Version) -> Mark | None:
        """None if there is no such version."""
        try:
            found = (self._folder / version.file).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _versions(self) -> list[Version]:
        if not self._folder.is_dir():
            return []
        names = [path.name for path in self._folder.iterdir() if path.suffix in (".base", ".delta")]
        versions = []
        for name in names:
            stem, _, kind = name.partition(".")
            batch, _, end = stem.partition("-")
            versions.append(Version(int(batch), int(end), kind))
        return sorted(versions)

    def _line(self, version: Version | None) -> list[Version]:
        """The base of a version, and the deltas up to it."""
        if version is None:
            return []
        earlier = [each for each in self._versions() if each.batch <= version.batch]
        bases = [place for place, each in enumerate(earlier) if each.kind == "base"]
        if not bases:
            raise StoreError(f"{self._folder} has changes without what they changed: restore it, or start anew")
        return earlier[bases[-1] :]

    def _merge(self, line: list[Version]) -> Changes:
        found: Changes = {}
        for version in line:
            found |= self._load(version)
        return found

    def _load(self, version: Version) -> Changes:
        path = self._folder / version.file
        data = path.read_bytes()
        content = memoryview(data)[:-4]
        if len(data) < 5 or crc32(content).to_bytes(4, "big") != data[-4:]:
            raise StoreError(f"{path} is damaged: restore it with its checkpoint, or start both anew")
        return _decoder.decode(content)

    def _store(self, version: Version, changes: Mapping[str, bytes]) -> None:
        content = _encode(dict(changes))
        fresh = self._folder / f".{version.file}-{os.getpid()}"
        with fresh.open("wb") as file:
            file.write(content + crc32(content).to_bytes(4, "big"))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._folder / version.file)
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _clean(self, written: Version) -> None:
        """Delete what no batch from the one before on can need."""
        needed = self.newest(written.batch - KEPT_BATCHES + 1)
        first = self._line(needed)[0].batch if needed is not None else 0
        for version in self._versions():
            if version.batch < first or (version.batch == written.batch and version != written):
                (self._folder / version.file).unlink(missing_ok=True)
        for path in self._folder.glob("*.claim"):
            if int(path.stem) < written.batch:
                path.unlink(missing_ok=True)
