"""The sink on real Spark and real brokers, read by a Kafka consumer: all rows, each once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from octoloom.core.errors import UsageError
from octoloom.spark.failures import short
from octoloom.spark.sink import batch_writer
from octoloom.spark.sink_options import sink_options
from octoloom.wire.kafka.partitioner import partition_of
from tests.spark.conftest import MakeTopic
from tests.spark.sink_world import Found, numbered, read_topic, values_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = (
    "topic string, partition int, key string, value binary, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
AT_MS = 1767323045678


def write(frame: DataFrame, bootstrap: str, mode: str = "append", **options: Any) -> None:
    frame.write.format("octoloom").mode(mode).options(bootstrap=bootstrap, **options).save()


def refused(work: Callable[[], object]) -> str:
    with pytest.raises(PySparkException) as error:
        work()
    return short(error.value)


def all_values(bootstrap: str, topic: str) -> list[bytes]:
    return sorted(value for values in values_in(bootstrap, topic).values() for value in values if value is not None)


def test_all_columns_as_a_consumer_reads_them(spark: SparkSession, bootstrap: str, topic: MakeTopic) -> None:
    one, other = topic(3), topic(1)
    headers = [("trace", bytearray(b"7f")), ("none", None)]
    rows = [
        (one, None, "ada", b"by key", AT, headers),
        (one, 0, "ada", b"by partition", AT, None),
        (one, None, "ada", None, AT, []),
        (other, None, None, b"without a key", AT, headers),
    ]
    frame = spark.createDataFrame(rows, COLUMNS).coalesce(1)
    write(frame, bootstrap, **{"compression.type": "zstd"})
    kept = (("trace", b"7f"), ("none", None))
    home = partition_of(b"ada", 3)
    assert home != 0
    assert read_topic(bootstrap, one) == {
        home: [Found(b"ada", b"by key", kept, AT_MS), Found(b"ada", None, (), AT_MS)],
        0: [Found(b"ada", b"by partition", (), AT_MS)],
    }
    assert read_topic(bootstrap, other) == {0: [Found(None, b"without a key", kept, AT_MS)]}


def test_a_write_with_an_id_can_be_run_again(spark: SparkSession, bootstrap: str, topic: MakeTopic) -> None:
    name = topic(2)
    frame = spark.range(0, 1000, 1, 3).selectExpr("cast(id as string) as value")
    for _ in range(2):
        write(frame, bootstrap, topic=name, writeId="monday")
    assert all_values(bootstrap, name) == sorted(numbered(range(1000)))
    other = spark.range(1000, 1006).coalesce(1).selectExpr("cast(id as string) as value")
    text = refused(lambda: write(other, bootstrap, topic=name, writeId="monday"))
    assert "was written before, in part or in whole, and with other rows" in text
    write(other, bootstrap, topic=name)
    assert all_values(bootstrap, name) == sorted(numbered(range(1006)))


def test_a_stream_runs_its_last_batch_again(
    spark: SparkSession, bootstrap: str, topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = topic(2), topic(2)
    write(spark.range(0, 600, 1, 2).selectExpr("cast(id as string) as value"), bootstrap, topic=source)
    expected = read_topic(bootstrap, source)

    def run() -> int:
        """As many batches as there are, and how many there have been."""
        options = {"bootstrap": bootstrap, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "250"}
        frame = spark.readStream.format("octoloom").options(topic=source, **options).load()
        copy = frame.writeStream.format("octoloom").options(bootstrap=bootstrap, topic=target)
        query = copy.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        query.awaitTermination()
        return len(list((tmp_path / "offsets").glob("[0-9]*")))

    assert run() == 3
    assert read_topic(bootstrap, target) == expected
    # As if the query had died before it could note that the batch is done.
    for note in ("2", ".2.crc"):
        (tmp_path / "commits" / note).unlink()
    assert run() == 3
    assert read_topic(bootstrap, target) == expected
    # As if it had been set back by two batches: the brokers know better.
    for number in ("1", "2"):
        for folder in ("commits", "offsets"):
            (tmp_path / folder / number).unlink()
            (tmp_path / folder / f".{number}.crc").unlink()
    assert "a later batch of this query was written already" in refused(run)
    assert read_topic(bootstrap, target) == expected


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ("id", {"topic": "t"}, "the sink has no column 'id': select only value, key"),
        ("'a' as value", {}, "it is not said where to write: add .option"),
        ("'a' as value", {"topic": "nowhere"}, "the topic nowhere does not exist"),
        ("'a' as value, 7 as partition", {"topic": "TOPIC"}, "row 0 of Spark partition 0 is for partition 7 of topic-"),
        ("'a' as value", {"topic": "TOPIC", "mode": "overwrite"}, 'a topic is only ever added to: write with .mode("a'),
    ],
)
def test_bad_input_says_the_next_step(
    spark: SparkSession, bootstrap: str, topic: MakeTopic, columns: str, options: dict[str, str], complaint: str
) -> None:
    name = topic(1)
    given = {key: name if value == "TOPIC" else value for key, value in options.items()}
    frame = spark.range(0, 1, 1, 1).selectExpr(*columns.split(", "))
    assert complaint in refused(lambda: write(frame, bootstrap, **given))
    assert read_topic(bootstrap, name) == {}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "does not know where to write: set bootstrap"),
        ({"bootstrap": "here"}, "write host:port"),
        ({"bootstrap": "h:1", "kafka.bootstrap.servers": "h:1"}, "leave one of them out"),
        ({"bootstrap": "h:1", "kafka.acks": "1"}, "always waits for all replicas"),
        ({"bootstrap": "h:1", "kafka.enable.idempotence": "false"}, "always writes once"),
        ({"bootstrap": "h:1", "compression.type": "rar"}, "name one of none, gzip"),
        ({"bootstrap": "h:1", "topic": " "}, "topic is empty"),
        ({"bootstrap": "h:1", "writeId": ""}, "writeId has 0 characters"),
        ({"bootstrap": "h:1", "timeoutMs": "soon"}, "timeoutMs is 'soon'"),
        ({"bootstrap": "h:1", "topc": "t"}, "did you mean topic"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        sink_options(options)


def test_writes_are_told_apart_by_an_id_of_their_own() -> None:
    from pyspark.sql.types import StringType, StructType

    schema = StructType().add("value", StringType())
    options = {"bootstrap": "h:1", "topic": "t"}
    first, second = batch_writer(options, schema), batch_writer(options, schema)
    named = [batch_writer({**options, "writeId": "monday"}, schema) for _ in range(2)]
    assert first._writer != second._writer
    assert named[0]._writer == named[1]._writer
