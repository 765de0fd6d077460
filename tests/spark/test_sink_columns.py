"""Which frames can be written, and that windows depend on the rows alone."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from octoloom.core.errors import UsageError
from octoloom.spark import sink_columns
from octoloom.spark.sink_columns import check_columns, in_order, normal, windows

KINDS = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
    "map": MapType(StringType(), StringType()),
}
ALL = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers headers"
)


def schema(text: str) -> StructType:
    pairs = (column.split() for column in text.split(", "))
    return StructType([StructField(name, KINDS[kind]) for name, kind in pairs])


@pytest.mark.parametrize("columns", ["value string, topic string", "value binary, key string, topic string", ALL])
def test_frames_as_the_source_reads_them_and_less(columns: str) -> None:
    check_columns(schema(columns), None)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ("key string, topic string", "no column value .*select one as value"),
        ("value bigint, topic string", "value is of type bigint: cast it to string or binary"),
        ("value string", 'add .option\\("topic"'),
        ("value string, topic string, partition bigint", "partition is of type bigint: cast it to int"),
        ("value string, topic string, headers map", "cast it to array<struct<key:string,value:binary>>"),
        ("value string, topic string, keey string", "no column 'keey': select only value, key"),
        ("value string, value string", "two columns have one name .*: select each once"),
    ],
)
def test_other_frames_are_refused_with_the_next_step(columns: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        check_columns(schema(columns), None)


def test_the_option_stands_for_the_column() -> None:
    check_columns(schema("value string"), "moves")


@settings(deadline=None)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=60), st.sets(st.integers(0, 60)), st.integers(0, 60))
def test_windows_do_not_show_how_the_rows_came(sizes: list[int], pieces: set[int], empty: int) -> None:
    whole = pa.RecordBatch.from_pydict({"value": pa.array([bytes(size) for size in sizes], pa.binary())})
    ends = sorted({end for end in pieces if end < len(sizes)} | {0, len(sizes)})
    cut = [whole.slice(begin, end - begin) for begin, end in pairwise(ends)]
    cut.insert(min(empty, len(cut)), whole.slice(0, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink_columns, "WINDOW_BYTES", 800)
        patch.setattr(sink_columns, "WINDOW_ROWS", 7)
        at_once, by_and_by = list(windows([whole])), list(windows(cut))
    assert [(each.rows, each.sizes.tolist(), each.position) for each in at_once] == [
        (each.rows, each.sizes.tolist(), each.position) for each in by_and_by
    ]
    assert [len(value) for each in by_and_by for value in each.rows.column("value").to_pylist()] == sizes
    assert all(each.rows.num_rows <= 7 for each in by_and_by)
    assert all(each.rows.num_rows == 1 or each.sizes.sum() <= 800 for each in by_and_by)


contents = st.none() | st.binary(max_size=2)


@settings(deadline=None)
@given(st.lists(st.tuples(contents, contents), max_size=20), st.randoms(use_true_random=False), st.integers(1, 20))
def test_sorted_rows_do_not_show_how_they_came(
    rows: list[tuple[bytes | None, bytes | None]], dice: random.Random, size: int
) -> None:
    def sorted_by_sink(rows: list[tuple[bytes | None, bytes | None]]) -> list[tuple[bytes | None, bytes | None]]:
        columns = {
            "key": pa.array([row[0] for row in rows], pa.binary()),
            "value": pa.array([row[1] for row in rows], pa.binary()),
        }
        whole = pa.RecordBatch.from_pydict(columns)
        pieces = [whole.slice(place, size) for place in range(0, len(rows), size)]
        return [(row["key"], row["value"]) for piece in in_order(pieces) for row in piece.to_pylist()]

    once = sorted_by_sink(rows)
    assert Counter(once) == Counter(rows)
    dice.shuffle(rows)
    assert sorted_by_sink(rows) == once


def test_too_much_to_sort_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_columns, "SORTED_BYTES_MAX", 1 << 20)
    piece = pa.RecordBatch.from_pydict({"value": pa.array([bytes(400_000)], pa.binary())})
    assert sum(each.num_rows for each in in_order([piece, piece])) == 2
    with pytest.raises(UsageError, match=r"more than 1 MiB, too much to sort: repartition\(\) into more"):
        list(in_order([piece] * 3))


def test_rows_in_one_form() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678_900, UTC)
    piece = pa.RecordBatch.from_pydict(
        {
            "key": pa.array(["a", None], pa.large_string()),
            "value": pa.array(["x", None]),
            "topic": pa.array(["t", None]),
            "offset": pa.array([1, 2]),
            "timestamp": pa.array([at, None], pa.timestamp("us", "UTC")),
        }
    )
    assert normal(piece, None).to_pydict() == {
        "key": [b"a", None],
        "value": [b"x", None],
        "topic": ["t", None],
        "timestamp": [1767323045678, -1],
    }
    assert "topic" not in normal(piece, "another").schema.names


def test_a_time_before_1970_is_refused() -> None:
    early = pa.array([datetime(1969, 12, 31, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    with pytest.raises(UsageError, match="before 1970"):
        normal(pa.RecordBatch.from_pydict({"value": pa.array([b""]), "timestamp": early}), "t")
