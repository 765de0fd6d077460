"""Batches against the builders and readers of two other clients, and against whatever bytes may come."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch  # type: ignore[import-untyped]
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as PythonBatch  # type: ignore[import-untyped]
from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.wire.kafka.batches import HEADER_SIZE, CorruptBatch, check_batches, read_header, stamp
from octoloom.wire.kafka.compression import CODECS, number_of
from octoloom.wire.kafka.records import (
    RECORD_OVERHEAD_MAX,
    RECORDS_MAX,
    Record,
    build_batch,
    read_fetched,
    read_records,
    read_varint,
    varint,
)

NOW = 1_760_000_000_000

blobs = st.none() | st.binary(max_size=200) | st.binary(max_size=3).map(lambda piece: piece * 3000)
headers = st.lists(st.tuples(st.text(max_size=12), st.none() | st.binary(max_size=70)), max_size=3).map(tuple)
timestamps = st.integers(NOW - 10_000_000, NOW + 10_000_000)
records = st.lists(st.builds(Record, st.just(0), timestamps, blobs, blobs, headers), min_size=1, max_size=80)
codecs = st.sampled_from(CODECS)


def numbered(records: list[Record], first: int = 0) -> list[Record]:
    return [record._replace(offset=first + place) for place, record in enumerate(records)]


def as_read_by(batch: Any) -> list[Record]:
    """What another client's reader finds; both have the same shape."""
    assert batch.validate_crc()
    return [Record(one.offset, one.timestamp, one.key, one.value, tuple(one.headers)) for one in batch]


@given(records, codecs)
def test_a_batch_comes_back_as_it_was_built(records: list[Record], codec: str) -> None:
    batch = build_batch(records, codec=codec)
    assert read_records(memoryview(batch)) == numbered(records)
    [(position, header)] = check_batches(memoryview(batch))
    assert (position, header.size, header.attributes) == (0, len(batch), number_of(codec))
    assert header.base_timestamp == records[0].timestamp
    assert header.max_timestamp == max(record.timestamp for record in records)


@given(records, codecs)
def test_aiokafka_reads_what_we_build(records: list[Record], codec: str) -> None:
    assert as_read_by(AioBatch(build_batch(records, codec=codec))) == numbered(records)


@given(records, st.sampled_from(["none", "gzip"]))
def test_kafka_python_reads_what_we_build(records: list[Record], codec: str) -> None:
    assert as_read_by(PythonBatch(build_batch(records, codec=codec))) == numbered(records)


@given(records, codecs)
def test_we_read_what_aiokafka_builds(records: list[Record], codec: str) -> None:
    builder = AioBuilder(2, number_of(codec), 0, -1, -1, -1, 1 << 24)
    for place, record in enumerate(records):
        builder.append(place, record.timestamp, record.key, record.value, list(record.headers))
    assert read_records(bytes(builder.build())) == numbered(records)


@given(records, st.sampled_from(["none", "gzip"]))
def test_we_read_what_kafka_python_builds(records: list[Record], codec: str) -> None:
    builder = PythonBuilder(2, number_of(codec), 0, 7, 3, 11, 1 << 24)
    for place, record in enumerate(records):
        builder.append(place, record.timestamp, record.key, record.value, list(record.headers))
    built = bytes(builder.build())
    assert read_records(built) == numbered(records)
    if codec == "none":
        assert built == build_batch(records, producer_id=7, producer_epoch=3, base_sequence=11, leader_epoch=0)


def test_a_batch_carries_its_producer() -> None:
    batch = build_batch([Record(0, NOW, None, b"x")] * 3, producer_id=1 << 40, producer_epoch=7, base_sequence=99)
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1 << 40, 7, 99)
    assert (header.count, header.last_offset_delta) == (3, 2)


def test_records_stand_where_the_batch_was_stamped() -> None:
    batch = bytearray(build_batch([Record(0, NOW, b"k", b"v")] * 2))
    stamp(batch, 0, 5000, 4)
    assert [record.offset for record in read_records(batch)] == [5000, 5001]


def test_the_time_of_the_log_counts_where_the_batch_says_so() -> None:
    builder = AioBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    builder.append(0, NOW, None, b"x", [])
    batch = builder.build()
    batch[22] |= 8
    batch[35:43] = (NOW + 77).to_bytes(8, "big")
    assert [record.timestamp for record in read_records(batch)] == [NOW + 77]


@given(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-20_000, 20_000))
def test_varints_come_back(value: int) -> None:
    encoded = varint(value)
    assert read_varint(b"\xff" + encoded + b"\xff", 1) == (value, 1 + len(encoded))
    assert len(encoded) == max((2 * abs(value) - (value < 0)).bit_length() + 6, 7) // 7


