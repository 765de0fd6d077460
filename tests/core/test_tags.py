"""Tags against a dumb twin that remembers every number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.tags import Seen, Tags, TooSparse

NUMBER_MAX = 24
steps = st.lists(st.tuples(st.sampled_from(["add", "add", "add", "advance", "restore"]), st.integers(0, NUMBER_MAX)))


@given(steps)
def test_seen_is_a_set_of_all_numbers(history: list[tuple[str, int]]) -> None:
    seen, twin = Seen(), {0}
    for step, number in history:
        if step == "add":
            assert seen.add(number) is (number not in twin)
            twin.add(number)
        elif step == "advance":
            seen.advance(number)
            twin.update(range(number + 1))
        else:
            seen = Seen.restore(seen.snapshot())
        assert [seen.has(n) for n in range(NUMBER_MAX + 2)] == [n in twin for n in range(NUMBER_MAX + 2)]
        # The watermark stands right below the first hole, and only what lies beyond the hole is kept one by one.
        assert seen.watermark == next(n for n in range(NUMBER_MAX + 2) if n + 1 not in twin)
        assert sorted(seen.above) == [n for n in sorted(twin) if n > seen.watermark]


@given(steps, st.integers(0, 4))
def test_the_sparse_set_is_bounded_and_a_refusal_changes_nothing(
    history: list[tuple[str, int]], above_max: int
) -> None:
    seen = Seen(above_max=above_max)
    for step, number in history:
        if step == "advance":
            seen.advance(number)
            continue
        before, has_room = seen.snapshot(), seen.has_room(number)
        try:
            seen.add(number)
        except TooSparse:
            assert not has_room
            assert seen.snapshot() == before
        else:
            assert has_room
        assert len(seen.above) <= above_max


def test_the_hole_can_always_be_filled() -> None:
    seen = Seen(above_max=2)
    assert seen.add(2)
    assert seen.add(4)
    with pytest.raises(TooSparse, match="6 is beyond a hole at 1"):
        seen.add(6)
    assert seen.add(1)
    assert seen.snapshot() == (2, [4])
    assert seen.add(6)


def test_the_past_counts_as_seen() -> None:
    seen = Seen(watermark=7)
    assert not seen.add(7)
    assert seen.add(8)
    seen.advance(3)
    assert seen.snapshot() == (8, [])


def test_a_snapshot_with_numbers_that_close_up() -> None:
    assert Seen.restore((3, [2, 4, 5, 7])).snapshot() == (5, [7])


@given(st.lists(st.tuples(st.sampled_from(["add", "advance", "forget"]), st.sampled_from("xy"), st.integers(0, 9))))
def test_origins_do_not_touch_each_other(history: list[tuple[str, str, int]]) -> None:
    tags: Tags[str] = Tags()
    twin: set[tuple[str, int]] = set()
    for step, origin, number in history:
        if step == "add":
            assert tags.add(origin, number) is (number > 0 and (origin, number) not in twin)
            twin.add((origin, number))
        elif step == "advance":
            tags.advance(origin, number)
            twin.update((origin, n) for n in range(1, number + 1))
        else:
            tags.forget(origin)
            twin = {tag for tag in twin if tag[0] != origin}
        tags = Tags.restore(tags.snapshot())
        for other in "xy":
            assert [tags.has(other, n) for n in range(1, 11)] == [(other, n) in twin for n in range(1, 11)]


def test_an_origin_without_numbers_leaves_no_trace() -> None:
    tags: Tags[str] = Tags(above_max=0)
    assert not tags.add("x", 0)
    tags.advance("x", 0)
    assert not tags.has_room("x", 2)
    with pytest.raises(TooSparse):
        tags.add("x", 2)
    assert len(tags) == 0
    assert "x" not in tags
    assert tags.watermark("x") == 0


def test_snapshot_of_tags() -> None:
    tags: Tags[str] = Tags()
    for number in (1, 2, 5, 4):
        tags.add("x", number)
    tags.advance("y", 3)
    assert tags.snapshot() == {"x": (2, [4, 5]), "y": (3, [])}
    assert (tags.watermark("x"), tags.watermark("y")) == (2, 3)
