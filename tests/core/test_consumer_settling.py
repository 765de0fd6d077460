"""What is settled: which groups stay and which go. The stories are told in the tests of rounds and commits."""

from __future__ import annotations

from tests.core.consumer_desk import Desk


def test_a_group_is_forgotten_only_when_nothing_is_left_of_it() -> None:
    desk = Desk()
    desk.holds = True
    desk.commit({0: 1})
    desk.join(fresh_id="mine")
    desk.refuse()
    assert len(desk.coordinator.list_groups()) == 1
    desk.leave("mine")
    assert desk.coordinator.list_groups() == []
    assert desk.coordinator.deadline() is None


def test_a_group_of_the_same_name_is_not_taken_for_the_one_that_was_deleted() -> None:
    desk = Desk()
    desk.join(fresh_id="mine", session_timeout_ms=6_000)
    desk.holds = True
    desk.delete("g")
    desk.run(6_000)
    # The old group is gone with its last id, before its deletion is stored.
    desk.join(fresh_id="new")
    desk.store()
    assert len(desk.coordinator.list_groups()) == 1
    desk.holds = False
    assert desk.waits(desk.join("new"))
