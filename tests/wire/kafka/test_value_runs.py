"""Values that are read in runs, held against those of records that are read one by one."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from octoloom.wire.kafka import value_runs
from octoloom.wire.kafka.batches import HEADER_SIZE, CorruptBatch
from octoloom.wire.kafka.compression import CODECS
from octoloom.wire.kafka.records import Record, build_batch, read_fetched, read_records, seal, varint
from octoloom.wire.kafka.value_batches import Value
from octoloom.wire.kafka.value_runs import read_fetched_values, read_values
from tests.wire.kafka.control import control_batch

NOW = 1_760_000_000_000

blobs = st.none() | st.binary(max_size=100) | st.binary(max_size=3).map(lambda piece: piece * 3000)
apart = st.sampled_from([0, 0, 0, 1, 63, 64, 9000, -1, -65])
headers = st.sampled_from([(), (), (), (("trace", b"1"),), (("a", None), ("b", b""))])
stretches = st.builds(
    lambda key, value, headers, stamps: [Record(0, NOW + stamp, key, value, headers) for stamp in stamps],
    st.none() | st.none() | blobs,
    blobs,
    headers,
    st.lists(apart, min_size=1, max_size=100) | st.integers(1, 100).map(lambda count: [0] * count),
)
"""Records that lie alike, or nearly."""
records = st.lists(stretches, min_size=1, max_size=5).map(lambda found: [record for some in found for record in some])


def in_one_go(records: bytes, count: int) -> list[Value] | str:
    """What there is to read, or that it is damaged."""
    try:
        return read_values(records, count)
    except CorruptBatch:
        return "damaged"


def one_by_one(records: bytes, count: int) -> list[Value] | str:
    try:
        return [record.value for record in read_records(seal([records], count, NOW, NOW))]
    except CorruptBatch:
        return "damaged"


@given(records, st.sampled_from(CODECS))
def test_values_are_those_of_the_records(records: list[Record], codec: str) -> None:
    batch = build_batch(records, codec=codec)
    assert read_fetched_values(batch, 0) == ([record.value for record in records], len(records))


@given(records, st.data())
@settings(max_examples=400)
def test_damage_is_seen_wherever_it_is_seen_record_by_record(records: list[Record], data: st.DataObject) -> None:
    payload = bytearray(build_batch(records)[HEADER_SIZE:])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0x81, 0xFF, payload[at] ^ 0x80, payload[at] ^ 1]))
    count = len(records) + data.draw(st.sampled_from([0, 0, 0, 1, -1]))
    cut = data.draw(st.sampled_from([len(payload), len(payload), len(payload) - 1]))
    if count > 0:
        assert in_one_go(bytes(payload[:cut]), count) == one_by_one(bytes(payload[:cut]), count)


@pytest.mark.parametrize("growth", [0, 2])
@pytest.mark.parametrize("key", [b"key", None])
def test_every_byte_is_looked_at(key: bytes | None, growth: int) -> None:
    """In a run, and where each record is longer than the last."""
    payload = build_batch([Record(0, NOW, key, bytes(3 + number * growth), ()) for number in range(24)])[HEADER_SIZE:]
    for at in range(len(payload)):
        for byte in {0, 1, 0x7F, 0x80, 0xFF, payload[at] ^ 1, payload[at] ^ 2}:
            changed = payload[:at] + bytes([byte]) + payload[at + 1 :]
            assert in_one_go(changed, 24) == one_by_one(changed, 24), (at, byte)


@given(st.binary(max_size=300), st.integers(1, 50))
@example(b"\xff" * 300, 1)
def test_nonsense_is_damage(payload: bytes, count: int) -> None:
    assert in_one_go(payload, count) == one_by_one(payload, count)


def test_values_of_one_size_are_taken_in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes a step per record is done for few of them, and where no two are alike runs are not tried for long."""
    steps: Counter[str] = Counter()
    stroll, place = value_runs._stroll, value_runs._place

    def strolled(data: bytes, position: int, count: int, values: list[Value]) -> int:
        steps["strolled"] += count
        return stroll(data, position, count, values)

    def placed(data: bytes, start: int) -> Any:
        steps["placed"] += 1
        return place(data, start)

    monkeypatch.setattr(value_runs, "_stroll", strolled)
    monkeypatch.setattr(value_runs, "_place", placed)
    sizes = random.Random(1)
    for differ, strolled_max in ((False, 50), (True, 20_000)):
        found = [bytes(sizes.randrange(1, 100) if differ else 100) for _ in range(20_000)]
        payload = build_batch([Record(0, NOW, None, value) for value in found])[HEADER_SIZE:]
        steps.clear()
        assert read_values(payload, len(found)) == found
        assert steps["strolled"] <= strolled_max
        assert steps["placed"] < 50


@pytest.mark.parametrize("count", [63, 64, 65, 129, 1000])
def test_the_values_of_a_run_come_in_order(count: int) -> None:
    found: list[Value] = [b"%05d" % number for number in range(count)]
    payload = build_batch([Record(0, NOW, b"key", value) for value in found])[HEADER_SIZE:]
    assert read_values(payload, count) == found


def test_what_looks_usual_and_is_not_is_read_right() -> None:
    """With a length of three bytes read as two, this key would be the value."""
    key = bytes(8190)
    body = b"\0\0\x01" + varint(len(key)) + key + varint(0) + b"\0"
    record = varint(len(body)) + body
    assert len(varint(len(body))) == 3
    assert in_one_go(record * 5, 5) == one_by_one(record * 5, 5) == [b""] * 5


def fetched(*batches: bytes) -> bytes:
    return b"".join(batches)


def test_a_fetch_begins_within_a_batch_and_may_end_within_one() -> None:
    first = build_batch([Record(0, NOW, None, b"%d" % number) for number in range(10)])
    second = build_batch([Record(0, NOW, None, b"%d" % number) for number in range(10, 30)], base_offset=10)
    for offset in range(31):
        for buffer in (fetched(first, second), fetched(first, second, second[:70]), fetched(first, second[:-1])):
            records, next_offset = read_fetched(buffer, offset)
            assert read_fetched_values(buffer, offset) == ([record.value for record in records], next_offset)


def test_what_lies_behind_a_control_batch_is_for_the_next_fetch() -> None:
    values = [build_batch([Record(0, NOW, None, b"v")] * 3, base_offset=offset) for offset in (0, 4)]
    control = control_batch(3)
    buffer = fetched(values[0], control, values[1])
    assert read_fetched_values(buffer, 0) == ([b"v"] * 3, 3)
    assert read_fetched_values(buffer, 3) == ([b"v"] * 3, 7)
    assert read_fetched_values(control, 3) == ([], 4)


def test_short_runs_cost_no_more_than_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many records of runs that soon end take about twice as many looks, not four times."""
    looked = Counter[int]()
    alike = value_runs._Place.alike

    def counted(place: Any, data: bytes, count: int) -> int:
        looked[len(data)] += count
        return alike(place, data, count)

    monkeypatch.setattr(value_runs._Place, "alike", counted)
    totals = []
    for stretches in (500, 1000):
        # One is looked at, and the others are just a run: each success might make the next look longer.
        found: list[Value] = [bytes(20 + stretch % 7) for stretch in range(stretches) for _ in range(9)]
        payload = build_batch([Record(0, NOW, None, value) for value in found])[HEADER_SIZE:]
        assert read_values(payload, len(found)) == found
        totals.append(looked[len(payload)])
    assert totals[1] < 3 * totals[0]
