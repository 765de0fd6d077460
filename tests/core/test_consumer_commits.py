"""Commits: who may, when they show, when they go; and groups that go with them."""

from __future__ import annotations

import pytest

from octoloom.core import consumer_messages as say
from octoloom.core.consumer_messages import DeleteAnswer, FetchedOffset, GroupError
from octoloom.core.consumer_settings import STORE_RETRY_MS
from tests.core.consumer_desk import DELAY_MS, GROUP, SESSION_MS, Desk

WEEK_MS = 7 * 24 * 3_600_000
GRACE_MS = 600_000


# Who may commit.


def test_members_of_this_generation_commit() -> None:
    desk = Desk()
    (member,) = desk.stable(None)
    assert desk.error(desk.commit({0: 5, 1: 6}, member=member, generation=1)) is GroupError.NONE
    assert desk.fetch(0, 1, 2) == [5, 6, -1]
    assert desk.error(desk.commit({0: 7}, member=member, generation=0)) is GroupError.ILLEGAL_GENERATION
    assert desk.error(desk.commit({0: 7}, member="stranger", generation=1)) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.error(desk.commit({0: 7}, member=member)) is GroupError.ILLEGAL_GENERATION
    assert desk.error(desk.commit({0: 7})) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.fetch(0) == [5]


def test_anybody_commits_to_a_group_without_members() -> None:
    desk = Desk()
    assert desk.error(desk.commit({0: 5})) is GroupError.NONE
    assert desk.error(desk.commit({0: 6}, member="m", generation=3)) is GroupError.ILLEGAL_GENERATION
    (member,) = desk.stable(None)
    assert desk.error(desk.commit({0: 6})) is GroupError.UNKNOWN_MEMBER_ID
    desk.leave(member)
    assert desk.error(desk.commit({0: 6}, member=member, generation=1)) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.error(desk.commit({0: 6})) is GroupError.NONE
    assert desk.fetch(0) == [6]


def test_a_commit_during_a_round() -> None:
    desk = Desk()
    leader, follower = desk.stable(None, None)
    desk.join(leader)
    assert desk.error(desk.commit({0: 5}, member=follower, generation=1)) is GroupError.NONE
    desk.join(follower)
    assert desk.state() == "CompletingRebalance"
    assert desk.error(desk.commit({0: 6}, member=follower, generation=1)) is GroupError.ILLEGAL_GENERATION
    assert desk.error(desk.commit({0: 6}, member=follower, generation=2)) is GroupError.REBALANCE_IN_PROGRESS
    assert desk.fetch(0) == [5]


def test_what_can_be_taken_is_taken() -> None:
    desk = Desk(metadata_max=3, offsets_max=2)
    offsets = (
        say.OffsetToCommit("t", 0, 5, 1, "note"),
        say.OffsetToCommit("t", 1, 6, 1, "not"),
        say.OffsetToCommit("t", 2, 7),
        say.OffsetToCommit("t", 3, 8),
    )
    desk.obey(desk.coordinator.on_commit(desk.now, 100, say.CommitRequest(GROUP, offsets)))
    assert [error.name for _, _, error in desk.answers[100].results] == [
        "OFFSET_METADATA_TOO_LARGE",
        "NONE",
        "NONE",
        "INVALID_COMMIT_OFFSET_SIZE",
    ]
    desk.obey(desk.coordinator.on_fetch_offsets(desk.now, 101, say.FetchOffsetsRequest((say.OffsetsQuery(GROUP),))))
    assert desk.answers[101].groups[0].offsets == (FetchedOffset("t", 1, 6, 1, "not"), FetchedOffset("t", 2, 7, -1, ""))


def test_a_commit_of_nothing_leaves_no_group_behind() -> None:
    desk = Desk()
    desk.obey(desk.coordinator.on_commit(desk.now, 100, say.CommitRequest(GROUP, ())))
    assert desk.answers[100].results == ()
    assert desk.error(desk.commit({-1: 5})) is GroupError.UNKNOWN_TOPIC_OR_PARTITION
    assert desk.error(desk.commit({0: 5}, group="")) is GroupError.INVALID_GROUP_ID
    assert desk.coordinator.list_groups() == []
    assert desk.log == []


