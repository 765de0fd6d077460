"""Batches that real clients build, whole and damaged."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder  # type: ignore[import-untyped]
from aiokafka.record.memory_records import MemoryRecords  # type: ignore[import-untyped]
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder  # type: ignore[import-untyped]

from octoloom.wire.kafka.batches import HEADER_SIZE, CorruptBatch, check_batches, read_header, stamp
from tests.wire.kafka.oracle import int32s, int64s


def build(values: list[bytes], builder: Any = DefaultRecordBatchBuilder, compression: int = 0) -> bytes:
    batch = builder(
        magic=2,
        compression_type=compression,
        is_transactional=0,
        producer_id=77,
        producer_epoch=2,
        base_sequence=30,
        batch_size=1 << 20,
    )
    for number, value in enumerate(values):
        batch.append(number, 1_000 + number, b"key", value, [])
    return bytes(batch.build())


values = st.lists(st.binary(max_size=40), min_size=1, max_size=5)


@pytest.mark.parametrize("builder", [DefaultRecordBatchBuilder, KafkaPythonBuilder])
@pytest.mark.parametrize("compression", [0, 1], ids=["plain", "gzip"])
def test_a_batch_of_a_client(builder: Any, compression: int) -> None:
    raw = build([b"a" * 100, b"b" * 100, b"c" * 100], builder, compression)
    ((position, header),) = check_batches(memoryview(raw))
    assert position == 0
    assert header == read_header(raw)
    assert header.size == len(raw) == header.length + 12
    assert (header.base_offset, header.magic, header.attributes & 7) == (0, 2, compression)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 1_002)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 2, 30)
    assert (header.last_offset_delta, header.count, header.next_offset) == (2, 3, 3)


@given(st.lists(values, max_size=4))
def test_many_batches(batches: list[list[bytes]]) -> None:
    raws = [build(batch) for batch in batches]
    checked = check_batches(memoryview(b"".join(raws)))
    assert [header.count for _, header in checked] == [len(batch) for batch in batches]
    assert [position for position, _ in checked] == [sum(map(len, raws[:n])) for n in range(len(raws))]


@given(values, values, st.integers(0, 2**62), int32s)
def test_a_stamped_batch_is_still_whole(before: list[bytes], batch: list[bytes], offset: int, epoch: int) -> None:
    first, second = build(before), build(batch)
    buffer = bytearray(first + second)
    stamp(buffer, len(first), offset, epoch)
    (_, untouched), (position, stamped) = check_batches(memoryview(buffer))
    assert (position, stamped.base_offset, stamped.leader_epoch) == (len(first), offset, epoch)
    assert stamped.next_offset == offset + len(batch)
    assert untouched == read_header(first)
    # A real consumer reads the offsets that were stamped.
    records = MemoryRecords(bytes(buffer[len(first) :]))
    heard = records.next_batch()
    assert heard is not None
    assert heard.validate_crc()
    assert [(record.offset, record.value) for record in heard] == [(offset + n, value) for n, value in enumerate(batch)]


@given(int64s, int32s)
def test_any_stamp_fits(offset: int, epoch: int) -> None:
    buffer = bytearray(HEADER_SIZE)
    stamp(memoryview(buffer), 0, offset, epoch)
    assert read_header(buffer)[:3] == (offset, 0, epoch)


def test_nothing_is_no_batches() -> None:
    assert check_batches(memoryview(b"")) == []


@given(values, st.data())
def test_a_changed_byte_is_noticed(batch: list[bytes], data: st.DataObject) -> None:
    raw = bytearray(build(batch))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    # The base offset and the leader epoch are the leader's to fill in, and nothing guards them.
    if place < 8 or 12 <= place < 16:
        assert len(check_batches(memoryview(raw))) == 1
    else:
        with pytest.raises(CorruptBatch):
            check_batches(memoryview(raw))


@given(values, values, st.data())
def test_a_batch_that_is_cut_is_noticed(first: list[bytes], second: list[bytes], data: st.DataObject) -> None:
    raws = build(first), build(second)
    end = data.draw(st.integers(1, sum(map(len, raws)) - 1).filter(lambda cut: cut != len(raws[0])))
    with pytest.raises(CorruptBatch):
        check_batches(memoryview(b"".join(raws))[:end])


def test_one_missing_byte_is_told_from_a_changed_one() -> None:
    with pytest.raises(CorruptBatch, match="a batch of 72 bytes at 0, with 71 left"):
        check_batches(memoryview(build([b"v"]))[:-1])


@given(st.binary(max_size=200))
def test_garbage_is_refused(raw: bytes) -> None:
    if raw:
        with pytest.raises(CorruptBatch):
            check_batches(memoryview(raw))


@pytest.mark.parametrize(
    ("place", "change", "says"),
    [
        (8, b"\xff\xff\xff\xff", "a batch of 11 bytes at 0"),
        (8, b"\x00\x00\x00\x30", "a batch of 60 bytes at 0"),
        (8, b"\x7f\xff\xff\xff", "a batch of 2147483659 bytes at 0"),
        (16, b"\x01", "magic 1 at 0 is not 2"),
        (17, b"\x00\x00\x00\x00", "the CRC at 0 is 0x00000000"),
        (23, b"\x00\x00\x00\x05", "2 records at 0, the last of them 5"),
        (57, b"\x00\x00\x00\x00", "0 records at 0"),
        (57, b"\xff\xff\xff\xff", "-1 records at 0"),
    ],
)
def test_what_is_wrong_is_said(place: int, change: bytes, says: str) -> None:
    raw = bytearray(build([b"a", b"b"]))
    raw[place : place + len(change)] = change
    with pytest.raises(CorruptBatch, match=says) as caught:
        check_batches(memoryview(raw))
    assert caught.value.code == "corrupt-batch"


def test_no_records_are_no_batch_even_if_all_else_is_right() -> None:
    raw = bytearray(build([b"a"])[:HEADER_SIZE])
    raw[8:12] = (HEADER_SIZE - 12).to_bytes(4, "big")
    raw[23:27] = (-1).to_bytes(4, "big", signed=True)
    raw[57:61] = bytes(4)
    raw[17:21] = crc32c(memoryview(raw)[21:]).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="0 records at 0, the last of them -1"):
        check_batches(memoryview(raw))
