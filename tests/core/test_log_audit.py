"""The audit of a partition, from headers made by hand."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from octoloom.core.acknowledged import Written
from octoloom.core.log_audit import AHEAD_MS_MAX, Batch, PartitionAudit, PartitionVerdict
from octoloom.core.producers import SEQUENCES

NOW = 1_767_225_600_000


def batch(first: int, count: int = 2, sequence: int = -1, producer: int = -1, **fields: int) -> Batch:
    made = Batch(first, count, 0, NOW, NOW, producer, 0 if producer >= 0 else -1, sequence)
    return made._replace(**fields)


def audited(batches: Iterable[Batch], start: int = 0, end: int = 6, told: Iterable[Written] = ()) -> PartitionVerdict:
    audit = PartitionAudit("steps", 3, start, end, NOW, told)
    for each in batches:
        audit.read(each)
    return audit.finish()


CLEAN = [batch(0, 2, 0, 7), batch(2, 2, 2, 7), batch(4, 2)]


def test_a_log_as_it_should_be_is_clean() -> None:
    verdict = audited(CLEAN, told=[Written("steps", 3, 0), Written("steps", 3, 5)])
    assert verdict.counts == {}
    assert (verdict.batches, verdict.records, verdict.producers, verdict.acknowledged) == (3, 6, 1, 2)


@pytest.mark.parametrize(
    ("batches", "name"),
    [
        ([CLEAN[0], CLEAN[2]], "offset-gap"),
        (CLEAN[:2], "offset-gap"),
        ([*CLEAN[:2], batch(3, 3)], "offset-overlap"),
        ([CLEAN[0], batch(2, 2, 4, 7), CLEAN[2]], "producer-gap"),
        ([CLEAN[0], batch(2, 2, 0, 7), CLEAN[2]], "producer-double"),
        ([batch(0, 2, 5, 7), batch(2, 4)], "producer-gap"),
        ([batch(0, 2, 0, 7, producer_epoch=1), batch(2, 2, 2, 7), CLEAN[2]], "producer-back"),
        ([CLEAN[0], batch(2, 2, 2, 7, producer_epoch=1), CLEAN[2]], "producer-gap"),
        ([CLEAN[0]._replace(leader_epoch=2), CLEAN[1]._replace(leader_epoch=1), CLEAN[2]], "leader-epoch-back"),
        ([*CLEAN[:2], batch(4, max_ms=NOW + AHEAD_MS_MAX + 1)], "time-insane"),
        ([*CLEAN[:2], batch(4, base_ms=-5)], "time-insane"),
    ],
)
def test_each_damage_is_named(batches: list[Batch], name: str) -> None:
    verdict = audited(batches)
    assert name in verdict.counts
    assert verdict.findings[0].about == "steps-3"


@pytest.mark.parametrize(
    "batches",
    [
        [batch(0, 3, 0, 7), batch(3, 3, 0, 7, producer_epoch=1)],
        [batch(0, 3, 0, 7), batch(3, 3, 0, 8)],
        [batch(0, 3, 0, 7, max_ms=-1, base_ms=-1), batch(3, 3, 3, 7)],
    ],
)
def test_what_may_be_is_clean(batches: list[Batch]) -> None:
    assert audited(batches).counts == {}


def test_sequences_wrap_round() -> None:
    audit = PartitionAudit("steps", 3, 10, 14, NOW)
    audit.read(batch(10, 2, SEQUENCES - 2, 7))
    audit.read(batch(12, 2, 0, 7))
    assert audit.finish().clean
    audit = PartitionAudit("steps", 3, 10, 14, NOW)
    audit.read(batch(10, 2, SEQUENCES - 3, 7))
    audit.read(batch(12, 2, 1, 7))
    assert audit.finish().counts == {"producer-gap": 1}


def test_a_log_whose_beginning_was_removed_may_begin_anywhere() -> None:
    assert audited([batch(3, 3, 40, 7), batch(6, 1, 43, 7)], start=4, end=7).counts == {}
    assert audited([batch(3, 3), batch(5, 2)], start=4, end=7).counts == {"offset-overlap": 1}


@pytest.mark.parametrize("offset", [0, 9, 4])
def test_acknowledged_records_are_there(offset: int) -> None:
    audit = PartitionAudit("steps", 3, 2, 8, NOW, [Written("steps", 3, offset)])
    audit.read(batch(2, 2))
    audit.damaged("the CRC is wrong", 4, 6)
    audit.read(batch(6, 2))
    counts = audit.finish().counts
    assert counts == {"batch-damaged": 1, "record-lost": 1}


def test_a_record_in_a_gap_is_lost() -> None:
    assert audited([CLEAN[0], CLEAN[2]], told=[Written("steps", 3, 3)]).counts == {"offset-gap": 1, "record-lost": 1}


def test_keys_are_compared_where_they_are_told() -> None:
    audit = PartitionAudit("steps", 3, 0, 2, NOW, [Written("steps", 3, 0, "ada"), Written("steps", 3, 1)])
    assert audit.wants_keys
    audit.read(batch(0))
    audit.key(0, b"ada")
    audit.key(1, b"whoever")
    assert audit.findings.counts == {}
    audit.key(0, b"bob")
    assert audit.finish().counts == {"key-differs": 1}


def test_each_batch_behind_the_newest_epoch_is_found() -> None:
    epochs = [each._replace(leader_epoch=epoch) for each, epoch in zip(CLEAN, (5, 3, 4), strict=True)]
    assert audited(epochs).counts == {"leader-epoch-back": 2}


def test_what_follows_a_batch_that_was_written_twice_is_no_gap() -> None:
    batches = [batch(0, 1, 0, 7), batch(1, 1, 1, 7), batch(2, 1, 0, 7), batch(3, 1, 2, 7), batch(4, 2, 3, 7)]
    assert audited(batches).counts == {"producer-double": 1}