def test_groups_that_only_commit_are_bounded_too() -> None:
    desk = Desk(groups_max=1)
    desk.commit({0: 5})
    assert desk.error(desk.commit({0: 5}, group="another")) is GroupError.POLICY_VIOLATION
    assert desk.error(desk.commit({1: 5})) is GroupError.NONE


def test_what_waits_to_be_stored_is_bounded() -> None:
    desk = Desk(stores_max=2)
    desk.holds = True
    tickets = [desk.commit({0: number}) for number in range(2)]
    assert desk.error(desk.commit({0: 9})) is GroupError.COORDINATOR_LOAD_IN_PROGRESS
    desk.store()
    assert [desk.error(ticket) for ticket in tickets] == [GroupError.NONE] * 2
    assert desk.fetch(0) == [1]


# When they show.


def test_a_commit_shows_and_is_answered_once_it_is_stored() -> None:
    desk = Desk()
    desk.commit({0: 1})
    desk.holds = True
    tickets = [desk.commit({0: 2}), desk.commit({0: 3})]
    assert all(desk.waits(ticket) for ticket in tickets)
    assert desk.fetch(0) == [1]
    desk.obey(desk.coordinator.on_stored(desk.now, 3))
    assert [desk.error(ticket) for ticket in tickets] == [GroupError.NONE] * 2
    assert desk.fetch(0) == [3]


def test_a_refused_commit_is_answered_so_and_never_shows() -> None:
    desk = Desk()
    desk.holds = True
    ticket = desk.commit({0: 2})
    desk.refuse()
    assert desk.error(ticket) is GroupError.COORDINATOR_NOT_AVAILABLE
    assert desk.coordinator.list_groups() == []
    desk.holds = False
    desk.commit({0: 3})
    assert desk.fetch(0) == [3]


def test_who_is_told_its_assignment_finds_all_commits_of_the_generation_before() -> None:
    desk = Desk()
    leader, follower = desk.stable(None, None)
    desk.holds = True
    committed = desk.commit({0: 5}, member=follower, generation=1)
    joined = [desk.join(leader), desk.join(follower)]
    assert desk.waits(committed)
    desk.store()
    assert all(desk.answers[ticket].generation == 2 for ticket in joined)
    assert desk.fetch(0) == [5]


def test_several_groups_are_fetched_at_once() -> None:
    desk = Desk()
    desk.commit({0: 1}, group="a")
    queries = tuple(say.OffsetsQuery(group) for group in ("a", "nobody", ""))
    desk.obey(desk.coordinator.on_fetch_offsets(desk.now, 100, say.FetchOffsetsRequest(queries)))
    found, unknown, bad = desk.answers[100].groups
    assert [fetched.offset for fetched in found.offsets] == [1]
    assert (unknown.error, unknown.offsets) == (GroupError.NONE, ())
    assert bad.error is GroupError.INVALID_GROUP_ID
    assert [listing.group for listing in desk.coordinator.list_groups()] == ["a"]


# When they go.


def test_offsets_expire_one_by_one_and_the_group_with_the_last() -> None:
    desk = Desk()
    desk.commit({0: 1})
    desk.run(1_000)
    desk.commit({1: 2})
    desk.run(WEEK_MS - 1_001)
    assert desk.fetch(0, 1) == [1, 2]
    desk.run(1)
    assert desk.fetch(0, 1) == [-1, 2]
    desk.run(1_000)
    assert desk.fetch(0, 1) == [-1, -1]
    assert desk.coordinator.list_groups() == []
    assert desk.coordinator.deadline() is None
    desk.fail_over()
    assert desk.coordinator.snapshot_records() == []


