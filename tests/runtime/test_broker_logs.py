"""Replicas on disk: what is kept beside a log, and what is found when it is opened again."""

from __future__ import annotations

from pathlib import Path

import pytest

from octoloom.core.log_messages import PartitionState, TopicInfo
from octoloom.core.partition import Partition
from octoloom.core.producers import Verdict
from octoloom.runtime import broker_logs
from octoloom.runtime.broker_logs import Logs, Replica, load_side, settings_of
from octoloom.storage.log import Log, LogSettings
from octoloom.wire.kafka.batches import read_header
from octoloom.wire.kafka.records import Record, build_batch

INFO = TopicInfo("t", 3, {})
NAME = ("t", 0)


def partition() -> Partition:
    return Partition(NAME, "b1#1", PartitionState("b1#1", 1, ["b1#1"], ["b1"], 1), 1, 1000)


def open_replica(folder: Path, info: TopicInfo = INFO) -> tuple[Logs, Replica]:
    logs = Logs(str(folder), 1_000_000)
    logs.open_all()
    replica = logs.take(NAME, info, partition())
    replica.partition.on_tail(replica.tail(True))
    replica.partition.take_role(0)
    return logs, replica


def add(replica: Replica, sequence: int, producer: int = 7) -> None:
    """A batch, admitted and written as the broker does."""
    part = replica.partition
    admission = part.admit(1, producer, 0, sequence, -1)
    assert admission.error == 0
    record = Record(0, 1, None, b"v")
    data = build_batch(
        [record],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        base_offset=admission.base_offset,
        leader_epoch=1,
    )
    replica.log.append([data], [read_header(data)])
    part.on_durable(part.end)
    part.raise_watermark()


def last_of(replica: Replica, producer: int = 7) -> int:
    """The sequence that this producer would have to send next."""
    for sequence in range(1000):
        verdict, offset = replica.partition.producers.check(producer, 0, sequence, 1, whole=True)
        if verdict == Verdict.TAKEN and offset < 0:
            return sequence
    raise AssertionError


def count_headers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the headers of logs are read from."""
    read: list[int] = []
    original = Log.headers

    def headers(log: Log, offset: int) -> object:
        read.append(offset)
        return original(log, offset)

    monkeypatch.setattr(Log, "headers", headers)
    return read


def test_the_watermark_and_the_producers_are_back_after_a_restart(tmp_path: Path) -> None:
    logs, replica = open_replica(tmp_path)
    for sequence in range(20):
        add(replica, sequence)
    logs.close()
    _, replica = open_replica(tmp_path)
    assert (replica.partition.end, replica.partition.high) == (20, 20)
    assert last_of(replica) == 20


def test_only_what_came_after_the_saved_table_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, replica = open_replica(tmp_path)
    for sequence in range(10):
        add(replica, sequence)
    replica.save()
    replica.save()
    for sequence in range(10, 15):
        add(replica, sequence)
    replica.log.sync()
    # The process ends here, without a word.
    read = count_headers(monkeypatch)
    _, replica = open_replica(tmp_path)
    assert read == [10]
    assert (replica.partition.end, replica.partition.high) == (15, 10)
    assert last_of(replica) == 15


def test_a_table_counts_only_once_all_of_it_is_committed(tmp_path: Path) -> None:
    _, replica = open_replica(tmp_path)
    for sequence in range(4):
        add(replica, sequence)
    part = replica.partition
    part.high = 2
    replica.save()
    replica.save()
    side = load_side(replica.log)
    assert side is not None
    assert (side.high, side.offset, side.producers) == (2, 0, [])
    part.high = 4
    replica.save()
    side = load_side(replica.log)
    assert side is not None
    assert (side.high, side.offset) == (4, 4)


def test_nothing_is_written_when_nothing_has_changed(tmp_path: Path) -> None:
    _, replica = open_replica(tmp_path)
    add(replica, 0)
    replica.save()
    replica.save()
    path = tmp_path / "t@3-0" / "tail.side"
    before = path.stat().st_mtime_ns, path.stat().st_ino
    replica.save()
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before


def test_the_table_after_a_cut_knows_what_is_left(tmp_path: Path) -> None:
    _, replica = open_replica(tmp_path)
    for sequence in range(10):
        add(replica, sequence)
    replica.save()
    replica.log.truncate(6)
    replica.on_cut()
    tail = replica.tail(True)
    replica.partition.on_tail(tail)
    assert (tail.end, last_of(replica)) == (6, 6)


def test_a_damaged_side_file_is_as_good_as_none(tmp_path: Path) -> None:
    logs, replica = open_replica(tmp_path)
    for sequence in range(5):
        add(replica, sequence)
    logs.close()
    path = tmp_path / "t@3-0" / "tail.side"
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    _, replica = open_replica(tmp_path)
    assert (replica.partition.high, last_of(replica)) == (0, 5)


def test_a_log_that_lost_committed_records_is_named(tmp_path: Path) -> None:
    logs, replica = open_replica(tmp_path)
    for sequence in range(5):
        add(replica, sequence)
    logs.close()
    segment = next((tmp_path / "t@3-0").glob("*.log"))
    segment.write_bytes(segment.read_bytes()[:-1])
    segment.with_suffix(".index").unlink()
    logs = Logs(str(tmp_path), 1000)
    assert logs.open_all() == [NAME]
    replica = logs.take(NAME, INFO, partition())
    assert replica.tail(True).end == 4


def test_damage_that_shows_when_opening_is_cut_off_and_named(tmp_path: Path) -> None:
    logs, replica = open_replica(tmp_path)
    for sequence in range(50):
        add(replica, sequence)
    logs.close()
    segment = next((tmp_path / "t@3-0").glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    (tmp_path / "t@3-0" / "tail.side").unlink()  # so that all of it has to be read
    logs = Logs(str(tmp_path), 1000)
    assert logs.open_all() == [NAME]
    assert logs.take(NAME, INFO, partition()).tail(True).end == 25


def test_a_topic_made_again_does_not_see_the_old_ones_records(tmp_path: Path) -> None:
    logs, replica = open_replica(tmp_path)
    add(replica, 0)
    newer = TopicInfo("t", 9, {})
    assert logs.take(NAME, newer, partition()).tail(True).end == 0
    logs.close()


def test_a_deleted_replica_leaves_no_files(tmp_path: Path) -> None:
    logs, replica = open_replica(tmp_path)
    add(replica, 0)
    logs.retire({})
    assert logs.replicas == {}
    assert logs.drop(NAME, INFO) is replica
    assert list(tmp_path.iterdir()) == []
    assert logs.drop(NAME, INFO) is None


def test_settings_of_a_topic(tmp_path: Path) -> None:
    info = TopicInfo("t", 3, {"segment.bytes": "20000", "max.message.bytes": "5000"})
    logs, replica = open_replica(tmp_path, info)
    assert replica.message_bytes_max == 5000
    logs.configure(replica, TopicInfo("t", 3, {"max.message.bytes": "?"}))
    assert replica.message_bytes_max == 1_000_000
    assert settings_of(info).segment_bytes == 20_000
    assert settings_of(TopicInfo("t", 3, {"segment.bytes": "1"})).segment_bytes == broker_logs.SEGMENT_BYTES_MIN
    assert settings_of(INFO) == LogSettings()
    for sequence in range(400):
        add(replica, sequence)
    logs.close()
    logs, replica = open_replica(tmp_path, info)
    for sequence in range(400, 800):
        add(replica, sequence)
    assert len(list((tmp_path / "t@3-0").glob("*.log"))) >= 3
    logs.close()
