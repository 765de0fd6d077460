"""Record batches as Arrow against the reader of the wire, which takes one record after the other."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.core.errors import UsageError
from octoloom.spark import record_batches, record_headers, record_walk
from octoloom.spark.record_batches import ALL, SCHEMA, SPARK_SCHEMA, decode, decode_in_pieces, schema_of
from octoloom.wire.kafka import records as wire_records
from octoloom.wire.kafka.batches import HEADER_SIZE, Buffer, CorruptBatch, check_batches
from octoloom.wire.kafka.compression import CODECS
from octoloom.wire.kafka.records import CONTROL, LOG_APPEND_TIME, Record, build_batch, read_fetched, varint

NOW = 1_760_000_000_000

blobs = st.none() | st.binary(max_size=90) | st.binary(max_size=3).map(lambda piece: piece * 3000)
headers = st.just(()) | st.lists(st.tuples(st.text(max_size=6), st.none() | st.binary(max_size=70)), max_size=5)
timestamps = st.just(NOW) | st.integers(NOW - 10_000, NOW + 10_000_000) | st.integers(-1, 1 << 52)
record = st.builds(Record, st.just(0), timestamps, blobs, blobs, headers.map(tuple))
runs = st.tuples(record, st.just(1) | st.integers(1, 90)).map(lambda run: [run[0]] * run[1])
record_lists = st.lists(runs, min_size=1, max_size=8).map(lambda runs: [record for run in runs for record in run])
kinds = st.sampled_from([0, 0, 0, LOG_APPEND_TIME, CONTROL])
batch_lists = st.lists(st.tuples(record_lists, st.sampled_from(CODECS), kinds), min_size=1, max_size=5)


def mended(batch: bytes | bytearray) -> bytes:
    """The batch with a length and a CRC that are right again."""
    batch = bytearray(batch)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def log_of(batches: list[tuple[list[Record], str, int]], offset: int) -> list[bytes]:
    log = []
    for records, codec, attributes in batches:
        batch = bytearray(build_batch(records, codec=codec, base_offset=offset))
        batch[22] |= attributes
        log.append(mended(batch))
        offset += len(records)
    return log


def rows(table: Any) -> list[Record]:
    """An Arrow batch as records. The timestamps are whole milliseconds, or something is wrong."""
    micros = table["timestamp"].cast(pa.int64()).to_pylist()
    assert all(micro % 1000 == 0 for micro in micros)
    table.validate(full=True)
    assert table.schema == SCHEMA
    return [
        Record(
            row["offset"],
            micro // 1000,
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for row, micro in zip(table.drop_columns("timestamp").to_pylist(), micros, strict=True)
    ]


@contextmanager
def small_steps(wanted: bool = True) -> Iterator[None]:
    """With every threshold so low that short inputs take all ways through the code."""
    with ExitStack() as stack:
        lower = {
            (record_walk, "_RUN_MIN"): 3,
            (record_walk, "_STROLL"): 4,
            (record_headers, "_FEW"): 3,
            (record_batches, "PIECE_ROWS"): 50,
        }
        for (module, name), value in lower.items() if wanted else ():
            stack.enter_context(mock.patch.object(module, name, value))
        yield


# What is right.


@settings(max_examples=70, deadline=None)
@given(batch_lists, st.integers(0, 1 << 40), st.booleans(), st.data())
def test_columns_hold_what_the_wire_reads_one_by_one(
    batches: list[tuple[list[Record], str, int]], first: int, small: bool, data: st.DataObject
) -> None:
    log = log_of(batches, first)
    last = first + sum(len(records) for records, _, _ in batches)
    start = data.draw(st.just(0) | st.integers(first, last + 1))
    end = data.draw(st.none() | st.integers(start, last + 1))
    cut = data.draw(st.integers(0, len(log)))
    kinds: list[type[bytes | bytearray | memoryview]] = data.draw(
        st.permutations([bytes, bytes, bytearray, memoryview])
    )
    buffers: list[Buffer] = [kinds[0](b"".join(log[:cut])), kinds[1](b"".join(log[cut:]))]
    expected = [one for one in read_fetched(b"".join(log), start)[0] if end is None or one.offset < end]
    with small_steps(small):
        table = decode(buffers, "games", 7, start=start, end=end)
        pieces = list(decode_in_pieces(buffers, "games", 7, start=start, end=end))
    assert rows(table) == expected
    assert [row for piece in pieces for row in rows(piece)] == expected
    assert all(len(piece) for piece in pieces)
    assert set(table["topic"].to_pylist()) <= {"games"}
    assert set(table["partition"].to_pylist()) <= {7}


def test_the_kind_of_a_timestamp_and_the_absence_of_headers_are_told() -> None:
    one, other = Record(0, NOW, None, b"", (("name", None),)), Record(0, NOW + 5, b"", None)
    log = log_of([([one, other], "none", 0), ([other], "none", LOG_APPEND_TIME), ([one], "zstd", 0)], 3)
    table = decode(log, "t", 0)
    assert table["timestampType"].to_pylist() == [0, 0, 1, 0]
    assert table["headers"].to_pylist() == [
        [{"key": "name", "value": None}],
        None,
        None,
        [{"key": "name", "value": None}],
    ]
    assert table["key"].to_pylist() == [None, b"", b"", None]
    assert table["value"].to_pylist() == [b"", None, None, b""]
    assert decode(log[:2], "t", 0) == table.slice(0, 3)


def test_long_batches_of_all_kinds_of_lengths_are_walked_and_jumped_over() -> None:
    dice = random.Random(5)
    log = []
    for size in (1, 63, 64, 65, 1023, 3000):
        same = [Record(0, NOW + number, b"%08d" % number, b"v" * 100) for number in range(size)]
        mixed = [Record(0, NOW + dice.randrange(99), dice.randbytes(dice.randrange(20)), None) for _ in range(size)]
        log += [(same, "none", 0), (mixed, "none", 0), (same + mixed + same, "lz4", 0)]
    # Lengths that differ in their second or their third byte alone.
    for sizes in ((100, 164), (10_000, 10_000 + (1 << 13))):
        log.append(([Record(0, NOW, None, b"v" * size) for size in sizes for _ in range(64)], "none", 0))
    raw = b"".join(log_of(log, 0))
    assert rows(decode([raw], "t", 0)) == read_fetched(raw, 0)[0]


def test_only_what_is_asked_for_is_made() -> None:
    log = log_of([([Record(0, NOW, b"k", b"v", (("h", b""),))] * 3, "none", 0)], 0)
    table = decode(log, "t", 0, columns=["value", "offset"])
    assert table.schema == schema_of(["value", "offset"]) != SCHEMA
    assert table.to_pydict() == {"value": [b"v"] * 3, "offset": [0, 1, 2]}
    assert decode([], "t", 0, columns=["headers"]).to_pydict() == {"headers": []}
    assert list(decode_in_pieces(log, "t", 0, start=9)) == []
    assert schema_of(ALL) == SCHEMA


@pytest.mark.parametrize("columns", [[], ["key", "colour"], ["key", "key"], ["timestamptype"]])
def test_a_column_that_cannot_be_had_is_the_callers_fault(columns: list[str]) -> None:
    with pytest.raises(UsageError, match="Name some of key, value, topic"):
        schema_of(columns)


def test_the_schema_is_the_one_that_spark_expects() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    from pyspark.sql.pandas.types import to_arrow_schema

    names = {"bigint": "long", "int": "integer"}
    plain, _, header = SPARK_SCHEMA.rpartition(", headers ")
    assert header == "array<struct<key: string, value: binary>>"
    fields = [each.split(" ") for each in plain.split(", ")]
    struct = types.StructType()
    for name, kind in fields:
        struct.add(name, names.get(kind, kind))
    struct.add("headers", types.ArrayType(types.StructType().add("key", "string").add("value", "binary")))
    assert to_arrow_schema(struct, timezone="UTC") == SCHEMA


# What is not right.


def read_twice(batch: bytes) -> tuple[list[Record] | None, list[Record] | None]:
    """What the columns hold and what the wire reads, None where it is refused. Columns hold 64 bits."""
    table: list[Record] | None = None
    expected: list[Record] | None = None
    with suppress(CorruptBatch):
        table = rows(decode([batch], "t", 0, start=-(1 << 63)))
    real = wire_records.read_varint
    try:
        with mock.patch.object(wire_records, "read_varint", lambda data, at: in_64_bits(*real(data, at))):
            expected = read_fetched(batch, -(1 << 63))[0]
            for one in expected:
                in_64_bits(one.offset, 0)
                in_64_bits(one.timestamp, 0)
    except CorruptBatch:
        expected = None
    if expected is not None:
        edge = ((1 << 63) - 1) // 1000
        expected = [one._replace(timestamp=max(min(one.timestamp, edge), -edge)) for one in expected]
    return table, expected


def in_64_bits(value: int, end: int) -> tuple[int, int]:
    if not -(1 << 63) <= value < 1 << 63:
        raise CorruptBatch("no column can hold it")
    return value, end


@settings(max_examples=150, deadline=None)
@given(record_lists, kinds, st.booleans(), st.data())
def test_damage_is_refused_where_the_wire_refuses_it_and_nowhere_else(
    records: list[Record], kind: int, small: bool, data: st.DataObject
) -> None:
    """The CRC would notice; this is about a sender who means it, and has put the CRC right."""
    batch = bytearray(log_of([(records, "none", kind)], 5)[0])
    places = st.integers(21, min(len(batch), 300) - 1) | st.integers(21, len(batch) - 1)
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(places)] = data.draw(st.integers(0, 255) | st.sampled_from([0, 1, 2, 127, 128, 255]))
    if data.draw(st.booleans()):
        del batch[data.draw(st.integers(HEADER_SIZE, len(batch) - 1)) :]
    with small_steps(small):
        table, expected = read_twice(mended(batch))
    assert table == expected


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 12, 14, 16, 127, 128, 129, 255]) | st.integers(0, 255)).map(bytes),
    st.integers(1, 9),
    st.booleans(),
)
def test_any_records_in_a_right_header_are_read_as_the_wire_reads_them(noise: bytes, count: int, small: bool) -> None:
    batch = bytearray(build_batch([Record(0, NOW, None, None)] * count)[:HEADER_SIZE] + noise)
    with small_steps(small):
        table, expected = read_twice(mended(batch))
    assert table == expected


@given(st.binary(max_size=150))
def test_any_bytes_are_refused_in_one_way(noise: bytes) -> None:
    if noise:
        with pytest.raises(CorruptBatch):
            decode([noise], "t", 0)


def batch_with(payload: bytes, count: int = 1) -> bytes:
    return mended(build_batch([Record(0, NOW, None, None)] * count)[:HEADER_SIZE] + payload)


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b"\x0e\x00\x00\x00\x01\x01\x00", "where the next one begins, or its batch ends|a record of -1 bytes"),
        (b"\x0a\x00\x00\x00\x01\x01\x00", "where the next one begins, or its batch ends"),
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", "where the next one begins, or its batch ends"),
        (b"\x0c\x00\x00\x00\x01\x02\x00", "where its fields do"),
        (b"\x0e\x00\x00\x00\x01\xfe\x7f\x00", "8191 bytes are in no record"),
        (b"\x0c\x00\x00\x00\x01\x01\x01", "a negative number of headers"),
        (b"\x0c\x00\x00\x00\x01\x01\x02", "more headers than it has room for"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", "a header with a name of"),
        (b"\x12\x00\x00\x00\x01\x01\x02\x00\xfe\x7f", "8191 bytes are in no header|end with its last header"),
        (b"\x12\x00\x00\x00\x01\x01\x02\x00\x01\x00", "end with its last header"),
        (b"\x0c\x00\x00", "1 records in 3 bytes"),
        (b"\xff" * 12, "a number of more than 10 bytes"),
    ],
)
@pytest.mark.parametrize("count", [1, 20])
def test_what_is_wrong_with_a_record_is_said(payload: bytes, says: str, count: int) -> None:
    with pytest.raises(CorruptBatch, match=says.replace("1 records in 3", f"{count} records in {3 * count}")):
        decode([batch_with(payload * count, count)], "t", 0)


def test_headers_that_nobody_asks_for_lie_within_their_record() -> None:
    good = build_batch([Record(0, NOW, None, b"v", (("h", None),))])
    beyond = b"\x0c\x00\x00\x00\x01\x02\x00"
    assert decode([good], "t", 0, columns=["value"])["value"].to_pylist() == [b"v"]
    with pytest.raises(CorruptBatch, match="where its fields do"):
        decode([batch_with(beyond + good[HEADER_SIZE:], 2)], "t", 0, columns=["value"])


def test_sizes_that_come_back_by_overflow_are_refused() -> None:
    """A key and a value of almost 2^63 bytes each, so that their ends lie where the record ends, but for 64 bits."""
    body = b"\x00\x00\x00" + varint((1 << 63) - 1) + varint((1 << 63) - 1)
    body += b"\x00" * 8
    with pytest.raises(CorruptBatch, match="in no record"):
        decode([batch_with(varint(len(body)) + body)], "t", 0)


def test_timestamps_that_microseconds_cannot_hold_become_the_nearest_they_can() -> None:
    batch = build_batch([Record(0, stamp, None, b"") for stamp in ((1 << 63) - 1, 0, NOW, -1)])
    micros = decode([batch], "t", 0)["timestamp"].cast(pa.int64()).to_pylist()
    assert micros == [((1 << 63) - 1) // 1000 * 1000, 0, NOW * 1000, -1000]
    later = [varint(len(far) + 5) + b"\x00" + far + b"\x00\x01\x01\x00" for far in (varint(0), varint((1 << 63) - 1))]
    with pytest.raises(CorruptBatch, match="more than 64 bits"):
        decode([batch_with(b"".join(later), 2)], "t", 0)


def test_a_header_name_of_another_encoding_does_not_hold_up_the_partition() -> None:
    batch = build_batch([Record(0, NOW, None, b"x", (("name", b"v"), ("e", b"")))]).replace(b"name", b"n\xff\xfee")
    [found] = decode([mended(batch)], "t", 0)["headers"].to_pylist()
    assert found == [{"key": "n\ufffd\ufffde", "value": b"v"}, {"key": "e", "value": b""}]


def test_a_batch_that_is_cut_off_or_damaged_on_the_way_is_refused() -> None:
    [batch] = log_of([([Record(0, NOW, b"k", b"v")], "none", 0)], 0)
    with pytest.raises(CorruptBatch, match=r"with \d+ left"):
        decode([batch + batch[:-1]], "t", 0)
    with pytest.raises(CorruptBatch, match="CRC"):
        decode([batch, batch[:-1] + b"\x01"], "t", 0)


def test_little_that_claims_to_be_much_costs_little() -> None:
    few = build_batch([Record(0, NOW, None, None)])
    claims = bytearray(few)
    claims[23:27] = (999_999).to_bytes(4, "big")
    claims[57:61] = (1_000_000).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="1000000 records in 7 bytes"):
        decode([mended(claims)], "t", 0)
    with mock.patch.object(record_batches, "DATA_MAX", 10_000), pytest.raises(CorruptBatch, match="in pieces"):
        decode([build_batch([Record(0, NOW, None, b"0" * 6000)], codec="zstd")] * 2, "t", 0)
    with mock.patch.object(record_headers, "HEADERS_MAX", 3), pytest.raises(CorruptBatch, match="more than 3"):
        decode([build_batch([Record(0, NOW, None, None, (("h", b""),) * 2)] * 2)], "t", 0)


def test_one_record_with_very_many_headers_takes_no_longer_than_many_with_few() -> None:
    headers = tuple((f"h{number}", b"v") for number in range(30_000))
    lone = build_batch([Record(0, NOW, None, None, headers)])
    spread = build_batch([Record(0, NOW, None, None, headers[:3])] * 10_000)

    def taken_s(batch: bytes) -> float:
        began = time.process_time()
        assert len(decode([batch], "t", 0)["headers"].flatten()) == 30_000
        return time.process_time() - began

    # Of several, the one that was disturbed least.
    assert min(taken_s(lone) for _ in range(3)) < 50 * min(taken_s(spread) for _ in range(3))


def test_what_is_not_wanted_is_still_whole() -> None:
    """Batches outside the range are passed over, but the bytes came from somewhere, and are checked."""
    log = log_of([([Record(0, NOW, b"k", b"v")] * 4, "none", 0)] * 3, 0)
    assert [header.base_offset for _, header in check_batches(memoryview(b"".join(log)))] == [0, 4, 8]
    log[0] = log[0][:-1] + b"\x01"
    with pytest.raises(CorruptBatch, match="CRC"):
        decode([b"".join(log)], "t", 0, start=5, end=7)
