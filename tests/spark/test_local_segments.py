"""Segment files read by a guest: only what is committed, only what is whole, and from whoever has it.

The files are made by the broker's own log. A twin that is obviously right, the batches in a list, says what to expect.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from octoloom.core.errors import UsageError
from octoloom.runtime.broker_logs import SIDE, Side
from octoloom.runtime.log_client import LogClient
from octoloom.spark import replica_files
from octoloom.spark.fetching import OffsetsGone, Reader
from octoloom.spark.local_segments import LocalSegments, NotLocal
from octoloom.spark.ranges import Range
from octoloom.storage.log import Log
from octoloom.storage.log_damage import DamagedLog
from octoloom.wire.kafka.batches import Buffer, read_header
from octoloom.wire.kafka.records import Record, build_batch, read_records
from tests.clients.cluster import Cluster
from tests.spark.conftest import MakeTopic
from tests.storage.log_batches import SMALL, append, fill, make_batch, split
from tests.waiting import until

PLACE = ("moves", 0)


def a_log(data: Path, broker: str = "b1", number: int = 1, partition: int = 0, high: int | None = None) -> Log:
    """The log of a broker's replica, with 50 batches of three records in several segments."""
    log = Log.open(data / broker / "logs" / f"moves@{number}-{partition}", SMALL)
    fill(log, 50)
    log.sync()
    commit(log, log.end if high is None else high)
    return log


def commit(log: Log, high: int) -> None:
    log.save_side(SIDE, msgspec.msgpack.encode(Side(high, 0, [])), sync=False)


def guest(data: Path, *brokers: str) -> LocalSegments:
    return LocalSegments([str(data / broker) for broker in brokers or ("b1",)])


def batches(origin: LocalSegments, start: int, end: int) -> list[bytes]:
    return [batch for piece in origin.raw(*PLACE, start, end) for batch in split(bytes(piece))]


def served_before_damage(origin: LocalSegments, end: int) -> list[bytes]:
    served: list[bytes] = []
    try:
        for piece in origin.raw(*PLACE, 0, end):
            served += split(bytes(piece))
    except DamagedLog:
        return served
    pytest.fail("the damage was not noticed")


def touching(written: list[bytes], start: int, end: int) -> list[bytes]:
    """The twin: the batches that have a record in the range."""
    headers = [(batch, read_header(batch)) for batch in written]
    return [batch for batch, header in headers if header.next_offset > start and header.base_offset < end]


def all_of(log: Log) -> list[bytes]:
    return [batch for name in segments_of(log) for batch in split((Path(log.path) / name).read_bytes())]


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def segments_of(log: Log) -> list[str]:
    return sorted(name for name in os.listdir(log.path) if name.endswith(".log"))


@pytest.mark.parametrize("piece_bytes", [4 << 20, 1000, 70])
def test_any_range_is_the_batches_that_touch_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(replica_files, "PIECE_BYTES", piece_bytes)
    log = a_log(tmp_path)
    written = all_of(log)
    assert len(segments_of(log)) > 2
    dice = random.Random(piece_bytes)
    origin = guest(tmp_path)
    ranges = [(0, log.end), (0, 1), (log.end - 1, log.end), (0, 0)]
    ranges += [tuple(sorted(dice.choices(range(log.end + 1), k=2))) for _ in range(40)]  # type: ignore[misc]
    for start, end in ranges:
        assert batches(origin, start, end) == (touching(written, start, end) if start < end else []), (start, end)


