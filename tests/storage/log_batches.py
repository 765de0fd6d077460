"""Batches to fill logs with, and ways to read all of a log back."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from octoloom.storage.log import Log, LogSettings
from octoloom.storage.log_damage import DamagedLog
from octoloom.wire.kafka.batches import read_header
from octoloom.wire.kafka.records import Record, build_batch

SMALL = LogSettings(segment_bytes=4096, index_bytes=512, checkpoint_bytes=1024)
FAR = 1 << 62


def make_batch(
    offset: int, size: int = 100, epoch: int = 0, time: int = 1000, count: int = 1, codec: str = "none"
) -> bytes:
    """A batch of about `size` bytes that no other offset has."""
    filler = (b"%d " % offset) * (size // count // 2 + 1)
    body = max(1, (size - 61) // count - 8)
    records = [Record(0, time + at, None, filler[:body]) for at in range(count)]
    return build_batch(records, codec=codec, base_offset=offset, leader_epoch=epoch)


def append(log: Log, batches: Sequence[bytes]) -> None:
    log.append(batches, [read_header(batch) for batch in batches])


def fill(log: Log, count: int, size: int = 300, epochs: int = 1) -> list[bytes]:
    """Appends so many batches of three records, one at a time; they rise in time and, now and then, in epoch."""
    batches = []
    for number in range(count):
        batch = make_batch(log.end, size, epoch=number * epochs // count, time=1000 + 10 * number, count=3)
        append(log, [batch])
        batches.append(batch)
    return batches


def split(data: bytes) -> list[bytes]:
    """Batches that lie one behind the other."""
    batches = []
    while data:
        size = read_header(data).size
        batches.append(data[:size])
        data = data[size:]
    return batches


def read_all(log: Log, bytes_max: int = 1 << 20) -> list[bytes]:
    batches: list[bytes] = []
    offset = log.start
    while (found := log.read(offset, bytes_max, log.end)) is not None:
        assert found.next_offset > offset
        batches += split(found.read())
        offset = found.next_offset
    assert offset == log.end
    return batches


def drain(log: Log) -> list[bytes]:
    """Reads everything as a broker would: what is damaged is cut off where the log says it is."""
    while True:
        try:
            return read_all(log)
        except DamagedLog as damage:
            whole = damage.offset
        assert log.truncate(whole) == whole


@contextmanager
def quick_directory() -> Iterator[Path]:
    """A directory in memory where there is one: for tests that open thousands of logs and sync each."""
    memory = Path("/dev/shm")
    path = tempfile.mkdtemp(prefix="octoloom-log-", dir=memory if os.access(memory, os.W_OK) else None)
    try:
        yield Path(path)
    finally:
        shutil.rmtree(path)


def open_files(folder: Path) -> int:
    """How many descriptors this process holds of files in there: others come and go as they like."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            count += Path(os.readlink(descriptor)).is_relative_to(folder.resolve())
    return count
