"""The records of a group coordinator: what is left of a log, and what a bad one does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.consumer_records import (
    Contents,
    GroupRecord,
    OffsetRecord,
    Record,
    compacted,
    encode,
    group_key,
    offset_key,
)
from octoloom.core.errors import StoreError

groups = st.sampled_from(["a", "b"])
partitions = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 2))
records = st.one_of(
    st.builds(lambda group, number: (group_key(group), empty(number)), groups, st.integers(0, 99)),
    st.builds(lambda group: (group_key(group), None), groups),
    st.builds(lambda group, part, number: (offset_key(group, part), offset(number)), groups, partitions, st.integers()),
    st.builds(lambda group, part: (offset_key(group, part), None), groups, partitions),
)


def empty(generation: int) -> bytes:
    return encode(GroupRecord(generation, "consumer", "", "", False, 5, []))


def offset(number: int) -> bytes:
    return encode(OffsetRecord(number % 1_000, -1, "", 7))


@given(st.lists(records))
def test_a_compacted_log_says_the_same_and_nothing_twice(log: list[Record]) -> None:
    kept = compacted(log)
    before, after = Contents(log), Contents(kept)
    assert (before.groups, before.offsets) == (after.groups, after.offsets)
    assert all(before.offsets.values())
    assert len(kept) == len({key for key, _ in kept})
    assert all(value is not None for _, value in kept)


@given(st.lists(records), st.lists(records))
def test_compacting_in_between_changes_nothing(first: list[Record], second: list[Record]) -> None:
    assert sorted(compacted([*compacted(first), *second])) == sorted(compacted([*first, *second]))


def test_the_last_record_of_a_key_wins() -> None:
    contents = Contents([(offset_key("a", ("t", 0)), offset(1)), (offset_key("a", ("t", 0)), offset(2))])
    assert contents.offsets["a"]["t", 0].offset == 2


def test_a_deleted_group_takes_its_offsets_along() -> None:
    log: list[Record] = [(group_key("a"), empty(1)), (offset_key("a", ("t", 0)), offset(1)), (group_key("a"), None)]
    contents = Contents([*log, (offset_key("a", ("t", 1)), offset(9))])
    assert contents.groups == {}
    assert list(contents.offsets["a"]) == [("t", 1)]


@pytest.mark.parametrize(
    "record",
    [
        (b"", b""),
        (b"\xc1", None),
        (encode(["stranger", "a"]), b""),
        (group_key("a"), b"\x91\xa1x"),
        (group_key("a"), b""),
        (offset_key("a", ("t", 0)), encode(["x"])),
    ],
)
def test_a_record_that_cannot_be_read_is_reported(record: Record) -> None:
    with pytest.raises(StoreError, match="the log of consumer groups holds a"):
        Contents([(group_key("b"), empty(1)), record])
