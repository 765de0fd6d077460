"""The ring covers exactly what it says, or says that it does not."""

from __future__ import annotations

import pytest

from octoloom.core import ring as ring_module
from octoloom.core.event import Change
from octoloom.core.ring import Ring


def change(version: int, size: int = 2) -> Change:
    return Change(epoch=1, version=version, replace=False, merge=b"x" * size, kills=[])


def filled(*versions: int, size: int = 2) -> Ring:
    ring = Ring()
    for version in versions:
        ring.push(change(version, size))
    return ring


def versions(changes: list[Change] | None) -> list[int] | None:
    return None if changes is None else [each.version for each in changes]


def test_an_empty_ring_knows_nothing_and_does_not_pretend_to() -> None:
    assert Ring().since(0) is None
    assert Ring().since(7) is None


def test_it_gives_all_changes_after_a_version_in_order() -> None:
    ring = filled(5, 6, 7)
    assert versions(ring.since(4)) == [5, 6, 7]
    assert versions(ring.since(5)) == [6, 7]
    assert versions(ring.since(6)) == [7]


def test_whoever_is_up_to_date_or_ahead_lacks_nothing() -> None:
    assert filled(5, 6).since(6) == []
    assert filled(5, 6).since(9) == []


def test_whoever_is_too_far_behind_gets_nothing_rather_than_a_part() -> None:
    assert filled(5, 6, 7).since(3) is None


def test_the_count_is_bounded_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "CHANGES_MAX", 3)
    ring = filled(1, 2, 3, 4, 5)
    assert versions(ring.since(2)) == [3, 4, 5]
    assert ring.since(1) is None


def test_the_size_is_bounded_but_the_newest_always_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "SIZE_MAX", 100)
    ring = filled(1, 2, 3, size=40)
    assert versions(ring.since(1)) == [2, 3]
    assert ring.since(0) is None
    ring.push(change(4, size=5000))
    assert versions(ring.since(3)) == [4]
    assert ring.since(2) is None


def test_what_was_dropped_no_longer_counts_towards_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "SIZE_MAX", 100)
    ring = filled(1, size=5000)
    for version in range(2, 10):
        ring.push(change(version, size=30))
    assert versions(ring.since(6)) == [7, 8, 9]


def test_a_hole_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError):
        filled(1, 3)


def test_a_cleared_ring_starts_anywhere() -> None:
    ring = filled(1, 2)
    ring.clear()
    assert ring.since(2) is None
    ring.push(change(40))
    assert versions(ring.since(39)) == [40]
