"""Columns of records, byte for byte what the loop over single records makes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.core.errors import UsageError
from octoloom.spark.sink_encoding import encoded_headers, lengths, records
from octoloom.wire.kafka.batches import HEADER_SIZE
from octoloom.wire.kafka.records import Headers, Record, build_batch

HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

contents = st.none() | st.binary(max_size=20) | st.integers(120, 9000).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=5), contents), max_size=3).map(tuple)
made = st.lists(st.builds(Record, st.just(0), st.integers(0, 2**41), contents, contents, headers), min_size=1)


def header_column(rows: list[Headers | None]) -> pa.Array:
    return pa.array(
        [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows], HEADER_TYPE
    )


@settings(deadline=None)
@given(made, st.booleans(), st.booleans(), st.booleans())
def test_records_are_those_of_the_loop(rows: list[Record], keyed: bool, timed: bool, headed: bool) -> None:
    rows = [
        row._replace(
            timestamp=row.timestamp if timed else 7,
            key=row.key if keyed else None,
            headers=row.headers if headed else (),
        )
        for row in rows
    ]
    column = records(
        pa.array([row.key for row in rows], pa.binary()) if keyed else None,
        pa.array([row.value for row in rows], pa.binary()),
        encoded_headers(header_column([row.headers for row in rows])) if headed else None,
        np.arange(len(rows)),
        np.array([row.timestamp - rows[0].timestamp for row in rows]) if timed else None,
    )
    assert b"".join(column.to_pylist()) == build_batch(rows)[HEADER_SIZE:]


def test_no_headers_and_null_are_the_same() -> None:
    column = header_column([None, (), (("a", b"1"), ("b", None)), None])
    assert encoded_headers(column).to_pylist() == [b"\x00", b"\x00", b"\x04\x02a\x021\x02b\x01", b"\x00"]
    assert encoded_headers(column.slice(1, 2)).to_pylist() == [b"\x00", b"\x04\x02a\x021\x02b\x01"]


@pytest.mark.parametrize("entry", [None, {"key": None, "value": b"1"}])
def test_a_header_without_a_name_is_refused(entry: dict[str, bytes] | None) -> None:
    with pytest.raises(UsageError, match="give every header a name"):
        encoded_headers(pa.array([[{"key": "a", "value": b"1"}], [entry]], HEADER_TYPE))


def test_nothing_has_no_length() -> None:
    assert lengths(pa.array([b"ab", None, b""], pa.binary())).tolist() == [2, -1, 0]
