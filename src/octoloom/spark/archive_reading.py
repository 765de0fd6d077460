"""One file of an archive, read back as Arrow batches with the columns that are asked for.

What the manifest says of a file is not read from it: topic and partition, offsets that follow one another, the kind of
timestamps, and headers where there are none. These columns are made where they are wanted; what is left to read is
keys, values and times, and of these only the row groups that the range touches.

Every page has a checksum, and the file has the size that the manifest says. What does not fit is `ArchiveDamaged`, and
nothing of it is handed out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from crc32c import crc32c

from octoloom.spark.archive_manifest import ArchiveDamaged, ArchivedFile, checksum_text
from octoloom.spark.record_batches import SCHEMA, schema_of

BATCH_ROWS = 32_768
BATCH_BYTES = 16 * 1024 * 1024
"""About as much is handed out at once; one row at least."""
CHECK_BYTES = 4 * 1024 * 1024

Offsets = npt.NDArray[np.int64]


def read_file(
    folder: str, topic: str, file: ArchivedFile, start: int, end: int, columns: Sequence[str]
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The records of a file from offset `start` up to `end`, which is left out; each batch with the offset after it."""
    schema = schema_of(columns)
    start, end = max(start, file.first), min(end, file.end)
    made = {name: make for name in columns if (make := _made(file, topic, name)) is not None}
    stored = [name for name in columns if name not in made]
    if not file.is_dense and "offset" not in stored:
        stored.append("offset")
    for offsets, rows in _rows(folder, file, start, end, stored):
        low, high = (int(place) for place in np.searchsorted(offsets, (start, end)))
        if low == high:
            continue
        arrays = [
            made[name](offsets[low:high]) if name in made else rows.column(stored.index(name)).slice(low, high - low)
            for name in columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema), int(offsets[high - 1]) + 1


def _made(file: ArchivedFile, topic: str, name: str) -> Callable[[Offsets], pa.Array] | None:
    """How to make a column without reading it, if that can be done."""
    if name == "topic":
        return lambda offsets: _repeated(topic, name, len(offsets))
    if name == "partition":
        return lambda offsets: _repeated(file.partition, name, len(offsets))
    if name == "offset" and file.is_dense:
        return lambda offsets: pa.array(offsets)
    if name == "timestampType" and file.time_type is not None:
        return lambda offsets: _repeated(file.time_type, name, len(offsets))
    if name == "headers" and not file.has_headers:
        return lambda offsets: _repeated(None, name, len(offsets))
    return None


@lru_cache(maxsize=64)
def _repeated(value: str | int | None, name: str, count: int) -> pa.Array:
    """A column that says the same all over. Most batches have the same size, so it is made once."""
    return pa.repeat(pa.scalar(value, SCHEMA.field(name).type), count)


def _rows(
    folder: str, file: ArchivedFile, start: int, end: int, stored: list[str]
) -> Iterator[tuple[Offsets, pa.RecordBatch]]:
    """The stored columns of the row groups that the range touches, with their offsets."""
    if not stored:
        for first in range(start, end, BATCH_ROWS):
            yield np.arange(first, min(first + BATCH_ROWS, end), dtype=np.int64), None
        return
    path = os.path.join(folder, file.name)
    try:
        with pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as parquet:
            if os.stat(path).st_size != file.bytes or parquet.metadata.num_rows != file.rows:
                raise damaged(path, f"{os.stat(path).st_size} bytes and {parquet.metadata.num_rows} rows")
            groups, position = _groups(parquet.metadata, file, start, end)
            size = _batch_rows(parquet.metadata)
            for rows in parquet.iter_batches(size, row_groups=groups, columns=stored, use_threads=False):
                if file.is_dense:
                    offsets = np.arange(position, position + rows.num_rows, dtype=np.int64)
                    position += rows.num_rows
                else:
                    offsets = rows.column("offset").to_numpy()
                yield offsets, rows.select(stored)
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, str(error)) from error


def _groups(metadata: Any, file: ArchivedFile, start: int, end: int) -> tuple[list[int], int]:
    """The row groups to read, and the offset of the first row in them if offsets follow one another."""
    counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    firsts = list(accumulate(counts, initial=file.first))
    if not file.is_dense:
        return list(range(len(counts))), file.first
    wanted = [number for number in range(len(counts)) if firsts[number] < end and firsts[number + 1] > start]
    return wanted, firsts[wanted[0]] if wanted else file.first


def _batch_rows(metadata: Any) -> int:
    rows: int = max(metadata.num_rows, 1)
    size: int = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    return max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(size, 1)))


def check_file(folder: str, file: ArchivedFile) -> None:
    """Reads all of a file and raises `ArchiveDamaged` if it is not the one that was written."""
    path, crc, size = os.path.join(folder, file.name), 0, 0
    try:
        with open(path, "rb") as reading:
            while data := reading.read(CHECK_BYTES):
                crc, size = crc32c(data, crc), size + len(data)
    except OSError as error:
        raise damaged(path, str(error)) from error
    if (size, checksum_text(crc)) != (file.bytes, file.checksum):
        raise damaged(path, f"{size} bytes with {checksum_text(crc)}, not {file.bytes} with {file.checksum}")


def damaged(path: str, why: str) -> ArchiveDamaged:
    return ArchiveDamaged(f"{path} is not what was archived ({why}): bring it back from a copy")
