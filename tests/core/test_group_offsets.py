"""A group's offsets: what may be committed, what shows, what expires."""

from __future__ import annotations

from octoloom.core.consumer_messages import FetchedOffset, GroupError, OffsetToCommit
from octoloom.core.consumer_records import OffsetRecord
from octoloom.core.group_offsets import GroupOffsets


def check(offsets: GroupOffsets, *wanted: OffsetToCommit, metadata_max: int = 10, offsets_max: int = 3) -> list[str]:
    return [error.name for error in offsets.check(wanted, metadata_max, offsets_max)]


def test_bad_offsets_are_refused_one_by_one() -> None:
    errors = check(
        GroupOffsets(),
        OffsetToCommit("t", 0, 5),
        OffsetToCommit("t", 1, 5, metadata="x" * 11),
        OffsetToCommit("", 0, 5),
        OffsetToCommit("t" * 250, 0, 5),
        OffsetToCommit("t", -1, 5),
        OffsetToCommit("t", 2, -1),
        OffsetToCommit("t", 3, 0, metadata="x" * 10),
    )
    assert errors == [
        "NONE",
        "OFFSET_METADATA_TOO_LARGE",
        "INVALID_TOPIC_EXCEPTION",
        "INVALID_TOPIC_EXCEPTION",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "INVALID_REQUEST",
        "NONE",
    ]


def test_the_number_of_partitions_is_bounded() -> None:
    offsets = GroupOffsets()
    offsets.stored["t", 0] = OffsetRecord(1, -1, "", 0)
    offsets.begin([("t", 0), ("t", 1)])
    wanted = [OffsetToCommit("t", partition, 9) for partition in (0, 1, 2, 3, 2)]
    full = GroupError.INVALID_COMMIT_OFFSET_SIZE.name
    assert check(offsets, *wanted) == ["NONE", "NONE", "NONE", full, "NONE"]
    assert check(offsets, *wanted, offsets_max=2) == ["NONE", "NONE", full, full, full]
    assert check(offsets, *wanted, offsets_max=4) == ["NONE"] * 5


def test_several_commits_of_a_partition_may_be_on_their_way() -> None:
    offsets = GroupOffsets()
    offsets.begin([("t", 0)])
    offsets.begin([("t", 0)])
    offsets.end([("t", 0)])
    assert not offsets.is_empty
    offsets.end([("t", 0)])
    assert offsets.is_empty


def test_only_what_is_stored_shows() -> None:
    offsets = GroupOffsets()
    offsets.begin([("t", 1)])
    offsets.stored["t", 0] = OffsetRecord(4, 2, "note", 0)
    known, unknown = FetchedOffset("t", 0, 4, 2, "note"), FetchedOffset("t", 1, -1, -1, "")
    assert offsets.fetch([("t", 1), ("t", 0)]) == (unknown, known)
    assert offsets.fetch(None) == (known,)


def test_offsets_expire_when_neither_they_nor_their_group_were_used() -> None:
    offsets = GroupOffsets()
    offsets.stored["t", 0] = OffsetRecord(4, 2, "", 100)
    offsets.stored["t", 1] = OffsetRecord(4, 2, "", 300)
    offsets.stored["t", 2] = OffsetRecord(4, 2, "", 100)
    offsets.begin([("t", 2)])
    assert offsets.expired(now=1_099, empty_since=0, retention_ms=1_000) == []
    assert offsets.expired(now=1_100, empty_since=0, retention_ms=1_000) == [("t", 0)]
    assert offsets.expired(now=1_300, empty_since=0, retention_ms=1_000) == [("t", 0), ("t", 1)]
    assert offsets.expired(now=1_499, empty_since=500, retention_ms=1_000) == []
    assert offsets.oldest() == 100
    assert offsets.of_topic("t") == [("t", 0), ("t", 1), ("t", 2)]
    offsets.forget([("t", 0), ("t", 9)])
    assert list(offsets.stored) == [("t", 1), ("t", 2)]
