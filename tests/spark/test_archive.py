"""Archive and log as one: every record once, wherever it is by now."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from octoloom.core.errors import UsageError
from octoloom.spark import archive_reading
from octoloom.spark.archive import Archive, check_archive
from octoloom.spark.archive_files import CODECS, FileWriter
from octoloom.spark.archive_manifest import ArchiveDamaged, load_manifest
from octoloom.spark.archive_reading import read_file
from octoloom.spark.archive_table import topic_table
from octoloom.spark.archiving import Archiver, archive_topic
from octoloom.spark.fetching import OffsetsGone
from octoloom.spark.options import source_options
from octoloom.spark.planning import rows_of as rows_with_losses
from octoloom.spark.ranges import Range
from octoloom.spark.record_batches import ALL, SCHEMA, schema_of
from tests.clients.cluster import Cluster
from tests.spark.archived_logs import TOPIC, Disk, expected, ms_of, rows
from tests.spark.kafka_rows import QUIET, Row, read, rows_of, write
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACE = (TOPIC, 0)


def archive_all(disk: Disk, file_rows: int = 10, allow_gaps: bool = False) -> None:
    with disk.archiver(file_rows, allow_gaps) as archiver:
        archiver.run()


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """25 records, archived in three files, and 15 more."""
    disk = Disk(tmp_path)
    disk.write(25, headers=True)
    archive_all(disk)
    disk.write(15)
    return disk


ROWS = expected(0, 25, headers=True) + expected(25, 40)


@pytest.mark.parametrize("trimmed", [0, 7, 20, 25])
def test_any_range_comes_once_whatever_the_log_still_has(disk: Disk, trimmed: int) -> None:
    disk.trim(trimmed)
    archive = Archive(disk.archive, disk.log())
    assert archive.bounds([PLACE]) == {PLACE: (0, 40)}
    dice = random.Random(trimmed)
    for start, end in [(0, 40), *(sorted(dice.choices(range(41), k=2)) for _ in range(30))]:
        assert rows(archive, start, end) == ROWS[start:end], (start, end)


@pytest.mark.parametrize(
    "columns", [("offset",), ("topic", "partition"), ("value", "key"), ("timestampType",), ALL[::-1]]
)
def test_only_the_columns_that_are_asked_for_in_that_order(disk: Disk, columns: tuple[str, ...]) -> None:
    batches = list(Archive(disk.archive, disk.log()).rows(Range(*PLACE, 3, 33), columns))
    assert all(batch.schema == schema_of(columns) for batch in batches)
    found = pa.Table.from_batches(batches).to_pylist()
    whole = pa.Table.from_batches(list(disk.log().rows(Range(*PLACE, 3, 33), ALL))).to_pylist()
    assert found == [{name: row[name] for name in columns} for row in whole]


def test_small_batches_and_groups_are_cut_right(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_reading, "BATCH_ROWS", 3)
    archive = Archive(disk.archive, disk.log())
    for start in range(0, 25, 4):
        assert rows(archive, start, 38) == ROWS[start:38]
        offsets = archive.rows(Range(*PLACE, start, 25), ["offset"])
        assert [one for batch in offsets for one in batch["offset"].to_pylist()] == list(range(start, 25))


def test_offsets_that_never_held_a_record_leave_no_hole(tmp_path: Path) -> None:
    writer = FileWriter(str(tmp_path), 3, 10, "none")
    offsets = [11, 12, 17, 18]
    some = {"key": None, "value": b"v", "topic": "moves", "partition": 3, "timestampType": 1, "headers": None}
    writer.add(
        pa.RecordBatch.from_pylist([{**some, "offset": one, "timestamp": one} for one in offsets], schema=SCHEMA)
    )
    file = writer.finish(20)
    writer.close()
    assert (file.rows, file.is_dense, file.time_type) == (4, False, 1)
    for start, end in ((10, 20), (12, 18), (13, 17), (18, 20), (0, 99)):
        found = list(read_file(str(tmp_path), "moves", file, start, end, ["partition", "offset"]))
        wanted = [one for one in offsets if start <= one < end]
        assert [one for batch, _ in found for one in batch["offset"].to_pylist()] == wanted
        assert [after for _, after in found] == ([wanted[-1] + 1] if wanted else [])


@pytest.mark.parametrize("codec", CODECS)
def test_any_reader_of_parquet_can_read_a_file(tmp_path: Path, codec: str) -> None:
    disk = Disk(tmp_path)
    disk.write(9, headers=True)
    with Archiver(disk.log(), TOPIC, disk.archive, codec=codec) as archiver:
        archiver.run()
    [path] = (Path(disk.archive) / TOPIC).glob("*.parquet")
    table = pq.read_table(path)
    assert table.schema.equals(SCHEMA)
    assert rows_of([table]) == expected(0, 9, headers=True)


def test_times_are_found_in_the_archive_and_then_in_the_log(disk: Disk) -> None:
    whole = disk.log()
    archive = Archive(disk.archive, whole)
    for offset in range(0, 42, 3):
        wanted = whole.offsets_at([PLACE], ms_of(offset) - 1)
        assert archive.offsets_at([PLACE], ms_of(offset) - 1) == wanted
        assert wanted[PLACE] == (offset if offset < 40 else -1)


# What is missing.


def test_a_gap_is_said_and_can_be_passed(disk: Disk) -> None:
    disk.trim(31)
    archive = Archive(disk.archive, disk.log())
    with pytest.raises(OffsetsGone) as gone:
        rows(archive, 0, 40)
    assert gone.value.wanted == Range(*PLACE, 25, 40)
    assert (gone.value.first, gone.value.high) == (31, 40)
    assert found_with_losses(archive) == ROWS[:25] + ROWS[31:]
    # The same if the gap lies between two files, and the log begins behind the second.
    archive_all(disk, allow_gaps=True)
    disk.trim(38)
    for log in (disk.log(), None):
        archive = Archive(disk.archive, log)
        with pytest.raises(OffsetsGone) as gone:
            rows(archive, 0, 40)
        assert gone.value.first == 31
        assert found_with_losses(archive) == ROWS[:25] + ROWS[31:]


def found_with_losses(archive: Archive) -> list[Row]:
    options = source_options({"archive": "here", "topic": TOPIC, "failOnDataLoss": "false"})
    return rows_of(rows_with_losses(archive, Range(*PLACE, 0, 40), options))


def test_an_archive_alone_ends_with_its_last_file(disk: Disk) -> None:
    archive = Archive(disk.archive)
    assert archive.topics() == {TOPIC: [0]}
    assert archive.topics("m.*") == {TOPIC: [0]}
    assert archive.topics("o.*") == {}
    assert archive.bounds([PLACE, (TOPIC, 5)]) == {PLACE: (0, 25), (TOPIC, 5): (0, 0)}
    assert archive.offsets_at([PLACE], ms_of(24)) == {PLACE: 24}
    assert archive.offsets_at([PLACE], ms_of(25)) == {PLACE: -1}
    assert rows(archive, 0, 25) == ROWS[:25]
    with pytest.raises(OffsetsGone):
        rows(archive, 20, 26)
    with pytest.raises(UsageError, match="no archive of other"):
        archive.partitions("other")
    with pytest.raises(UsageError, match="there is no directory"):
        Archive("/nowhere/at/all", disk.log()).bounds([PLACE])


def test_a_topic_without_an_archive_is_read_from_the_log(disk: Disk, tmp_path: Path) -> None:
    archive = Archive(str(tmp_path), disk.log())
    assert archive.bounds([PLACE]) == {PLACE: (0, 40)}
    assert rows(archive, 0, 40) == ROWS


def test_an_archive_that_grows_is_seen(disk: Disk) -> None:
    archive = Archive(disk.archive)
    assert archive.bounds([PLACE]) == {PLACE: (0, 25)}
    archive_all(disk)
    assert archive.bounds([PLACE]) == {PLACE: (0, 40)}
    assert rows(archive, 0, 40) == ROWS


# Damage.


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    # In the middle of the pages; the footer comes last.
    at = data.index(b"value 1") if b"value 1" in data else len(data) // 3
    data[at] ^= 0x01
    path.write_bytes(data)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize("damage", [flipped, cut, Path.unlink])
def test_damage_is_never_served(tmp_path: Path, damage: Any) -> None:
    disk = Disk(tmp_path)
    disk.write(25)
    with Archiver(disk.log(), TOPIC, disk.archive, 10, "none") as archiver:
        archiver.run()
    manifest = load_manifest(disk.archive, TOPIC)
    assert manifest is not None
    damage(Path(disk.archive) / TOPIC / manifest.files[1].name)
    assert rows(Archive(disk.archive, disk.log()), 0, 25) == expected(0, 25)
    alone = Archive(disk.archive)
    assert rows(alone, 0, 10) == expected(0, 10)
    assert rows(alone, 20, 25) == expected(20, 25)
    with pytest.raises(ArchiveDamaged, match="is not what was archived"):
        rows(alone, 0, 25)
    disk.trim(15)
    with pytest.raises(ArchiveDamaged, match="is not what was archived"):
        rows(Archive(disk.archive, disk.log()), 0, 25)
    [found] = check_archive(disk.archive, TOPIC)
    assert manifest.files[1].name in str(found)


# On brokers and Spark.


def trim(bootstrap: str, offsets: dict[tuple[str, int], int]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for done in admin.delete_records([TopicPartition(*place, offset) for place, offset in offsets.items()]).values():
        done.result(PATIENCE_S)


@pytest.fixture
def half_archived(
    brokers: Cluster, bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str, list[Row]]:
    """A topic of two partitions: the first half is archived, and the log has lost its head. (name, archive, rows)"""
    name, directory = brokers.topic(2), str(tmp_path_factory.mktemp("archive"))
    write(bootstrap, name, 2, 30)
    archive_topic(bootstrap, name, directory, file_rows=40)
    write(bootstrap, name, 2, 30)
    written = read(bootstrap, name, 2, 300)
    trim(bootstrap, {(name, 0): 150, (name, 1): 77})
    return name, directory, written


@pytest.mark.spark
def test_spark_reads_archive_and_log_as_one(
    spark: SparkSession, bootstrap: str, half_archived: tuple[str, str, list[Row]]
) -> None:
    name, directory, written = half_archived
    reading = spark.read.format("octoloom").option("bootstrap", bootstrap).option("topic", name)
    frame = reading.option("archive", directory).option("minPartitions", 5).load()
    assert rows_of([frame.toArrow()]) == written
    # And with Spark's own reader of Parquet, for which the files that no manifest names are not there.
    Path(f"{directory}/{name}/00000-{0:020d}-{7:020d}.parquet").write_bytes(b"remains")
    assert rows_of([topic_table(spark, name, directory, bootstrap).toArrow()]) == written
    alone = topic_table(spark, name, directory)
    assert (alone.count(), alone.schema) == (300, frame.schema)


@pytest.mark.spark
def test_a_stream_begins_in_the_archive_and_goes_on_in_the_log(
    spark: SparkSession, brokers: Cluster, bootstrap: str, half_archived: tuple[str, str, list[Row]], tmp_path: Path
) -> None:
    name, directory, written = half_archived
    paths = ",".join(str(brokers.log.data / f"b{number}") for number in (1, 2, 3))
    stream = spark.readStream.format("octoloom").option("bootstrap", bootstrap).option("topic", name)
    stream = stream.option("archive", directory).option("path", paths).option("startingOffsets", "earliest")
    frame = stream.option("maxOffsetsPerTrigger", 250).load()

    def run() -> list[Row]:
        sink = frame.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        sink.option("checkpointLocation", str(tmp_path / "marks")).trigger(availableNow=True).start().awaitTermination()
        return rows_of([spark.read.parquet(str(tmp_path / "out")).select(*ALL).toArrow()])

    assert run() == written
    # The archive grows beyond what the stream has read, and the log loses even that.
    write(bootstrap, name, 2, 4, ["none"])
    archive_topic(bootstrap, name, directory)
    trim(bootstrap, {(name, 0): 304, (name, 1): 302})
    found = run()
    assert found[:300] + found[304:604] == written
    assert [(row.partition, row.offset) for row in found] == [(part, at) for part in (0, 1) for at in range(304)]
