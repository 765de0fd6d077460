"""The manifest of an archive: which offsets of a topic lie in which file.

    DIRECTORY/TOPIC/_manifest.json                                 what counts
    DIRECTORY/TOPIC/00003-<first offset>-<end offset>.parquet      the records of partition 3 in that range
    DIRECTORY/TOPIC/_lock                                          held by who writes

1. A file is part of the archive once the manifest names it, and never before. The manifest is replaced in one step,
   after the files that it names are on disk: whatever happens in between, a reader finds the old one or the new one.
2. Files of one partition never overlap. They may leave a gap, if records were gone before they were archived.
3. There is a manifest before there is any file. Without one, files are the remains of something else, and nobody
   touches them.
4. A topic that was deleted and made again is another topic: `number` tells them apart.

Names that begin with an underscore or a dot are those that Spark does not look at: `spark.read.parquet` of the topic's
folder reads the records, too.
"""

from __future__ import annotations

import fcntl
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec
from crc32c import crc32c

from octoloom.core.errors import StoreError, UsageError
from octoloom.core.topic_admin import AdminRefused, check_name
from octoloom.storage.log_files import TEMPORARY, OpenFile, append_whole, remove, sync_directory

FORMAT = 1
MANIFEST = "_manifest.json"
LOCK = "_lock"
FILES_MAX = 100_000
"""Of one topic. A manifest of so many is 25 MB."""
MANIFEST_BYTES_MAX = 64 * 1024 * 1024

_FILE = re.compile(r"[0-9]{5}-[0-9]{20}-[0-9]{20}\.parquet")


class ArchiveDamaged(StoreError):  # noqa: N818
    """The archive is not what was written."""


class ArchiveBusy(UsageError):  # noqa: N818
    """Somebody else writes this archive."""


class ArchivedFile(msgspec.Struct, frozen=True):
    """One file: all records of a partition from offset `first` up to `end`, which is left out."""

    partition: int
    first: int
    end: int
    rows: int
    """As many as offsets, unless some of them never held a record."""
    time_min: int
    time_max: int
    """Milliseconds since 1970; -1 if there are no records."""
    time_type: int | None
    """0: the time of creation, 1: of appending; None: both occur."""
    has_headers: bool
    bytes: int
    checksum: str
    """CRC32C of the whole file."""

    @property
    def name(self) -> str:
        return f"{self.partition:05d}-{self.first:020d}-{self.end:020d}.parquet"

    @property
    def is_dense(self) -> bool:
        return self.rows == self.end - self.first


class Piece(NamedTuple):
    """A part of a range of offsets, and the file that has it; None if no file does."""

    start: int
    end: int
    file: ArchivedFile | None


class Manifest(msgspec.Struct, frozen=True):
    topic: str
    number: int
    """Of the topic, as the register gave it."""
    files: list[ArchivedFile] = []
    """By partition, then by offset."""
    format: int = FORMAT

    def of(self, partition: int) -> list[ArchivedFile]:
        first = bisect_right(self.files, partition - 1, key=lambda file: file.partition)
        return self.files[first : bisect_right(self.files, partition, key=lambda file: file.partition)]

    def partitions(self) -> list[int]:
        return sorted({file.partition for file in self.files})

    def bounds(self, partition: int) -> tuple[int, int] | None:
        """The first offset that is archived and the one after the last, whatever lies between."""
        files = self.of(partition)
        return (files[0].first, files[-1].end) if files else None

    def runs(self, partition: int) -> list[tuple[int, int]]:
        """What is archived, as few ranges of offsets without a gap."""
        runs: list[tuple[int, int]] = []
        for file in self.of(partition):
            begins = runs.pop()[0] if runs and runs[-1][1] == file.first else file.first
            runs.append((begins, file.end))
        return runs

    def pieces(self, partition: int, start: int, end: int) -> list[Piece]:
        """The range, cut where files begin and end."""
        pieces, position = [], start
        for file in self.of(partition):
            if file.end <= position or file.first >= end or position >= end:
                continue
            if file.first > position:
                pieces.append(Piece(position, file.first, None))
                position = file.first
            pieces.append(Piece(position, min(file.end, end), file))
            position = min(file.end, end)
        if position < end:
            pieces.append(Piece(position, end, None))
        return pieces

    def with_files(self, more: Iterable[ArchivedFile]) -> Manifest:
        files = sorted([*self.files, *more], key=lambda file: (file.partition, file.first))
        if len(files) > FILES_MAX:
            text = f"the archive of {self.topic} would have {len(files)} files, and {FILES_MAX} is the most"
            raise UsageError(f"{text}: begin another directory, or write larger files")
        return msgspec.structs.replace(self, files=files)

    def checksum(self) -> str:
        return checksum_text(crc32c(msgspec.json.encode(self)))

    def fault(self) -> str | None:
        """What is wrong with it, if anything is."""
        for before, file in zip([None, *self.files], self.files, strict=False):
            if not 0 <= file.first < file.end or not 0 <= file.rows <= file.end - file.first or file.partition < 0:
                return f"{file.name} cannot be"
            if before is not None and before.partition == file.partition and before.end > file.first:
                return f"{before.name} and {file.name} overlap"
            if before is not None and before.partition > file.partition:
                return f"{file.name} is out of order"
        return None


