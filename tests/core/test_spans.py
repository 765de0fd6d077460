"""Spans against a set that remembers every number."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core import spans as spans_module
from octoloom.core.spans import Spans

NUMBER_MAX = 20


@given(st.lists(st.tuples(st.booleans(), st.integers(1, NUMBER_MAX))))
def test_spans_are_a_set(history: list[tuple[bool, int]]) -> None:
    spans, twin = Spans(), set[int]()
    for adds, number in history:
        if adds:
            assert spans.add(number) is (number not in twin)
            twin.add(number)
        else:
            spans.remove(number)
            twin.discard(number)
        assert [n in spans for n in range(NUMBER_MAX + 2)] == [n in twin for n in range(NUMBER_MAX + 2)]
        assert spans.highest == max(twin, default=0)
        kept = spans.spans()
        assert all(first <= last for first, last in kept)
        assert all(left[1] + 1 < right[0] for left, right in pairwise(kept))
        assert Spans(kept).spans() == kept


def test_there_are_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_module, "SPANS_MAX", 3)
    spans = Spans()
    for number in (1, 3, 5, 7):
        spans.add(number)
    assert spans.spans() == [(1, 3), (5, 5), (7, 7)]
