"""The source as a stream: every record once, over batches, restarts, deaths of brokers, and topics that come later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from octoloom.spark.failures import short
from octoloom.spark.fetching import OffsetsGone
from octoloom.spark.options import source_options
from octoloom.spark.ranges import Range
from octoloom.spark.source import StreamReader
from tests.clients.cluster import Cluster
from tests.spark.conftest import MakeTopic
from tests.spark.kafka_rows import QUIET, Row, kill_leader, read, revive, rows_of, write
from tests.spark.test_fetching import trim
from tests.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.spark


class Heard:
    """What a stream brought, batch by batch."""

    def __init__(self) -> None:
        self.batches: list[list[Row]] = []

    def __call__(self, frame: DataFrame, _number: int) -> None:
        self.batches.append(rows_of([frame.toArrow()]))

    @property
    def rows(self) -> list[Row]:
        return sorted(row for batch in self.batches for row in batch)

    def until(self, count: int, query: StreamingQuery) -> None:
        until(lambda: len(self.rows) >= count or not query.isActive, f"{count} rows", pause_s=0.05)
        assert len(self.rows) == count, query.exception()


def stream(spark: SparkSession, checkpoint: Path, heard: Heard, **options: Any) -> DataStreamWriter:
    frame = spark.readStream.format("octoloom").options(startingOffsets="earliest", **options).load()
    return frame.writeStream.foreachBatch(heard).option("checkpointLocation", str(checkpoint))


def run_out(writer: DataStreamWriter) -> StreamingQuery:
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(int(PATIENCE_S)), "the stream does not end"
    return query


def admin_of(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, **QUIET})


def done(futures: dict[str, Any]) -> None:
    [future] = futures.values()
    future.result(PATIENCE_S)


def test_what_is_there_now_in_bounded_batches_and_then_the_rest(
    spark: SparkSession, bootstrap: str, topic: MakeTopic, tmp_path: Path
) -> None:
    name = topic(partitions=2)
    write(bootstrap, name, 2, 20)
    heard = Heard()
    said = {"bootstrap": bootstrap, "topic": name, "maxOffsetsPerTrigger": 90, "minPartitions": 3}
    run_out(stream(spark, tmp_path, heard, **said))
    assert heard.rows == read(bootstrap, name, 2, 100)
    assert [len(batch) <= 90 for batch in heard.batches] == [True] * 3
    kept = (tmp_path / "offsets" / "2").read_text().splitlines()[-1]
    assert json.loads(kept) == {name: {"0": 100, "1": 100}}

    admin = admin_of(bootstrap)
    done(admin.create_partitions([NewPartitions(name, 3)]))
    write(bootstrap, name, 3, 10, ["lz4"])
    run_out(stream(spark, tmp_path, heard, **said))
    assert len(heard.rows) == 230
    assert len(set(heard.rows)) == 230
    # The third partition was new, and is there from its beginning.
    assert [row.offset for row in heard.rows if row.partition == 2] == list(range(10))

    trim(bootstrap, name, 110)
    write(bootstrap, name, 1, 5, ["none"])
    trim(bootstrap, name, 113)
    query = stream(spark, tmp_path, heard, **said).trigger(availableNow=True).start()
    with pytest.raises(Exception, match="it holds 113 to 114") as error:
        query.awaitTermination(int(PATIENCE_S))
    assert f"of topic {name}, partition 0, cannot be read" in short(error.value)
    lenient = reader(bootstrap, topic=name, failOnDataLoss="false")
    start = {name: {"0": 110, "1": 110, "2": 10}}
    [partition] = lenient.partitions(start, lenient.latestOffset(start, ReadAllAvailable()))
    assert [row.offset for row in rows_of(lenient.read(partition))] == [113, 114]
    lenient.stop()


def test_a_stream_goes_on_over_a_dead_broker_and_finds_a_new_topic(
    spark: SparkSession, brokers: Cluster, bootstrap: str, topic: MakeTopic, tmp_path: Path
) -> None:
    name = topic(partitions=3)
    later = f"{name}-later"
    heard = Heard()
    write(bootstrap, name, 3, 10, ["gzip"])
    query = stream(spark, tmp_path, heard, bootstrap=bootstrap, subscribePattern=f"{name}(-later)?").start()
    try:
        heard.until(30, query)
        dead = kill_leader(brokers, name)
        write(bootstrap, name, 3, 10, ["snappy"])
        heard.until(60, query)
        revive(brokers, dead)
        admin = admin_of(bootstrap)
        done(admin.create_topics([NewTopic(later, 1, 3)]))
        write(bootstrap, later, 1, 10, ["none"])
        heard.until(70, query)
    finally:
        query.stop()
    assert heard.rows == read(bootstrap, name, 3, 20) + read(bootstrap, later, 1, 10)


# The planner's part, without Spark around it.


def reader(bootstrap: str, **options: str) -> StreamReader:
    return StreamReader(source_options({"bootstrap": bootstrap, **options}).for_stream())


def test_the_planner_keeps_to_its_limits(bootstrap: str, topic: MakeTopic) -> None:
    name = topic()
    write(bootstrap, name, 1, 50, ["none"])
    planner = reader(bootstrap, topic=name, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    start = planner.initialOffset()
    assert start == {name: {"0": 0}}
    assert planner.getDefaultReadLimit() == ReadMaxRows(20)
    assert reader(bootstrap, topic=name).getDefaultReadLimit() == ReadAllAvailable()
    assert planner.latestOffset(start, ReadMaxRows(20)) == {name: {"0": 20}}
    assert planner.latestOffset(start, ReadAllAvailable()) == {name: {"0": 50}}
    assert planner.reportLatestOffset() == {name: {"0": 50}}
    [partition] = planner.partitions({name: {"0": 20}}, {name: {"0": 40}})
    assert partition.value == Range(name, 0, 20, 40)
    assert list(planner.read(InputPartition(None))) == []
    planner.commit(start)
    planner.stop()
    # After it was stopped it opens again, which is what it does after an error.
    assert planner.latestOffset(start, ReadMaxRows(20)) == {name: {"0": 20}}
    planner.stop()


def test_a_topic_that_was_made_anew_is_data_loss(bootstrap: str, topic: MakeTopic) -> None:
    name = topic()
    write(bootstrap, name, 1, 20, ["none"])
    start = {name: {"0": 20}}
    strict, lenient = reader(bootstrap, topic=name), reader(bootstrap, topic=name, failOnDataLoss="false")
    assert strict.latestOffset(start, ReadAllAvailable()) == start
    admin = admin_of(bootstrap)
    done(admin.delete_topics([name]))
    done(admin.create_topics([NewTopic(name, 1, 3)]))
    write(bootstrap, name, 1, 5, ["none"])
    with pytest.raises(OffsetsGone, match=f"offset 20 of topic {name}, partition 0, cannot be read: it holds 0 to 4"):
        strict.latestOffset(start, ReadAllAvailable())
    end = lenient.latestOffset(start, ReadAllAvailable())
    [partition] = lenient.partitions(start, end)
    assert rows_of(lenient.read(partition)) == read(bootstrap, name, 1, 5)
    strict.stop()
    lenient.stop()