class _Saved(msgspec.Struct, frozen=True):
    manifest: Manifest
    checksum: str


def checksum_text(crc: int) -> str:
    return f"crc32c:{crc:08x}"


def folder_of(directory: str, topic: str) -> str:
    try:
        check_name(topic)
    except AdminRefused as error:
        raise UsageError(f"{topic!r} is no topic: {error.detail}") from error
    return os.path.join(directory, topic)


def load_manifest(directory: str, topic: str) -> Manifest | None:
    """The manifest of a topic, or None if there is no archive of it here."""
    path = os.path.join(folder_of(directory, topic), MANIFEST)
    try:
        with open(path, "rb") as file:
            data = file.read(MANIFEST_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(
            f"the manifest {path} cannot be read ({error.strerror}): check the path and its rights"
        ) from error
    try:
        saved = msgspec.json.decode(data, type=_Saved)
    except msgspec.MsgspecError as error:
        raise _damaged(path, str(error)) from error
    manifest = saved.manifest
    if manifest.format != FORMAT:
        raise UsageError(f"{path} is of format {manifest.format}, and this version reads {FORMAT}: use a newer one")
    if manifest.checksum() != saved.checksum:
        raise _damaged(path, f"its checksum is {manifest.checksum()}, not {saved.checksum}")
    fault = f"it is of {manifest.topic}" if manifest.topic != topic else manifest.fault()
    if fault is not None:
        raise _damaged(path, fault)
    return manifest


def _damaged(path: str, why: str) -> ArchiveDamaged:
    text = f"the manifest {path} is damaged ({why})"
    return ArchiveDamaged(f"{text}: bring it back from a copy, or archive the topic anew into another directory")


def save_manifest(directory: str, manifest: Manifest) -> None:
    """Replaces the manifest in one step. When this returns, it is on disk."""
    folder = folder_of(directory, manifest.topic)
    path = os.path.join(folder, MANIFEST)
    body = msgspec.json.encode(_Saved(manifest, manifest.checksum()))
    data = msgspec.json.format(body, indent=1) + b"\n"
    file = OpenFile(path + TEMPORARY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    append_whole(file, [data], 0, len(data))
    os.fsync(file.fd)
    os.rename(path + TEMPORARY, path)
    sync_directory(folder)


def archived_topics(directory: str) -> list[str]:
    """The topics that have an archive in this directory."""
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        raise UsageError(f"there is no archive in {directory} ({error.strerror}): name another directory") from error
    return [name for name in names if os.path.exists(os.path.join(directory, name, MANIFEST))]


@contextmanager
def writing(directory: str, topic: str) -> Iterator[None]:
    """Whoever is inside is the only one who writes. The lock goes with the process, however that ends."""
    folder = folder_of(directory, topic)
    try:
        os.makedirs(folder, exist_ok=True)
        lock = OpenFile(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise StoreError(
            f"cannot write to {folder} ({error.strerror}): check the path, its rights and the space"
        ) from error
    try:
        fcntl.flock(lock.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        text = f"another process archives {topic} to {directory} right now"
        raise ArchiveBusy(f"{text}: let it go on, or end it first") from error
    try:
        yield
    finally:
        fcntl.flock(lock.fd, fcntl.LOCK_UN)


def clear_remains(directory: str, manifest: Manifest) -> list[str]:
    """Removes what an archiver left behind that ended too early: files that the manifest does not name."""
    folder = folder_of(directory, manifest.topic)
    named = {file.name for file in manifest.files}
    gone = [name for name in sorted(os.listdir(folder)) if name not in named and _is_ours(name)]
    for name in gone:
        remove(os.path.join(folder, name))
    return gone


def strangers(directory: str, topic: str) -> Sequence[str]:
    """Archived files in the folder of a topic, whoever wrote them."""
    return [name for name in sorted(os.listdir(folder_of(directory, topic))) if _FILE.fullmatch(name)]


def _is_ours(name: str) -> bool:
    return bool(_FILE.fullmatch(name.removeprefix(".").removesuffix(TEMPORARY))) or name == MANIFEST + TEMPORARY