def test_a_commit_in_time_keeps_an_offset() -> None:
    desk = Desk()
    for _ in range(3):
        desk.commit({0: 1})
        desk.run(WEEK_MS - 1)
    assert desk.fetch(0) == [1]


def test_the_offsets_of_a_group_with_members_do_not_expire() -> None:
    desk = Desk(session_timeout_max_ms=10 * WEEK_MS)
    (member,) = desk.stable(None, session_timeout_ms=5 * WEEK_MS)
    desk.commit({0: 1}, member=member, generation=1)
    desk.run(4 * WEEK_MS)
    assert desk.fetch(0) == [1]
    desk.leave(member)
    desk.run(WEEK_MS - 1)
    assert desk.fetch(0) == [1]
    desk.run(1)
    assert desk.fetch(0) == [-1]
    assert desk.state() == "Dead"


def test_a_slow_log_is_not_asked_twice_to_forget() -> None:
    desk = Desk()
    desk.commit({0: 1, 1: 1})
    desk.run(1_000)
    desk.commit({1: 2})
    desk.holds = True
    desk.run(WEEK_MS - 1)
    assert len(desk.held) == 1
    desk.refuse()
    desk.holds = False
    assert desk.fetch(0, 1) == [1, 2]
    desk.run(STORE_RETRY_MS)
    assert desk.fetch(0, 1) == [-1, -1]


def test_members_that_come_back_stop_the_clock() -> None:
    desk = Desk()
    desk.commit({0: 1})
    desk.run(WEEK_MS - 1)
    (member,) = desk.stable(None)
    desk.run(1_000)
    assert desk.beat(member, 1) is GroupError.NONE
    assert desk.fetch(0) == [1]


def test_an_offset_does_not_expire_while_its_partition_is_committed_anew() -> None:
    desk = Desk()
    desk.commit({0: 1, 1: 1})
    desk.run(WEEK_MS - 1)
    desk.holds = True
    ticket = desk.commit({0: 2})
    desk.run(1)
    assert len(desk.held) == 2
    desk.store()
    desk.holds = False
    assert desk.error(ticket) is GroupError.NONE
    assert desk.fetch(0, 1) == [2, -1]
    desk.fail_over()
    assert desk.fetch(0, 1) == [2, -1]


def test_an_empty_group_without_offsets_is_forgotten_sooner() -> None:
    desk = Desk()
    (member,) = desk.stable(None)
    desk.leave(member)
    desk.run(GRACE_MS - 1)
    assert desk.state() == "Empty"
    desk.run(1)
    assert desk.state() == "Dead"
    assert desk.coordinator.list_groups() == []
    desk.fail_over()
    assert desk.coordinator.list_groups() == []


def test_a_group_is_not_forgotten_while_an_id_of_it_is_out() -> None:
    desk = Desk()
    (member,) = desk.stable(None)
    desk.leave(member)
    desk.run(GRACE_MS - 1)
    desk.join(fresh_id="mine")
    desk.run(1)
    ticket = desk.join("mine")
    desk.run(DELAY_MS)
    assert desk.answers[ticket].generation == 3


def test_offsets_go_with_their_topic() -> None:
    desk = Desk()
    desk.commit({0: 1})
    desk.obey(desk.coordinator.on_commit(desk.now, 100, say.CommitRequest("h", (say.OffsetToCommit("u", 0, 4),))))
    desk.holds = True
    ticket = desk.commit({1: 1})
    desk.obey(desk.coordinator.on_topic_deleted(desk.now, "t"))
    desk.store()
    desk.holds = False
    assert desk.error(ticket) is GroupError.NONE
    assert desk.fetch(0, 1) == [-1, -1]
    assert [listing.group for listing in desk.coordinator.list_groups()] == ["h"]
    desk.fail_over()
    assert [listing.group for listing in desk.coordinator.list_groups()] == ["h"]


# Deleting groups.


