"""The source in batches, on real Spark and real brokers: equal to what a Kafka consumer reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from octoloom.spark.failures import short
from octoloom.spark.options import source_options
from octoloom.spark.ranges import Range
from octoloom.spark.source import BatchReader, OctoloomSource, schema_of
from tests.clients.cluster import Cluster
from tests.spark.conftest import MakeTopic
from tests.spark.kafka_rows import kill_leader, read, revive, rows_of, write
from tests.spark.test_fetching import trim

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def load(spark: SparkSession, bootstrap: str, **options: Any) -> DataFrame:
    return spark.read.format("octoloom").options(bootstrap=bootstrap, **options).load()


def offsets(frame: DataFrame) -> dict[int, list[int]]:
    """The offsets by partition, in the order in which they were read."""
    found: dict[int, list[int]] = {}
    for row in frame.select("partition", "offset").collect():
        found.setdefault(row.partition, []).append(row.offset)
    return found


def refused(frame: Any) -> str:
    with pytest.raises(PySparkException) as error:
        frame().collect()
    return short(error.value)


def test_all_that_a_consumer_reads_while_a_leader_dies(
    spark: SparkSession, brokers: Cluster, bootstrap: str, topic: MakeTopic
) -> None:
    name = topic(partitions=3)
    write(bootstrap, name, 3, 100)
    expected = read(bootstrap, name, 3, 500)
    frame = load(spark, bootstrap, topic=name)
    # Planned while all brokers are there, and read when one of them is gone.
    frame.explain()
    dead = kill_leader(brokers, name, 1)
    try:
        assert rows_of([frame.toArrow()]) == expected
    finally:
        revive(brokers, dead)


def test_offsets_and_times_and_parts(spark: SparkSession, bootstrap: str, topic: MakeTopic) -> None:
    first, second = topic(partitions=2), topic()
    write(bootstrap, first, 2, 20, ["zstd"], first_ms=1_700_000_000_000)
    write(bootstrap, second, 1, 5, ["none"])
    said = {
        "startingOffsets": json.dumps({first: {"0": 3, "1": -2}}),
        "endingOffsets": json.dumps({first: {"0": -1, "1": 7}}),
    }
    cut = load(spark, bootstrap, subscribe=first, minPartitions=5, columns="partition,offset", **said)
    assert cut.columns == ["partition", "offset"]
    rows = cut.selectExpr("partition", "offset", "spark_partition_id() as task").collect()
    assert [(row.partition, row.offset) for row in rows] == [(0, n) for n in range(3, 20)] + [(1, n) for n in range(7)]
    assert sorted({row.task for row in rows}) == [0, 1, 2, 3, 4]
    times = {"startingTimestamp": 1_700_000_004_500, "endingTimestamp": 1_700_000_008_000}
    assert offsets(load(spark, bootstrap, topic=first, **times)) == {0: [5, 6, 7], 1: [5, 6, 7]}
    both = load(spark, bootstrap, subscribePattern=f"{first}|{second}", includeHeaders=False)
    assert "headers" not in both.columns
    assert {(row.topic, row["count"]) for row in both.groupBy("topic").count().collect()} == {(first, 40), (second, 5)}


def test_what_retention_removed(spark: SparkSession, bootstrap: str, topic: MakeTopic) -> None:
    name = topic()
    write(bootstrap, name, 1, 20, ["none"])
    trim(bootstrap, name, 6)
    said = {"topic": name, "startingOffsets": json.dumps({name: {"0": 2}})}
    problem = refused(lambda: load(spark, bootstrap, **said))
    assert f"offsets 2 to 19 of topic {name}, partition 0, cannot be read: it holds 6 to 19" in problem
    assert offsets(load(spark, bootstrap, failOnDataLoss=False, **said)) == {0: list(range(6, 20))}
    # It was there when the read was planned, and is gone when it is done.
    options = source_options({"bootstrap": bootstrap, "topic": name}).for_batch()
    [partition] = BatchReader(options).partitions()
    assert partition.value == Range(name, 0, 6, 20)
    trim(bootstrap, name, 9)
    with pytest.raises(Exception, match="it holds 9 to 19"):
        list(BatchReader(options).read(partition))


def test_an_empty_topic_has_no_rows(spark: SparkSession, bootstrap: str, topic: MakeTopic) -> None:
    assert load(spark, bootstrap, topic=topic()).collect() == []


def test_what_cannot_be_read_is_said_in_a_line(spark: SparkSession, bootstrap: str, topic: MakeTopic) -> None:
    name = topic()
    assert "the topic nowhere does not exist" in refused(lambda: load(spark, bootstrap, topic="nowhere"))
    assert "did you mean topic?" in refused(lambda: load(spark, bootstrap, topik="moves"))
    assert "leave the schema out" in refused(
        lambda: spark.read.format("octoloom").options(bootstrap=bootstrap, topic=name).schema("a int").load()
    )


def test_spark_finds_the_source_by_itself() -> None:
    import pyspark_octoloom

    assert pyspark_octoloom.DefaultSource is OctoloomSource
    assert OctoloomSource.name() == "octoloom"


def test_the_schema_is_that_of_the_arrow_batches() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    from octoloom.spark import record_batches

    options = source_options({"bootstrap": "a:1", "topic": "moves"})
    assert to_arrow_schema(schema_of(options), timezone="UTC").equals(record_batches.SCHEMA)
