"""Logs on disk to be archived without a broker, and all that an origin gives of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from octoloom.runtime.broker_logs import SIDE, Side
from octoloom.spark.archiving import Archiver
from octoloom.spark.fetching import Origin
from octoloom.spark.local_segments import LocalSegments
from octoloom.spark.ranges import Range
from octoloom.spark.record_batches import ALL
from octoloom.storage.log import Log
from octoloom.wire.kafka.batches import read_header
from octoloom.wire.kafka.records import Headers, Record, build_batch
from tests.spark.kafka_rows import Row, rows_of

TOPIC = "moves"
HEADERS: Headers = (("trace", b"7f"), ("none", None))


class Disk:
    """The data directory of a broker that is not running, with one topic, and a folder for its archive."""

    def __init__(self, data: Path, number: int = 1) -> None:
        self.data, self.archive, self._number = data / "b1", str(data / "archive"), number

    def write(self, count: int, partition: int = 0, batch: int = 7, headers: bool = False) -> None:
        """Appends records, all of them committed; offset n was written n seconds after the year 2001 began."""
        log = Log.open(self.data / "logs" / f"{TOPIC}@{self._number}-{partition}")
        end = log.end + count
        while log.end < end:
            records = [record(offset, headers) for offset in range(log.end, min(log.end + batch, end))]
            made = build_batch(records, base_offset=log.end, leader_epoch=0)
            log.append([made], [read_header(made)])
        log.save_side(SIDE, msgspec.msgpack.encode(Side(log.end, 0, [])))
        log.close()

    def trim(self, offset: int, partition: int = 0) -> None:
        log = Log.open(self.data / "logs" / f"{TOPIC}@{self._number}-{partition}")
        log.trim(offset)
        log.close()

    def log(self) -> LocalSegments:
        return LocalSegments([str(self.data)])

    def archiver(self, file_rows: int = 10, allow_gaps: bool = False) -> Archiver:
        return Archiver(self.log(), TOPIC, self.archive, file_rows, allow_gaps=allow_gaps)


def ms_of(offset: int) -> int:
    return 978_307_200_000 + offset * 1000


def record(offset: int, headers: bool = False) -> Record:
    key = None if offset % 5 == 3 else b"key %d" % offset
    value = None if offset % 4 == 1 else b"value %d" % offset
    return Record(offset, ms_of(offset), key, value, HEADERS if headers and offset % 3 == 2 else ())


def expected(start: int, end: int, partition: int = 0, headers: bool = False) -> list[Row]:
    records = [record(offset, headers) for offset in range(start, end)]
    return [Row(TOPIC, partition, one.offset, one.key, one.value, one.timestamp, 0, one.headers) for one in records]


def rows(origin: Origin, start: int, end: int, partition: int = 0, columns: Sequence[str] = ALL) -> list[Row]:
    return rows_of(origin.rows(Range(TOPIC, partition, start, end), columns))
