"""Complaints come again and again, each member once at a time, and no more often than that."""

from __future__ import annotations

from octoloom.core.complaints import Complaints


def test_complaints_come_four_times_in_the_time_of_patience() -> None:
    complaints = Complaints(patience_ms=400)
    assert complaints.take(10_000, ["A"]) == [], "there is no group yet"
    complaints.begin(0)
    assert complaints.due_at == 100
    complaints.begin(50)
    assert complaints.due_at == 100
    assert complaints.take(99, ["A"]) == []
    assert complaints.take(100, ["A"]) == ["A"]
    assert complaints.take(100, ["A"]) == []
    assert complaints.take(200, ["A"]) == ["A"]


def test_each_is_named_once_and_nobody_is_if_all_are_heard() -> None:
    complaints = Complaints(patience_ms=400)
    complaints.begin(0)
    assert complaints.take(100, ["B", "A"], [], ["A", "C", "B"]) == ["B", "A", "C"]
    assert complaints.take(200, [], []) == []
    assert complaints.due_at == 300


def test_a_patient_member_that_complains_does_so_again_soon() -> None:
    complaints = Complaints(patience_ms=8000)
    complaints.begin(0)
    assert complaints.take(2000, []) == []
    assert complaints.due_at == 4000
    assert complaints.take(4000, ["A"]) == ["A"]
    assert complaints.due_at == 4100