def test_rows_come_out_of_the_files(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    rows = guest(tmp_path).rows(Range(*PLACE, 5, 100), ["offset", "value"])
    got = [row for batch in rows for row in batch.to_pylist()]
    expected = [record for batch in all_of(log) for record in read_records(batch) if 5 <= record.offset < 100]
    assert got == [{"offset": record.offset, "value": record.value} for record in expected]


def test_what_lies_above_the_watermark_is_not_there(tmp_path: Path) -> None:
    log = a_log(tmp_path, high=90)
    origin = guest(tmp_path)
    assert origin.bounds([PLACE]) == {PLACE: (0, 90)}
    with pytest.raises(OffsetsGone) as gone:
        batches(origin, 0, 91)
    assert (gone.value.first, gone.value.high) == (0, 90)
    os.remove(os.path.join(log.path, f"{SIDE}.side"))
    assert origin.bounds([PLACE]) == {PLACE: (0, 0)}


def test_a_diverged_end_is_not_served_though_another_replica_says_more_is_committed(tmp_path: Path) -> None:
    old = a_log(tmp_path, "b1", high=90)
    new = Log.open(tmp_path / "b2" / "logs" / "moves@1-0", SMALL)
    new.reset(60)
    append(new, touching(all_of(old), 60, 90))
    append(new, [make_batch(offset, epoch=5) for offset in range(90, 200)])
    commit(new, 200)
    origin = guest(tmp_path, "b1", "b2")
    assert origin.bounds([PLACE]) == {PLACE: (60, 200)}
    committed = touching(all_of(old), 0, 90) + touching(all_of(new), 90, 200)
    assert batches(origin, 60, 200) == touching(committed, 60, 200)
    # What only the old one still has comes from there, and the rest from the new one.
    assert batches(origin, 30, 200) == touching(committed, 30, 200)


def test_damage_is_read_from_another_replica_and_never_served(tmp_path: Path) -> None:
    one, two = a_log(tmp_path, "b1"), a_log(tmp_path, "b2")
    written = all_of(one)
    for name in segments_of(one)[:2]:
        flip(Path(one.path) / name, 200)
    assert batches(guest(tmp_path, "b1", "b2"), 0, one.end) == written
    served = served_before_damage(guest(tmp_path), one.end)
    assert served == written[: len(served)]
    assert len(served) < 10
    flip(Path(two.path) / segments_of(two)[0], 200)
    with pytest.raises(DamagedLog):
        batches(guest(tmp_path, "b1", "b2"), 0, one.end)


def test_whole_batches_of_another_log_are_not_served(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    written = all_of(log)
    path = Path(log.path) / segments_of(log)[0]
    batches_of = split(path.read_bytes())
    # One is missing and the rest has moved up: every checksum is right, and the offsets are not.
    path.write_bytes(b"".join(batches_of[:3] + batches_of[4:]))
    assert served_before_damage(guest(tmp_path), log.end) == written[:3]


@pytest.mark.parametrize("cut", [1, 40, 61, 200])
def test_a_torn_end_is_not_served(tmp_path: Path, cut: int) -> None:
    log = a_log(tmp_path)
    written = all_of(log)
    last = Path(log.path) / segments_of(log)[-1]
    os.truncate(last, last.stat().st_size - cut)
    assert served_before_damage(guest(tmp_path), log.end) == written[:-1]


def test_a_lost_or_wrong_index_costs_nothing_but_time(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.close()
    written = all_of(log)
    indexes = sorted(Path(log.path).glob("*.index"))
    # The index of another segment under this one's name is refused by its own first offset, one of a file that was
    # replaced by the offset that is really there.
    other = Log.open(tmp_path / "other", SMALL)
    append(other, [make_batch(offset, 150) for offset in range(40)])
    other.close()
    indexes[0].write_bytes(next(iter(sorted((tmp_path / "other").glob("*.index")))).read_bytes())
    indexes[1].unlink()
    indexes[2].write_bytes(b"rubbish")
    for start in range(0, log.end, 7):
        assert batches(guest(tmp_path), start, log.end) == touching(written, start, log.end)


def test_a_segment_that_is_removed_is_read_to_its_end_and_the_next_is_missed(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    written = all_of(log)
    reading = guest(tmp_path).raw(*PLACE, 0, log.end)
    first = split(bytes(next(reading)))
    for _ in range(2):
        log.sync()
        log.retain(now_ms=0, retention_ms=-1, retention_bytes=0, before=log.end)
    assert log.start > read_header(first[-1]).next_offset
    assert first == written[: len(first)]
    with pytest.raises(DamagedLog):
        next(reading)
    origin = guest(tmp_path)
    assert origin.bounds([PLACE]) == {PLACE: (log.start, log.end)}
    assert batches(origin, log.start, log.end) == touching(written, log.start, log.end)
    with pytest.raises(OffsetsGone):
        batches(origin, 0, log.end)


def test_a_topic_that_was_made_anew_hides_the_old_one(tmp_path: Path) -> None:
    a_log(tmp_path, number=1)
    a_log(tmp_path, number=1, partition=1)
    new = Log.open(tmp_path / "b1" / "logs" / "moves@12-0", SMALL)
    append(new, [make_batch(0, epoch=3)])
    commit(new, 1)
    origin = guest(tmp_path)
    assert origin.topics() == {"moves": [0]}
    assert origin.topics("m.*") == {"moves": [0]}
    assert origin.topics("o.*") == {}
    assert batches(origin, 0, 1) == all_of(new)


def test_times_are_found_as_the_log_finds_them(tmp_path: Path) -> None:
    log = a_log(tmp_path, high=120)
    log.close()
    again = Log.open(log.path, SMALL)
    origin = guest(tmp_path)
    for ms in range(990, 1600, 13):
        found = again.offset_at(ms, 120)
        assert origin.offsets_at([PLACE], ms) == {PLACE: -1 if found is None else found[0]}, ms


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    a_log(tmp_path)
    with pytest.raises(UsageError, match="octoloom broker --data"):
        guest(tmp_path, "b7").topics()
    with pytest.raises(NotLocal, match="there is no topic other"):
        guest(tmp_path).partitions("other")
    with pytest.raises(NotLocal, match="moves-3 is in none of"):
        guest(tmp_path).bounds([("moves", 3)])
    with pytest.raises(UsageError, match="1 to 100 data directories"):
        LocalSegments([])


# With brokers that run.


class Counted(Reader):
    asked = 0

    def raw(self, topic: str, partition: int, start: int, end: int) -> Iterator[Buffer]:
        self.asked += 1
        return super().raw(topic, partition, start, end)


async def write(bootstrap: str, name: str, values: list[bytes]) -> None:
    async with LogClient(bootstrap) as client:
        for first in range(0, len(values), 10):
            records = [Record(0, 1000, None, value) for value in values[first : first + 10]]
            await client.produce(name, 0, build_batch(records))


def all_values(origin: LocalSegments, name: str) -> list[bytes | None]:
    high = origin.bounds([(name, 0)])[name, 0][1]
    found = [batch for piece in origin.raw(name, 0, 0, high) for batch in split(bytes(piece))]
    return [record.value for batch in found for record in read_records(batch)]


def test_files_serve_what_they_know_is_committed_and_the_leader_the_rest(
    brokers: Cluster, topic: MakeTopic, tmp_path: Path
) -> None:
    name, values = topic(), [b"%d" % at for at in range(500)]
    asyncio.run(write(brokers.brokers, name, values))
    data = [str(brokers.log.data / f"b{number}") for number in (1, 2, 3)]
    with Counted(brokers.brokers) as reader:
        # There is no broker in that directory, as there may be none on an executor's machine.
        assert all_values(LocalSegments([str(tmp_path)], reader), name) == values
        assert reader.asked == 1
        assert all_values(LocalSegments(data, reader), name) == values
        until(lambda: all_values(LocalSegments(data), name) == values, "a saved watermark")
        reader.asked = 0
        assert all_values(LocalSegments(data, reader), name) == values
        assert reader.asked == 0
        asyncio.run(write(brokers.brokers, name, [b"more"]))
        assert all_values(LocalSegments(data, reader), name) == [*values, b"more"]


def test_a_topic_that_was_made_anew_is_known_by_the_brokers(brokers: Cluster, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    asyncio.run(write(brokers.brokers, name, [b"new"]))
    # The remains of a topic of that name which has the highest number here, and is another one.
    log = Log.open(tmp_path / "logs" / f"{name}@99999-0", SMALL)
    fill(log, 3)
    commit(log, log.end)
    assert LocalSegments([str(tmp_path)]).bounds([(name, 0)]) == {(name, 0): (0, 9)}
    with Reader(brokers.brokers) as reader:
        assert all_values(LocalSegments([str(tmp_path)], reader), name) == [b"new"]
