"""The operators on a real Spark, fed from real brokers: what a batch query gives, a stream gives, restarts included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from octoloom.core.errors import UsageError
from octoloom.spark.operators import causal_order, dead_letters, dedupe, fold, states, total_order
from tests.core.test_compute import make_app
from tests.core.test_typing_trace import casts, concurrent_pairs, filters, index_of
from tests.spark.conftest import MakeTopic
from tests.spark.test_weavers import history, plainly_folded
from tests.typing_trace import HOSTILE, READER, TYPISTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Row = dict[str, Any]


def produce(bootstrap: str, topic: str, records: Sequence[tuple[bytes | None, bytes]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for key, value in records:
        producer.produce(topic, value, key)
        producer.poll(0)
    assert producer.flush(30) == 0


def read(spark: SparkSession, bootstrap: str, topic: str, stream: bool, **options: str) -> DataFrame:
    reader: Any = spark.readStream if stream else spark.read
    settings = {"bootstrap": bootstrap, "topic": topic, "startingOffsets": "earliest", **options}
    return reader.format("octoloom").options(**settings).load()  # type: ignore[no-any-return]


def drained(frame: DataFrame, folder: Path) -> list[Row]:
    """All that a stream gives until it has seen everything, batch by batch."""
    batches: list[list[Row]] = []

    def take(rows: DataFrame, number: int) -> None:
        batches.append([row.asDict(recursive=True) for row in rows.collect()])

    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(folder)).trigger(availableNow=True)
    running = query.start()
    assert running.awaitTermination(120)
    assert len(batches) != 1, "a stream of one batch shows little"
    return [row for batch in batches for row in batch]


def test_a_fold_in_a_stream_goes_on_after_a_restart_and_equals_the_batch_and_the_plain_loop(
    spark: SparkSession, bootstrap: str, topic: MakeTopic, tmp_path: Path
) -> None:
    rows = history(5, 400)
    expected = plainly_folded(rows)
    moves = topic(3)
    records = [(row["key"], row["value"]) for row in rows]

    def stream() -> DataFrame:
        frame = read(spark, bootstrap, moves, stream=True, maxOffsetsPerTrigger="100")
        return fold(frame, make_app(), colocated=True, state=str(tmp_path / "state"))

    produce(bootstrap, moves, [*records[:250], (b"x", b"no event")])
    out = drained(stream(), tmp_path / "checkpoint")
    produce(bootstrap, moves, records[250:])
    out += drained(stream(), tmp_path / "checkpoint")
    # The dice of no fold fall differently, wherever and however often it is computed.
    plain = {space: (state.state, state.applied, state.rejected) for space, state in expected.items()}
    assert as_folded([row for row in out if row["error"] is None]) == plain
    assert [row["error"] is not None for row in out].count(True) == 1

    for colocated in (True, False):
        batch = fold(read(spark, bootstrap, moves, stream=False), make_app(), colocated=colocated)
        assert as_folded([row.asDict() for row in states(batch).collect()]) == plain
        bad = dead_letters(batch).collect()
        assert [(row["topic"], row["error"].split(":")[0]) for row in bad] == [(moves, "the value is no event")]


def test_a_fold_is_handed_what_it_needs_and_no_more(spark: SparkSession) -> None:
    """To hand the headers over, which no fold looks at, took longer than to fold."""
    records = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, headers string"
    columns = "space string, device string, sequencer long, name string, payload string, time_ms long, extra string"
    for schema, order, left in (
        (records, ["topic", "partition", "offset"], {"timestamp", "headers"}),
        (records, ["timestamp"], {"headers"}),
        (columns, ["sequencer"], {"extra"}),
    ):
        frame = spark.createDataFrame([], schema)
        for colocated in (True, False):
            folded: Any = fold(frame, make_app(), order=order, colocated=colocated)
            handed = folded._jdf.queryExecution().analyzed().children().head().output().mkString(" ").split()
            assert {column.partition("#")[0] for column in handed} == set(frame.columns) - left


def as_folded(rows: list[Row]) -> dict[str, tuple[Any, int, int]]:
    """The last of each space. Within a stream, later rows are of later batches."""
    return {row["space"]: (msgspec.json.decode(row["state"]), row["applied"], row["rejected"]) for row in rows}


def test_the_typing_trace_comes_out_as_from_the_live_filter(spark: SparkSession) -> None:
    """Every hostile sequence is a group of its own."""
    rows = [
        (hostile.__name__, cast.sender, cast.number, dict(zip(TYPISTS, cast.stamp, strict=False)), at)
        for hostile in HOSTILE
        for at, cast in enumerate(hostile(casts()))
    ]
    kinds = [pa.string(), pa.string(), pa.int64(), pa.map_(pa.string(), pa.int64()), pa.int64()]
    names = ["group", "sender", "number", "stamp", "at"]
    columns = [pa.array(column, kind) for column, kind in zip(zip(*map(_pairs, rows), strict=True), kinds, strict=True)]
    frame = spark.createDataFrame(pa.table(columns, names))
    found = causal_order(frame, order=["at"]).toArrow().to_pylist()
    assert all(row["error"] is None for row in found)
    for hostile in HOSTILE:
        mine = sorted((row for row in found if row["group"] == hostile.__name__), key=lambda row: row["turn"])
        ranges = [tuple((each["member"], each["first"], each["last"]) for each in row["concurrent"]) for row in mine]
        live: list[Any] = []
        order = filters(READER, live.append)
        for cast in hostile(casts()):
            order.receive.filter(cast)
        told = [(row["sender"], row["number"], each) for row, each in zip(mine, ranges, strict=True)]
        assert told == [(each.cast.sender, each.cast.number, each.concurrent) for each in live]
        pairs = {
            tuple(sorted((index_of(row["sender"], row["number"]), index_of(member, number))))
            for row, each in zip(mine, ranges, strict=True)
            for member, first, last in each
            for number in range(first, last + 1)
        }
        assert pairs == concurrent_pairs()


def _pairs(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arrow reads maps as pairs."""
    return tuple(list(value.items()) if isinstance(value, dict) else value for value in row)


