"""One file of an archive: how records become Parquet.

Columns and types are those of the source, so that any reader of Parquet understands a file. The settings are chosen for
reading: binary columns are plain (a dictionary of keys or values costs a third more to read and saves little after
compression), pages are compressed with LZ4, which costs half of what Snappy does, and carry a checksum each, which is
looked at whenever they are read.

Memory is bounded by a row group, which ends by rows or by bytes, whichever comes first.
"""

from __future__ import annotations

import io
import os
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from crc32c import crc32c

from octoloom.core.errors import UsageError
from octoloom.spark.archive_manifest import ArchivedFile, checksum_text
from octoloom.spark.record_batches import SCHEMA
from octoloom.storage.log_files import TEMPORARY, remove, sync_directory

CODECS = ("lz4", "zstd", "snappy", "none")
GROUP_ROWS = 131_072
GROUP_BYTES = 64 * 1024 * 1024
"""A row group ends when it has so many rows, or so many bytes before compression."""
PART_ROWS = 8_192
BUFFER_BYTES = 1024 * 1024

_DICTIONARY = ["topic", "partition", "timestampType"]


class _Checked(io.RawIOBase):
    """A new file that knows the checksum of all that was written to it."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "wb", buffering=BUFFER_BYTES)  # noqa: SIM115
        self.crc = 0
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        if self._file.closed:
            # Parquet's writer says its last words even about a file that is given up.
            return len(view)
        self.crc = crc32c(view, self.crc)
        self.size += len(view)
        return self._file.write(view)

    def finish(self) -> None:
        """Puts all of it on disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def give_up(self) -> None:
        with suppress(OSError):
            self._file.close()


class FileWriter:
    """Writes the records of one partition from offset `first` on into a file that has no name yet."""

    def __init__(self, folder: str, partition: int, first: int, codec: str) -> None:
        if codec not in CODECS:
            raise UsageError(f"{codec!r} is no way to compress an archive: choose one of {', '.join(CODECS)}")
        self._folder, self._partition, self._first = folder, partition, first
        self.rows = self.size = 0
        self._times: list[int] = []
        self._types: set[int] = set()
        self._has_headers = False
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._path = os.path.join(folder, f".{partition:05d}-{first:020d}-{0:020d}.parquet{TEMPORARY}")
        self._sink = _Checked(self._path)
        self._parquet = pq.ParquetWriter(
            pa.PythonFile(self._sink, "w"),
            SCHEMA,
            compression=codec,
            use_dictionary=_DICTIONARY,
            write_statistics=["offset", "timestamp"],
            write_page_checksum=True,
        )

    def add(self, rows: pa.RecordBatch) -> None:
        """The next records, with all columns."""
        if not rows.num_rows:
            return
        times = rows.column("timestamp").cast(pa.int64())
        self._times += [pc.min(times).as_py() // 1000, pc.max(times).as_py() // 1000]
        self._times = [min(self._times), max(self._times)]
        self._types |= set(pc.unique(rows.column("timestampType")).to_pylist())
        headers = rows.column("headers")
        self._has_headers |= headers.null_count < len(headers)
        self.rows += rows.num_rows
        self.size += rows.nbytes
        for first in range(0, rows.num_rows, PART_ROWS):
            part = rows.slice(first, PART_ROWS)
            self._waiting.append(part)
            self._waiting_rows += part.num_rows
            self._waiting_bytes += part.nbytes
            if self._waiting_rows >= GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
                self._write_group()

    def _write_group(self) -> None:
        if self._waiting:
            self._parquet.write_table(pa.Table.from_batches(self._waiting), row_group_size=self._waiting_rows)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def finish(self, end: int) -> ArchivedFile:
        """All records below `end` were added: the file is put on disk under its name."""
        self._write_group()
        self._parquet.close()
        self._sink.finish()
        file = ArchivedFile(
            partition=self._partition,
            first=self._first,
            end=end,
            rows=self.rows,
            time_min=self._times[0] if self._times else -1,
            time_max=self._times[1] if self._times else -1,
            time_type=next(iter(self._types)) if len(self._types) == 1 else None,
            has_headers=self._has_headers,
            bytes=self._sink.size,
            checksum=checksum_text(self._sink.crc),
        )
        os.rename(self._path, os.path.join(self._folder, file.name))
        sync_directory(self._folder)
        return file

    def close(self) -> None:
        """Nothing is left of a file that was not finished."""
        self._sink.give_up()
        with suppress(pa.ArrowException, OSError):
            self._parquet.close()
        remove(self._path)
