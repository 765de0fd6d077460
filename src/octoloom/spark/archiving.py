"""Archiving a topic: the records of each partition into Parquet files, in the order of offsets, as far as they go.

    octoloom topic archive moves /data/archive

Where the last file ends the next one begins, so an archiver goes on where another one stopped, however that ended. A
file is written under a name that nobody looks at, synced, renamed, and then named in the manifest; a crash in between
leaves remains that the next archiver clears away. Two archivers of one topic do not get in each other's way: a lock
lets one of them in and tells the other.

What retention has removed before it was archived leaves a gap. That is an error, unless gaps are allowed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal, Self

from octoloom.core.errors import OctoloomError, StoreError, UsageError
from octoloom.runtime.log_consumer import Timestamp
from octoloom.spark.archive import LogOrigin, check_same
from octoloom.spark.archive_files import CODECS, FileWriter
from octoloom.spark.archive_manifest import (
    MANIFEST,
    ArchiveDamaged,
    ArchivedFile,
    Manifest,
    clear_remains,
    folder_of,
    load_manifest,
    save_manifest,
    strangers,
    writing,
)
from octoloom.spark.fetching import TIMEOUT_MS, OffsetsGone, Reader
from octoloom.spark.local_segments import LocalSegments
from octoloom.spark.ranges import Range
from octoloom.spark.record_batches import ALL

FILE_ROWS = 1_000_000
FILE_ROWS_MAX = 100_000_000
FILE_BYTES = 512 * 1024 * 1024
"""A file ends when it has so many records, or so many bytes before compression."""
COMMIT_S = 1.0
"""How often files are named in the manifest while there are more to come: what a crash costs."""

Until = Literal["end", "sealed"] | int | Timestamp
"""How far: all that is committed; only what fills whole files; up to an offset; or up to a time."""


class RecordsLost(StoreError):  # noqa: N818
    """Retention has removed records before they were archived."""


@dataclass(slots=True)
class PartitionReport:
    """What was archived of one partition just now: offsets `first` up to `end`."""

    partition: int
    first: int
    end: int
    until: int
    """Where it is going."""
    files: int = 0
    rows: int = 0
    bytes: int = 0
    lost: int = 0
    """Offsets that were gone before they could be archived."""


@dataclass(slots=True)
class ArchiveReport:
    topic: str
    directory: str
    partitions: list[PartitionReport] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.partitions)

    @property
    def files(self) -> int:
        return sum(each.files for each in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.partitions)

    @property
    def lost(self) -> int:
        return sum(each.lost for each in self.partitions)


OnProgress = Callable[[ArchiveReport], None]


def archive_topic(
    bootstrap: str,
    topic: str,
    directory: str | os.PathLike[str],
    *,
    until: Until = "end",
    paths: Sequence[str] = (),
    file_rows: int = FILE_ROWS,
    codec: str = "lz4",
    allow_gaps: bool = False,
    on_progress: OnProgress | None = None,
    timeout_ms: int = TIMEOUT_MS,
) -> ArchiveReport:
    """Archives what is there and not archived yet. `paths` are data directories of brokers, to be read as files."""
    log = open_log(bootstrap, paths, timeout_ms)
    with Archiver(log, topic, os.fspath(directory), file_rows, codec, allow_gaps) as archiver:
        return archiver.run(until, on_progress)


def open_log(bootstrap: str, paths: Sequence[str] = (), timeout_ms: int = TIMEOUT_MS) -> LogOrigin:
    """The log to be archived: from the brokers, or from their files as far as these go."""
    brokers = Reader(bootstrap, timeout_ms=timeout_ms)
    return LocalSegments(paths, brokers) if paths else brokers


class Archiver:
    """The one who writes the archive of a topic, for as long as it is open. Use it as a context manager.

    The log belongs to it from then on, and is closed with it.
    """

    def __init__(
        self,
        log: LogOrigin,
        topic: str,
        directory: str,
        file_rows: int = FILE_ROWS,
        codec: str = "lz4",
        allow_gaps: bool = False,
    ) -> None:
        self._log, self._topic, self._directory = log, topic, directory
        self._file_rows, self._codec, self._allows_gaps = file_rows, codec, allow_gaps
        self._manifest: Manifest
        self._finished: list[ArchivedFile] = []
        self._committed_at = 0.0
        self._held = ExitStack()

    def __enter__(self) -> Self:
        self._held.callback(self._log.close)
        try:
            if not 0 < self._file_rows <= FILE_ROWS_MAX:
                raise UsageError(f"a file has 1 to {FILE_ROWS_MAX:,} records, not {self._file_rows:,}")
            if self._codec not in CODECS:
                raise UsageError(f"{self._codec!r} is no way to compress: choose one of {', '.join(CODECS)}")
            # The topic first: a name that is misspelt leaves no folder behind.
            number = self._log.number(self._topic)
            if number is None:
                raise UsageError(f"there is no topic {self._topic}: see `octoloom topic list`")
            self._held.enter_context(writing(self._directory, self._topic))
            self._manifest = self._begin(number)
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def _begin(self, number: int) -> Manifest:
        """The manifest as it is, or a new one. What an archiver left that ended too early is cleared away."""
        manifest = load_manifest(self._directory, self._topic)
        if manifest is None:
            folder = folder_of(self._directory, self._topic)
            if strangers(self._directory, self._topic):
                text = f"{folder} has archived files, but no {MANIFEST}"
                raise ArchiveDamaged(f"{text}: bring it back from a copy, or archive into another directory")
            manifest = Manifest(self._topic, number)
            save_manifest(self._directory, manifest)
        check_same(manifest, number, self._directory)
        clear_remains(self._directory, manifest)
        return manifest

    def run(self, until: Until = "end", on_progress: OnProgress | None = None) -> ArchiveReport:
        """Archives what is not archived yet, up to there. If it fails half-way, what is done is kept."""
        begun = time.monotonic()
        report = ArchiveReport(self._topic, self._directory, self._plan(until))

        def show() -> None:
            report.seconds = time.monotonic() - begun
            if on_progress is not None:
                on_progress(report)

        try:
            try:
                for part in report.partitions:
                    for _ in self._archive(part):
                        show()
            except (OctoloomError, KeyboardInterrupt):
                self._commit()
                raise
            self._commit()
        except OSError as error:
            text = f"cannot write the archive of {self._topic} in {self._directory} ({error})"
            raise StoreError(f"{text}: check its rights and the free space, then run it again") from error
        show()
        return report

    def _plan(self, until: Until) -> list[PartitionReport]:
        """Where each partition goes on, and how far. Nothing is written if one of them has lost something."""
        places = [(self._topic, number) for number in self._log.partitions(self._topic)]
        bounds = self._log.bounds(places)
        times = self._log.offsets_at(places, until.ms) if isinstance(until, Timestamp) else {}
        plan = []
        for place in places:
            first, high = bounds[place]
            archived = self._manifest.bounds(place[1])
            start = archived[1] if archived is not None else first
            end = high
            if isinstance(until, int):
                end = min(until, high)
            elif isinstance(until, Timestamp):
                end = times[place] if times[place] >= 0 else high
            elif until == "sealed":
                end = high - (high - max(start, first)) % self._file_rows
            lost = max(first - start, 0) if end > start else 0
            if lost and not self._allows_gaps:
                raise self._lost(place[1], start, first)
            start += lost
            plan.append(PartitionReport(place[1], start, start, max(end, start), lost=lost))
        return plan

    def _lost(self, partition: int, start: int, first: int) -> RecordsLost:
        gone = f"the offsets {start} to {first - 1} of {self._topic}-{partition}"
        text = f"retention removed {gone} before they were archived"
        return RecordsLost(f"{text}: allow gaps (--allow-gaps) to go on behind them, and archive more often")

    def _archive(self, part: PartitionReport) -> Iterator[None]:
        """Writes files until the partition has come to its end. Yields whenever there is progress to show."""
        while part.end < part.until:
            writer = FileWriter(folder_of(self._directory, self._topic), part.partition, part.end, self._codec)
            try:
                is_kept = yield from self._fill(writer, part)
                file = writer.finish(part.end) if is_kept else None
            finally:
                writer.close()
            if file is None:
                continue
            part.files += 1
            part.bytes += file.bytes
            self._finished.append(file)
            if time.monotonic() - self._committed_at > COMMIT_S:
                self._commit()
            yield

    def _fill(self, writer: FileWriter, part: PartitionReport) -> Generator[None, None, bool]:
        """Adds records until the file is full, the partition is through, or records are missing.

        A gap lies between two files: if records are missing, the file ends there, and is not kept if it is empty.
        """
        end = min(part.until, part.end + self._file_rows)
        try:
            for rows in self._log.rows(Range(self._topic, part.partition, part.end, end), ALL):
                writer.add(rows)
                part.rows += rows.num_rows
                part.end = rows.column("offset")[-1].as_py() + 1
                yield
                if writer.size >= FILE_BYTES:
                    return True
        except OffsetsGone as gone:
            if not writer.rows:
                self._skip(part, gone)
            return writer.rows > 0
        part.end = end
        return True

    def _skip(self, part: PartitionReport, gone: OffsetsGone) -> None:
        """Retention was faster: the partition goes on behind what is gone."""
        if gone.first <= part.end:
            raise gone
        if not self._allows_gaps:
            raise self._lost(part.partition, part.end, gone.first) from gone
        part.lost += min(gone.first, part.until) - part.end
        part.end = min(gone.first, part.until)

    def _commit(self) -> None:
        """Names in the manifest what was finished."""
        if self._finished:
            self._manifest = self._manifest.with_files(self._finished)
            save_manifest(self._directory, self._manifest)
            self._finished = []
        self._committed_at = time.monotonic()