def test_orders_and_repeats_in_a_stream_that_brings_rows_together(
    spark: SparkSession, bootstrap: str, topic: MakeTopic, tmp_path: Path
) -> None:
    """The trace's first transactions, each twice, scattered over partitions without regard to their group."""
    typed = topic(2)
    hostile = HOSTILE[2](casts()[:600])
    values = [
        msgspec.json.encode(
            {"g": "text", "s": each.sender, "n": each.number, "v": dict(zip(TYPISTS, each.stamp, strict=False))}
        )
        for each in hostile
    ]
    produce(bootstrap, typed, [(b"%d" % at, value) for at, value in enumerate([*values, *values])])
    told = read(spark, bootstrap, typed, stream=True, maxOffsetsPerTrigger="700").selectExpr(
        "topic",
        "partition",
        "offset",
        "from_json(cast(value as string), 'g string, s string, n long, v map<string,long>') as told",
    )
    rows = told.selectExpr(
        "told.g as group", "told.s as sender", "told.n as number", "told.v as stamp", "topic", "partition", "offset"
    )
    once = dedupe(rows, by="group", origin="sender", number="number", state=str(tmp_path / "once"), buckets=2)
    ordered = causal_order(once, state=str(tmp_path / "ordered"), buckets=2)
    found = drained(ordered, tmp_path / "checkpoint")
    assert [row["turn"] for row in found] == list(range(1, 601))
    live: list[Any] = []
    order = filters(READER, live.append)
    seen = {(each.sender, each.number): each for each in casts()}
    for row in found:
        order.receive.filter(seen[row["sender"], row["number"]])
    assert [(each.cast.sender, each.cast.number) for each in live] == [(row["sender"], row["number"]) for row in found]


def test_members_that_disagree_are_found_on_spark(spark: SparkSession) -> None:
    rows = [
        (view, member, "ada", number, at)
        for view in ("one", "two")
        for member in ("ada", "bob", "cy")
        for at, number in enumerate([1, 3, 2, 4] if (view, member) == ("two", "bob") else [1, 2, 3, 4])
    ]
    frame = spark.createDataFrame(rows, "view string, member string, sender string, number long, at long")
    found = {(row["view"], row["member"]): row for row in total_order(frame, order=["member", "at"]).collect()}
    assert [key for key, row in found.items() if row["disagreements"]] == [("two", "bob")]
    assert all(row["delivered"] == 4 for row in found.values())


def test_what_is_missing_is_said_before_anything_runs(spark: SparkSession, bootstrap: str, topic: MakeTopic) -> None:
    frame = spark.createDataFrame([(1, "x")], "number long, space string")
    stream = read(spark, bootstrap, topic(1), stream=True)
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: dedupe(frame), "dedupe needs the column device, sequencer"),
        (lambda: fold(frame, make_app()), "fold needs the column device"),
        (lambda: dedupe(frame, origin="space", number="number"), "topic, partition, offset is not there"),
        (lambda: fold(stream, make_app()), "a streaming query has to keep its state"),
        (lambda: fold(stream.select("key", "value"), make_app(), colocated=True, state="x"), "select them, too"),
        (lambda: fold(stream, make_app(), on_error="hope"), "on_error is one of"),
        (lambda: fold(stream, "no_such_module:app"), "there is no module"),
    ]
    for case, text in cases:
        with pytest.raises(UsageError, match=text):
            case()
