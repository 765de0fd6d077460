"""What is measured of Spark: reading records, and folding events, each in several ways, with the same result.

Records are events of 100 B: `put {x}` of one of ten devices in a space, whose name is the key. All of it is written by
Spark into a topic with four partitions, and read

  log      from the broker: `format("octoloom")`, all eight columns
  files    from the broker's segment files, on the same machine (`path`)
  archive  from the topic archive
  table    from the topic archive, by Spark's own Parquet reader: `topic_table`
  Parquet  from files that Spark has written, from the same rows, with its own reader

Every way of reading ends in the same query: a hash over every byte of every column, which is compared. Folding is

  loop     a plain Python loop in one process, without Spark: it reads the topic with the same decoder, and feeds each
           event to the app as a live chain does, so that a rejected event is taken back
  bare     the same loop without any of that: it calls the reducer, and if that fails the state is broken
  batch    `fold` where the partitions are read, without a shuffle
  shuffle  `fold` after the rows were brought together by their key, and sorted
  stream   `fold` in a streaming query, with its state kept from batch to batch

What they computed is compared too, so nobody is faster by leaving something out.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

import spark_app
from brokers import Cluster
from octoloom.core.event import Event
from octoloom.core.fold import Fold
from octoloom.spark.archive_table import topic_table
from octoloom.spark.archiving import archive_topic
from octoloom.spark.fetching import Reader
from octoloom.spark.operators import fold
from octoloom.spark.ranges import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4
DEVICES = 10
APP = f"{Path(spark_app.__file__)}:app"
USES_ALL_COLUMNS = (
    "count(*) rows",
    "sum(offset) offsets",
    "bit_xor(xxhash64(key, value, topic, partition, offset, timestamp, timestampType, headers)) hash",
)

Result = dict[str, int]


class WrongResult(RuntimeError):  # noqa: N818
    """Two ways that have to give the same do not."""


class Value(msgspec.Struct):
    """An event as its record holds it."""

    device: str
    sequencer: int
    name: str
    payload: msgspec.Raw
    time_ms: int


class Topic:
    """A topic with events, and where else its records are."""

    def __init__(self, cluster: Cluster, folder: Path, name: str, records: int, spaces: int) -> None:
        self.name, self.records, self.spaces = name, records, spaces
        self.cluster = cluster
        self.files = str(folder / "cluster" / "b1")
        self.parquet = str(folder / f"{name}.parquet")
        self.archive = str(folder / "archive")

    def write(self, spark: SparkSession) -> None:
        self.cluster.make(self.name, PARTITIONS, 1)
        events(spark, self.records, self.spaces).write.format("octoloom").mode("append").option(
            "bootstrap", self.cluster.bootstrap
        ).option("topic", self.name).save()

    def copy(self, spark: SparkSession) -> None:
        """The same rows as Parquet, as Spark writes them, and as an archive."""
        self.frame(spark, "log").write.parquet(self.parquet)
        archive_topic(self.cluster.bootstrap, self.name, self.archive)

    def frame(self, spark: SparkSession, way: str, share: float = 1.0) -> DataFrame:
        if way == "Parquet":
            return spark.read.parquet(self.parquet)
        if way == "table":
            return topic_table(spark, self.name, self.archive)
        reader = spark.read.format("octoloom").option("topic", self.name)
        if way == "archive":
            return reader.option("archive", self.archive).load()
        if way == "files":
            return reader.option("path", self.files).load()
        if share < 1:
            ends = {str(number): int(high * share) for number, high in self.highs().items()}
            reader = reader.option("endingOffsets", json.dumps({self.name: ends}))
        return reader.option("bootstrap", self.cluster.bootstrap).load()

    def highs(self) -> dict[int, int]:
        with Reader(self.cluster.bootstrap) as reader:
            places = [(self.name, number) for number in range(PARTITIONS)]
            return {place[1]: high for place, (_, high) in reader.bounds(places).items()}


def events(spark: SparkSession, records: int, spaces: int) -> DataFrame:
    """Events of exactly 100 bytes, in turn for each space, and there for each of its devices."""
    value = (
        f"""concat('{{"device":"d', lpad(id div {spaces} % {DEVICES}, 2, '0'), '","sequencer":', 1000000000 + id,"""
        """ ',"name":"put","payload":{"x":', 1000000 + id % 1000000, '},"time_ms":', 1767225600000 + id, '}')"""
    )
    key = f"concat('space-', lpad(id % {spaces}, 6, '0'))"
    return spark.range(0, records, 1, PARTITIONS).selectExpr(f"{key} key", f"{value} value")


def read(topic: Topic, spark: SparkSession, way: str) -> Result:
    """Reads all rows, and uses all columns."""
    row = topic.frame(spark, way).selectExpr(*USES_ALL_COLUMNS).first()
    assert row is not None
    return {name: int(value) for name, value in row.asDict().items()}


# Folding.


def fold_batch(topic: Topic, spark: SparkSession, share: float = 1.0, colocated: bool = True) -> Result:
    row = (
        fold(topic.frame(spark, "log", share), APP, colocated=colocated)
        .selectExpr("count(*) spaces", "sum(applied) events", "sum(length(state)) bytes", "count(error) errors")
        .first()
    )
    assert row is not None
    return {name: int(value or 0) for name, value in row.asDict().items()}


def fold_stream(topic: Topic, spark: SparkSession, folder: Path, batches: int) -> Result:
    """All of it, in so many batches. The states of the last one are not looked at, their events are counted."""
    own = folder / f"stream-{uuid.uuid4().hex}"
    frame = (
        spark.readStream.format("octoloom")
        .option("bootstrap", topic.cluster.bootstrap)
        .option("topic", topic.name)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", max(-(-topic.records // batches), 1))
        .load()
    )
    query = (
        fold(frame, APP, colocated=True, state=str(own / "state"))
        .writeStream.format("noop")
        .option("checkpointLocation", str(own / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.recentProgress
    return {"events": sum(int(each["numInputRows"]) for each in progress), "batches": len(progress)}


def fold_loop(topic: Topic) -> Result:
    app = spark_app.app
    folds: dict[bytes, Fold] = {}
    decode = msgspec.json.Decoder(Value).decode
    for keys, values in columns(topic):
        touched = dict.fromkeys(keys)
        for key, value in zip(keys, values, strict=True):
            found = decode(value)
            space = folds.get(key)
            if space is None:
                space = folds[key] = Fold(app)
            space.take(Event(0, found.device, found.sequencer, found.name, bytes(found.payload), found.time_ms, 0))
        for key in touched:
            folds[key].settle()
    encode = msgspec.json.Encoder(order="sorted").encode
    return {
        "spaces": len(folds),
        "events": sum(space.applied for space in folds.values()),
        "bytes": sum(len(encode(space.state)) for space in folds.values()),
        "errors": 0,
    }


def fold_bare(topic: Topic) -> Result:
    put: Callable[[Any, Any], object] = spark_app.app.handlers["put"]
    initial = msgspec.json.encode(spark_app.app.initial)
    states: dict[bytes, Any] = {}
    events = 0
    decode = msgspec.json.decode
    for keys, values in columns(topic):
        for key, value in zip(keys, values, strict=True):
            event = SimpleNamespace(**decode(value))
            state = states.get(key)
            if state is None:
                state = states[key] = decode(initial)
            put(state, event)
            events += 1
    encode = msgspec.json.Encoder(order="sorted").encode
    sizes = sum(len(encode(state)) for state in states.values())
    return {"spaces": len(states), "events": events, "bytes": sizes, "errors": 0}


def columns(topic: Topic) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Keys and values, without Spark."""
    with Reader(topic.cluster.bootstrap) as reader:
        for partition, high in topic.highs().items():
            for rows in reader.rows(Range(topic.name, partition, 0, high), ("key", "value")):
                yield rows["key"].to_pylist(), rows["value"].to_pylist()


def same(results: dict[str, Result]) -> None:
    """Raises if the ways differ in anything that they both tell."""
    (first, expected), *others = results.items()
    for way, result in others:
        for name in expected.keys() & result.keys():
            if expected[name] != result[name]:
                raise WrongResult(f"{name} is {expected[name]} by way of {first}, and {result[name]} by way of {way}")
