"""However a read is cut, its offsets are the same."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from octoloom.spark.ranges import Offsets, Range, between, limited, split

offsets = st.integers(0, 60)
edges = st.dictionaries(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)), st.tuples(offsets, offsets))


def starts_and_ends(said: dict[tuple[str, int], tuple[int, int]]) -> tuple[Offsets, Offsets]:
    return {place: min(two) for place, two in said.items()}, {place: max(two) for place, two in said.items()}


def all_in(ranges: list[Range]) -> list[tuple[str, int, int]]:
    return [(each.topic, each.partition, offset) for each in ranges for offset in range(each.start, each.end)]


@settings(deadline=None)
@given(edges, st.integers(0, 40))
def test_split_ranges_hold_the_same_offsets_once_and_in_order(
    said: dict[tuple[str, int], tuple[int, int]], partitions_min: int
) -> None:
    whole = between(*starts_and_ends(said))
    parts = split(whole, partitions_min)
    assert all_in(parts) == all_in(whole)
    assert all(each.size for each in parts)
    assert len(parts) >= min(partitions_min, len(all_in(whole)))
    assert len(parts) <= max(partitions_min, len(whole))
    for each in whole:
        sizes = [part.size for part in parts if part.place == each.place]
        assert max(sizes) - min(sizes) <= 1


@settings(deadline=None)
@given(edges, st.integers(1, 100))
def test_limited_ends_lie_between_and_move_on_everywhere(
    said: dict[tuple[str, int], tuple[int, int]], records_max: int
) -> None:
    starts, ends = starts_and_ends(said)
    nearer = limited(starts, ends, records_max)
    waiting = [place for place in ends if ends[place] > starts[place]]
    assert all(starts[place] <= nearer[place] <= ends[place] for place in ends)
    assert all(nearer[place] > starts[place] for place in waiting)
    total = sum(nearer[place] - starts[place] for place in ends)
    assert total <= max(records_max, len(waiting))
    if sum(ends.values()) - sum(starts.values()) <= records_max:
        assert nearer == ends


def test_a_share_is_in_proportion_to_what_there_is() -> None:
    starts = {("a", 0): 0, ("a", 1): 100, ("b", 0): 7}
    ends = {("a", 0): 3001, ("a", 1): 1101, ("b", 0): 7}
    assert limited(starts, ends, 402) == {("a", 0): 301, ("a", 1): 201, ("b", 0): 7}


def test_a_partition_that_is_new_is_limited_from_its_beginning() -> None:
    assert limited({}, {("a", 0): 1000}, 10) == {("a", 0): 10}


def test_large_ranges_are_cut_first() -> None:
    parts = split([Range("a", 0, 0, 90), Range("a", 1, 5, 15)], 4)
    assert parts == [Range("a", 0, 0, 30), Range("a", 0, 30, 60), Range("a", 0, 60, 90), Range("a", 1, 5, 15)]


def test_what_is_between_leaves_out_the_empty() -> None:
    assert between({("a", 1): 4, ("a", 0): 7, ("b", 0): 1}, {("a", 0): 7, ("a", 1): 9}) == [Range("a", 1, 4, 9)]
