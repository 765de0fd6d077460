"""Archive and log read as one: an origin for the source, in front of the log's own.

A range of offsets is cut where archived files begin and end. What a file has comes from the file, and the rest from the
log, in the order of offsets, so nothing comes twice and nothing is left out, whatever retention has removed from the
log since, and however far an archiver has come by now.

1. A partition begins where the archive begins, and ends where the log ends. If something between is in neither, whoever
   comes to it hears `OffsetsGone`; it is not passed over without a word.
2. A file that is damaged or missing is read from the log, if that still has it. If not, the error names the file.
3. An archive of another topic of the same name is refused.

Without a log the archive is read alone: it ends with the last file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from octoloom.core.errors import UsageError
from octoloom.spark.archive_manifest import (
    MANIFEST,
    ArchiveDamaged,
    ArchivedFile,
    Manifest,
    archived_topics,
    folder_of,
    load_manifest,
)
from octoloom.spark.archive_reading import check_file, read_file
from octoloom.spark.fetching import OffsetsGone, Origin
from octoloom.spark.ranges import Offsets, Place, Range


class LogOrigin(Origin, Protocol):
    """The log behind an archive: it knows which topic of a name it has."""

    def number(self, topic: str) -> int | None: ...


class Archive:
    """The archives of all topics in a directory, and the log behind them, if there is one."""

    def __init__(self, directory: str, log: LogOrigin | None = None) -> None:
        self._directory = directory
        self._log = log
        self._seen: dict[str, tuple[tuple[int, int, int], Manifest]] = {}
        self._checked: set[tuple[str, int]] = set()

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    # What there is.

    def topics(self, pattern: str | None = None) -> dict[str, list[int]]:
        if self._log is not None:
            return self._log.topics(pattern)
        wanted = [
            topic for topic in archived_topics(self._directory) if pattern is None or re.fullmatch(pattern, topic)
        ]
        return {topic: self.partitions(topic) for topic in wanted}

    def partitions(self, topic: str) -> list[int]:
        if self._log is not None:
            return self._log.partitions(topic)
        manifest = self.manifest(topic)
        if manifest is None:
            text = f"there is no archive of {topic} in {self._directory}"
            raise UsageError(f"{text}: see `octoloom topic archive --list {self._directory}`")
        return manifest.partitions()

    def bounds(self, places: Iterable[Place]) -> dict[Place, tuple[int, int]]:
        places = list(places)
        found = self._log.bounds(places) if self._log is not None else {}
        for topic, partition in places:
            manifest = self._own(topic)
            archived = manifest.bounds(partition) if manifest is not None else None
            if archived is not None:
                first, high = found.get((topic, partition), archived)
                found[topic, partition] = min(first, archived[0]), max(high, archived[1])
        return {place: found.get(place, (0, 0)) for place in places}

    def offsets_at(self, places: Iterable[Place], ms: int) -> Offsets:
        places = list(places)
        archived = {place: self._archived_at(place, ms) for place in places}
        found = {place: -1 if offset is None else offset for place, offset in archived.items()}
        late = [place for place in places if archived[place] is None]
        return {**found, **(self._log.offsets_at(late, ms) if late and self._log is not None else {})}

    def _archived_at(self, place: Place, ms: int) -> int | None:
        manifest = self._own(place[0])
        for file in manifest.of(place[1]) if manifest is not None else ():
            if file.time_max >= ms:
                return self._first_at(place[0], file, ms)
        return None

    def _first_at(self, topic: str, file: ArchivedFile, ms: int) -> int:
        folder = folder_of(self._directory, topic)
        for rows, _ in read_file(folder, topic, file, file.first, file.end, ["offset", "timestamp"]):
            late = pc.greater_equal(rows.column("timestamp").cast(pa.int64()), ms * 1000)
            at = late.index(True).as_py()
            if at >= 0:
                return int(rows.column("offset")[at].as_py())
        raise ArchiveDamaged(f"{file.name} has no record of {file.time_max} ms or later: check it")

    def manifest(self, topic: str) -> Manifest | None:
        """As it is right now. It is read again only if it was replaced."""
        try:
            found = os.stat(os.path.join(folder_of(self._directory, topic), MANIFEST))
        except OSError:
            if not os.path.isdir(self._directory):
                text = f"there is no directory {self._directory} on this machine"
                raise UsageError(f"{text}: name the one that `octoloom topic archive` wrote to") from None
            return None
        mark = found.st_ino, found.st_size, found.st_mtime_ns
        if self._seen.get(topic, (None,))[0] != mark:
            manifest = load_manifest(self._directory, topic)
            if manifest is None:
                return None
            self._seen[topic] = mark, manifest
        return self._seen[topic][1]

    def _own(self, topic: str) -> Manifest | None:
        """The manifest, if it is of the topic that the log has."""
        manifest = self.manifest(topic)
        if manifest is not None and self._log is not None and (topic, manifest.number) not in self._checked:
            check_same(manifest, self._log.number(topic), self._directory)
            self._checked.add((topic, manifest.number))
        return manifest

    # What is in it.

    def rows(self, wanted: Range, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        topic, partition, start, end = wanted
        manifest = self.manifest(topic)
        pieces = manifest.pieces(partition, start, end) if manifest is not None else [(start, end, None)]
        for first, until, file in pieces:
            piece = Range(topic, partition, first, until)
            if file is None:
                yield from self._from_log(piece, wanted, columns)
            else:
                yield from self._from_file(file, piece, wanted, columns)

    def _from_file(
        self, file: ArchivedFile, piece: Range, wanted: Range, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        position = piece.start
        folder = folder_of(self._directory, piece.topic)
        try:
            for rows, after in read_file(folder, piece.topic, file, piece.start, piece.end, columns):
                yield rows
                position = after
        except ArchiveDamaged as damage:
            if self._log is None:
                raise
            try:
                yield from self._from_log(Range(*piece.place, position, piece.end), wanted, columns)
            except OffsetsGone:
                raise damage from None

    def _from_log(self, piece: Range, wanted: Range, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """What no file has. If the log does not have it either, reading can go on where the next file begins."""
        start, first, high = piece.start, piece.end, self._archived_end(piece)
        if self._log is None:
            raise OffsetsGone(Range(*piece.place, start, wanted.end), first, high)
        try:
            yield from self._log.rows(piece, columns)
        except OffsetsGone as gone:
            start = gone.wanted.start
            first = min(gone.first, first) if start < gone.first else first
            raise OffsetsGone(Range(*piece.place, start, wanted.end), first, max(gone.high, high)) from gone

    def _archived_end(self, piece: Range) -> int:
        """The end of the last file, if that is not before this piece."""
        manifest = self.manifest(piece.topic)
        archived = manifest.bounds(piece.partition) if manifest is not None else None
        return max(piece.end, archived[1] if archived is not None else 0)


def check_same(manifest: Manifest, number: int | None, directory: str) -> None:
    if number is not None and number != manifest.number:
        text = f"the archive of {manifest.topic} in {directory} is of another topic of that name, which was deleted"
        raise UsageError(f"{text}: read it without the brokers, and archive the new one into another directory")


def check_archive(directory: str, topic: str) -> list[ArchiveDamaged]:
    """Reads every byte of an archive; answers what is not as it was written."""
    manifest = load_manifest(directory, topic)
    if manifest is None:
        raise UsageError(f"there is no archive of {topic} in {directory}: name another directory or topic")
    found = []
    for file in manifest.files:
        try:
            check_file(folder_of(directory, topic), file)
        except ArchiveDamaged as damage:
            found.append(damage)
    return found
