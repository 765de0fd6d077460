"""The brokers' logs, audited where they are read: a task for some partitions, each batch's bytes and header checked.

Batches come from the leaders as they lie in their logs. Where the brokers' directories are on this machine, all
replicas of a partition are compared as well: below the watermark of both they must be the same, batch for batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from crc32c import crc32c

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.log_audit import Batch, PartitionAudit, PartitionVerdict
from octoloom.spark import failures
from octoloom.spark.acknowledgements import Told
from octoloom.spark.fetching import OffsetsGone, Reader
from octoloom.spark.local_segments import LocalSegments
from octoloom.spark.ranges import Range
from octoloom.storage.log_damage import DamagedLog
from octoloom.wire.kafka.batches import HEADER_SIZE, BatchHeader, Buffer, CorruptBatch, check_batches, read_header
from octoloom.wire.kafka.records import read_records

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

PARTITIONS_MAX = 100_000
_CONTROL = 0x20


class LogTask:
    """What an executor does with ranges, given as rows of topic, partition, start and end."""

    def __init__(self, bootstrap: str, directories: Sequence[str], told: Told, now_ms: int) -> None:
        self._bootstrap, self._directories = bootstrap, list(directories)
        self._told, self._now_ms = told, now_ms

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with Reader(self._bootstrap) as reader:
            for rows in batches:
                verdicts = [self.judge(reader, Range(**row)) for row in rows.to_pylist()]
                texts = [msgspec.json.encode(verdict).decode() for verdict in verdicts]
                yield pa.RecordBatch.from_pydict({"report": pa.array(texts, pa.string())})

    def judge(self, reader: Reader, wanted: Range) -> PartitionVerdict:
        audit = PartitionAudit(*wanted, self._now_ms, self._told.written.get(wanted.place, ()))
        try:
            for buffer in reader.raw(*wanted):
                read_batches(audit, buffer)
        except OffsetsGone as gone:
            audit.findings.add("offset-gap", str(gone), partition=wanted.partition)
        if self._directories:
            compare_replicas(audit, LocalSegments(self._directories), wanted)
        return audit.finish()


def read_batches(audit: PartitionAudit, buffer: Buffer) -> None:
    """Feeds whole batches to an audit, damaged ones by name."""
    view, position = memoryview(buffer), 0
    while position < len(view):
        try:
            header = _header(view, position)
        except ProtocolError as error:
            audit.damaged(f"{error.detail}: what follows cannot be read", audit.next_offset, audit.next_offset)
            return
        body = view[position : position + header.size]
        position += header.size
        try:
            check_batches(body)
            audit.read(_batch(header))
            if audit.wants_keys and not header.attributes & _CONTROL:
                for record in read_records(body):
                    audit.key(record.offset, record.key)
        except ProtocolError as error:
            audit.damaged(error.detail, header.base_offset, max(header.next_offset, header.base_offset + 1))


def _header(view: memoryview, position: int) -> BatchHeader:
    """A header whose size leads on, and not beyond the end."""
    left = len(view) - position
    header = read_header(view, position) if left >= HEADER_SIZE else None
    if header is None or not HEADER_SIZE <= header.size <= left:
        raise CorruptBatch(f"{left} bytes are no whole batch")
    return header


def _batch(header: BatchHeader) -> Batch:
    return Batch(
        header.base_offset,
        header.count,
        header.leader_epoch,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )


def compare_replicas(audit: PartitionAudit, local: LocalSegments, wanted: Range) -> None:
    """Every replica here against the one with the most: the same batches at the same offsets."""
    replicas = local._replicas(wanted.place)
    known: dict[int, int] = {}
    for number, (replica, start, high) in enumerate(replicas):
        try:
            for piece, _ in replica.pieces(start, min(high, wanted.end)):
                for header, digest in _digests(piece):
                    if number and known.get(header.base_offset, digest) != digest:
                        text = f"{replica.folder} has other bytes than {replicas[0][0].folder}"
                        audit.findings.add(
                            "replicas-differ", text, partition=wanted.partition, offset=header.base_offset
                        )
                        break
                    if not number:
                        known[header.base_offset] = digest
        except DamagedLog as damage:
            audit.findings.add("batch-damaged", str(damage), partition=wanted.partition, offset=damage.offset)


def _digests(piece: memoryview) -> Iterator[tuple[BatchHeader, int]]:
    position = 0
    while position < len(piece):
        header = _header(piece, position)
        yield header, crc32c(piece[position : position + header.size])
        position += header.size


def log_verdicts(
    spark: SparkSession,
    bootstrap: str,
    topics: Sequence[str] = (),
    *,
    directories: Sequence[str] = (),
    told: Told | None = None,
) -> list[PartitionVerdict]:
    """A verdict for each partition of these topics, or of all."""
    told = told or Told()
    with Reader(bootstrap) as reader:
        names = list(topics) or list(reader.topics())
        places = [(name, partition) for name in names for partition in reader.partitions(name)]
        if len(places) > PARTITIONS_MAX:
            raise UsageError(f"{len(places):,} partitions are more than {PARTITIONS_MAX:,}: name fewer topics")
        bounds = reader.bounds(places)
    rows = [(*place, start, end) for place, (start, end) in sorted(bounds.items())]
    task = LogTask(bootstrap, directories, told, time.time_ns() // 1_000_000)
    with failures.told():
        frame = spark.createDataFrame(rows, "topic string, partition int, start long, end long")
        spread = frame.repartition(max(1, min(len(rows), 4 * spark.sparkContext.defaultParallelism)))
        found = spread.mapInArrow(task, "report string").collect()
    verdicts = [msgspec.json.decode(row["report"], type=PartitionVerdict) for row in found]
    verdicts += _unknown(told, bounds)
    return sorted(verdicts, key=lambda verdict: (verdict.topic, verdict.partition))


def _unknown(told: Told, bounds: dict[tuple[str, int], tuple[int, int]]) -> list[PartitionVerdict]:
    """Acknowledgements of partitions that are not there at all."""
    return [
        PartitionAudit(*place, 0, 0, 0, written).finish()
        for place, written in told.written.items()
        if place not in bounds
    ]