def test_a_record_is_hardly_larger_than_what_it_holds() -> None:
    far = [Record(0, 0, b"k" * 9000, b"v" * 90_000), Record(0, 1 << 62, b"", b"")]
    assert len(build_batch(far)) <= HEADER_SIZE + 99_000 + 2 * RECORD_OVERHEAD_MAX


# What is not right.


@settings(max_examples=300)
@given(records, codecs, st.data())
def test_damage_is_noticed_or_harmless_and_never_anything_else(
    records: list[Record], codec: str, data: st.DataObject
) -> None:
    """The CRC would notice; this is about a sender who means it, and has put the CRC right."""
    batch = bytearray(build_batch(records, codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptBatch):
        read_records(bytes(batch))


@given(st.binary(max_size=150))
def test_any_bytes_are_refused_in_one_way(noise: bytes) -> None:
    with pytest.raises(CorruptBatch):
        read_records(noise)


@given(st.binary(max_size=60), st.integers(0, 9))
def test_any_records_in_a_right_header_are_read_or_refused(noise: bytes, count: int) -> None:
    batch = bytearray(build_batch([Record(0, NOW, None, None)])[:HEADER_SIZE] + noise)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big")
    with contextlib.suppress(CorruptBatch):
        assert len(read_records(batch)) == count


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b"\x0e\x00\x00\x00\x01\x01\x00", "a record of 7 bytes ends after 6"),
        (b"\x0a\x00\x00\x00\x01\x01\x00", "a record of 5 bytes ends after 6"),
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", "1 bytes follow the last record"),
        (b"\x14\x00\x00\x00\x01\x08\x00", "a record ends too early"),
        (b"\x0c\x00\x00\x00\x01\x01\x01", "a record with -1 headers"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", "a name of -1 bytes"),
        (b"\xff" * 12, "a number of more than 10 bytes"),
    ],
)
def test_what_is_wrong_with_a_record_is_said(payload: bytes, says: str) -> None:
    batch = bytearray(build_batch([Record(0, NOW, None, None)])[:HEADER_SIZE] + payload)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match=says):
        read_records(batch)


def test_a_header_name_of_another_encoding_does_not_hold_up_the_partition() -> None:
    batch = build_batch([Record(0, NOW, None, b"x", (("name", b"v"),))]).replace(b"name", b"n\xff\xfee")
    assert read_records(batch)[0].headers == (("n\ufffd\ufffde", b"v"),)


def test_a_batch_has_records_and_not_too_many() -> None:
    with pytest.raises(UsageError, match="not 0"):
        build_batch([])
    with pytest.raises(UsageError, match="build several"):
        build_batch([Record(0, NOW, None, None)] * (RECORDS_MAX + 1))


def test_an_unknown_codec_and_a_strange_header_name_are_the_callers_fault() -> None:
    with pytest.raises(UsageError, match="name one of none, gzip, snappy, lz4, zstd"):
        build_batch([Record(0, NOW, None, b"x")], codec="brotli")
    with pytest.raises(UsageError, match="surrogates not allowed"):
        build_batch([Record(0, NOW, None, b"x", (("\ud800", b""),))])


# What a fetch brings.


def log_of(*sizes: int) -> bytes:
    """Batches with so many records each, one after the other."""
    log, offset = b"", 0
    for size in sizes:
        log += build_batch([Record(0, NOW, None, b"%d" % (offset + n)) for n in range(size)], base_offset=offset)
        offset += size
    return log


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.data())
def test_a_fetch_is_read_from_its_offset_up_to_its_last_whole_batch(sizes: list[int], data: st.DataObject) -> None:
    log = log_of(*sizes)
    offset = data.draw(st.integers(0, sum(sizes)))
    cut = data.draw(st.integers(0, len(log)))
    whole = [batch for batch in check_batches(memoryview(log)) if batch[0] + batch[1].size <= cut]
    end = max(whole[-1][1].next_offset if whole else 0, offset)
    found, next_offset = read_fetched(log[:cut], offset)
    assert [record.offset for record in found] == list(range(offset, end))
    assert [record.value for record in found] == [b"%d" % n for n in range(offset, end)]
    assert next_offset == end


def test_a_fetched_batch_is_checked() -> None:
    log = bytearray(log_of(2, 2))
    log[-1] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        read_fetched(log, 0)
    with pytest.raises(ProtocolError):
        read_fetched(bytes(80), 0)


def test_control_batches_are_passed_over() -> None:
    builder = AioBuilder(2, 0, 1, 7, 0, 0, 1 << 20)
    builder.append(0, NOW, b"\x00\x00\x00\x01", b"", [])
    control = bytearray(builder.build())
    control[22] |= 0x20
    control[17:21] = crc32c(control[21:]).to_bytes(4, "big")
    after = build_batch([Record(0, NOW, None, b"x")], base_offset=1)
    found, next_offset = read_fetched(bytes(control) + after, 0)
    assert [record.value for record in found] == [b"x"]
    assert next_offset == 2
