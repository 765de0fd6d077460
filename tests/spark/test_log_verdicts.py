"""Batches as bytes, and replicas as files, under audit. No Spark: what a task does, done here."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from octoloom.core.acknowledged import Written
from octoloom.core.log_audit import PartitionAudit
from octoloom.runtime.broker_logs import SIDE, Side
from octoloom.spark.local_segments import LOGS, LocalSegments
from octoloom.spark.log_verdicts import compare_replicas, read_batches
from octoloom.spark.ranges import Range
from octoloom.storage.log_files import save_checked
from octoloom.wire.kafka.records import Record, build_batch

NOW = 1_767_225_600_000


def batch(first: int, sequence: int, keys: str = "ab", producer: int = 7, at_ms: int = NOW) -> bytes:
    records = [Record(0, at_ms, key.encode(), b"value") for key in keys]
    return build_batch(
        records, producer_id=producer, producer_epoch=0, base_sequence=sequence, base_offset=first, leader_epoch=1
    )


def audited(data: bytes, end: int = 6, told: tuple[Written, ...] = ()) -> dict[str, int]:
    audit = PartitionAudit("moves", 0, 0, end, NOW, told)
    read_batches(audit, data)
    return audit.finish().counts


WHOLE = [batch(0, 0), batch(2, 2, "cd"), batch(4, 4, "ef")]


def test_whole_batches_are_clean_and_their_keys_are_known() -> None:
    assert audited(b"".join(WHOLE), told=(Written("moves", 0, 3, "d"),)) == {}
    assert audited(b"".join(WHOLE), told=(Written("moves", 0, 3, "x"),)) == {"key-differs": 1}


def test_one_flipped_bit_is_damage_at_its_batch() -> None:
    damaged = bytearray(b"".join(WHOLE))
    damaged[len(WHOLE[0]) + 70] ^= 1
    counts = audited(bytes(damaged), told=(Written("moves", 0, 3), Written("moves", 0, 5)))
    assert counts == {"batch-damaged": 1, "record-lost": 1}


def test_a_lost_batch_is_a_gap_of_offsets_and_of_its_producer() -> None:
    assert audited(WHOLE[0] + WHOLE[2]) == {"offset-gap": 1, "producer-gap": 1}


def test_a_producers_gap_and_double_are_told_apart() -> None:
    assert audited(WHOLE[0] + batch(2, 4) + batch(4, 6)) == {"producer-gap": 1}
    assert audited(WHOLE[0] + batch(2, 0) + batch(4, 2)) == {"producer-double": 1}


@pytest.mark.parametrize("cut", [1, 30, 61, 70])
def test_a_torn_end_is_damage(cut: int) -> None:
    counts = audited(b"".join(WHOLE)[: -len(WHOLE[2])] + WHOLE[2][:cut])
    assert counts == {"batch-damaged": 1, "offset-gap": 1}


def replica(directory: Path, data: bytes, high: int) -> str:
    """The files of a broker's replica."""
    folder = directory / LOGS / "moves@3-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.log").write_bytes(data)
    save_checked(str(folder / f"{SIDE}.side"), msgspec.msgpack.encode(Side(high, 0, [])), sync=False)
    return str(directory)


def compared(directories: list[str], end: int = 6) -> dict[str, int]:
    audit = PartitionAudit("moves", 0, 0, end, NOW)
    compare_replicas(audit, LocalSegments(directories), Range("moves", 0, 0, end))
    return audit.findings.counts


def test_replicas_are_the_same_or_told(tmp_path: Path) -> None:
    one = replica(tmp_path / "one", b"".join(WHOLE), 6)
    same = replica(tmp_path / "same", b"".join(WHOLE[:2]), 4)
    other = replica(tmp_path / "other", WHOLE[0] + batch(2, 2, "cx") + WHOLE[2], 6)
    assert compared([one, same]) == {}
    assert compared([one, other, same]) == {"replicas-differ": 1}
    copy = tmp_path / "damaged"
    shutil.copytree(one, copy)
    file = next((copy / LOGS / "moves@3-0").glob("*.log"))
    data = bytearray(file.read_bytes())
    data[len(WHOLE[0]) + 70] ^= 1
    file.write_bytes(data)
    assert compared([one, str(copy)]) == {"batch-damaged": 1}