def test_empty_groups_are_deleted() -> None:
    desk = Desk()
    (member,) = desk.stable(None)
    desk.commit({0: 1}, group="a")
    desk.join(group="b")
    ticket = desk.delete("a", GROUP, "nobody", "", "b", "a")
    assert desk.answers[ticket] == DeleteAnswer(
        (
            ("a", GroupError.NONE),
            (GROUP, GroupError.NON_EMPTY_GROUP),
            ("nobody", GroupError.GROUP_ID_NOT_FOUND),
            ("", GroupError.INVALID_GROUP_ID),
            ("b", GroupError.NONE),
        )
    )
    assert desk.fetch(0, group="a") == [-1]
    assert [listing.group for listing in desk.coordinator.list_groups()] == [GROUP]
    desk.run(SESSION_MS - 1)
    assert desk.beat(member, 1) is GroupError.NONE
    assert desk.answers[desk.delete("nobody")].results == (("nobody", GroupError.GROUP_ID_NOT_FOUND),)


def test_a_group_takes_no_requests_while_it_is_being_deleted() -> None:
    desk = Desk()
    desk.commit({0: 1})
    desk.join(fresh_id="mine", session_timeout_ms=6_000)
    desk.holds = True
    ticket = desk.delete(GROUP)
    assert desk.waits(ticket)
    dead = GroupError.COORDINATOR_NOT_AVAILABLE
    assert desk.error(desk.join()) is dead
    assert desk.error(desk.commit({0: 2})) is dead
    assert desk.error(desk.sync("mine", 1)) is dead
    assert desk.beat("mine", 1) is dead
    assert desk.leave("mine").error is dead
    assert desk.answers[desk.delete(GROUP)].results == ((GROUP, dead),)
    desk.obey(desk.coordinator.on_topic_deleted(desk.now, "t"))
    desk.run(6_000)
    assert (desk.state(), desk.coordinator.list_groups()) == ("Dead", [])
    assert desk.coordinator.describe(GROUP).error is GroupError.GROUP_ID_NOT_FOUND
    desk.store()
    assert desk.answers[ticket].results == ((GROUP, GroupError.NONE),)
    desk.holds = False
    desk.commit({1: 2})
    assert desk.fetch(0, 1) == [-1, 2]
    desk.fail_over()
    assert desk.fetch(0, 1) == [-1, 2]


@pytest.mark.parametrize("by_time", [False, True])
def test_a_group_whose_deletion_is_refused_goes_on(by_time: bool) -> None:
    desk = Desk()
    desk.commit({0: 1})
    desk.holds = True
    if by_time:
        desk.run(WEEK_MS)
    ticket = 0 if by_time else desk.delete(GROUP)
    desk.refuse()
    desk.holds = False
    assert by_time or desk.answers[ticket].results == ((GROUP, GroupError.COORDINATOR_NOT_AVAILABLE),)
    assert desk.fetch(0) == [1]
    assert desk.error(desk.commit({1: 2})) is GroupError.NONE
    # What was due is tried again.
    desk.run(STORE_RETRY_MS)
    assert desk.fetch(0, 1) == [-1 if by_time else 1, 2]


def test_a_young_group_whose_deletion_is_refused_stays() -> None:
    desk = Desk()
    (member,) = desk.stable(None)
    desk.leave(member)
    desk.holds = True
    desk.delete(GROUP)
    desk.refuse()
    desk.run(GRACE_MS - 1)
    assert desk.state() == "Empty"
    assert desk.held == []


def test_a_commit_before_a_deletion_is_stored_and_goes_with_the_group() -> None:
    desk = Desk()
    desk.holds = True
    committed, deleted = desk.commit({0: 1}), desk.delete(GROUP)
    desk.store()
    assert desk.error(committed) is GroupError.NONE
    assert desk.answers[deleted].results == ((GROUP, GroupError.NONE),)
    assert desk.fetch(0) == [-1]
    desk.fail_over()
    assert desk.fetch(0) == [-1]
