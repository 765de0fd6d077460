"""The coordinator as a whole: heartbeats and leaving, looking at groups, failover, snapshots, and its cost."""

from __future__ import annotations

import pytest

from octoloom.core import consumer_messages as say
from octoloom.core.consumer_groups import GroupCoordinator
from octoloom.core.consumer_messages import GroupError, LeavingMember
from octoloom.core.errors import StoreError, UsageError
from tests.core.consumer_desk import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, Desk, subscription

# Heartbeats and leaving.


def test_heartbeats_are_for_members_of_this_generation() -> None:
    desk = Desk()
    assert desk.beat("m", 1) is GroupError.UNKNOWN_MEMBER_ID
    (member,) = desk.stable(None)
    assert desk.beat(member, 1) is GroupError.NONE
    assert desk.beat(member, 0) is GroupError.ILLEGAL_GENERATION
    assert desk.beat(member, 1, instance="i") is GroupError.UNKNOWN_MEMBER_ID
    assert desk.beat("stranger", 1) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.beat(member, 1, group="") is GroupError.INVALID_GROUP_ID


def test_the_last_to_leave_leaves_an_empty_group() -> None:
    desk = Desk()
    first, second = desk.stable(None, None)
    assert desk.leave(first).members == ((LeavingMember(first), GroupError.NONE),)
    assert desk.beat(second, 1) is GroupError.REBALANCE_IN_PROGRESS
    assert desk.leave(second, first).members[1][1] is GroupError.UNKNOWN_MEMBER_ID
    assert desk.state() == "Empty"
    assert desk.coordinator.describe(GROUP).members == ()
    ticket = desk.join(requires_member_id=False)
    desk.run(DELAY_MS)
    assert desk.answers[ticket].generation == 3


def test_many_leave_at_once_and_one_round_follows() -> None:
    desk = Desk()
    members = desk.stable(None, None, "c", "d")
    desk.join(fresh_id="waiting")
    leaving = (
        LeavingMember(members[0]),
        LeavingMember(members[2], "d"),
        LeavingMember("", "d"),
        LeavingMember("", "x"),
        LeavingMember("waiting"),
        LeavingMember("stranger"),
        LeavingMember(""),
    )
    errors = [error.name for _, error in desk.leave(*leaving).members]
    unknown = "UNKNOWN_MEMBER_ID"
    assert errors == ["NONE", "FENCED_INSTANCE_ID", "NONE", unknown, "NONE", unknown, unknown]
    remaining = [desk.join(members[1]), desk.join(members[2], instance="c")]
    assert [desk.answers[ticket].generation for ticket in remaining] == [2, 2]


def test_an_id_that_is_given_back_disturbs_nobody() -> None:
    desk = Desk()
    (member,) = desk.stable(None)
    desk.join(fresh_id="mine")
    assert desk.leave("mine").members[0][1] is GroupError.NONE
    assert desk.beat(member, 1) is GroupError.NONE
    assert desk.error(desk.join("mine")) is GroupError.UNKNOWN_MEMBER_ID
    desk.join(fresh_id="mine too")
    ticket = desk.join(member)
    assert desk.waits(ticket)
    desk.leave("mine too")
    assert desk.answers[ticket].generation == 2


def test_leaving_a_group_that_is_not_there() -> None:
    desk = Desk()
    assert desk.leave("m").members == ((LeavingMember("m"), GroupError.UNKNOWN_MEMBER_ID),)
    assert desk.leave("m", group="").error is GroupError.INVALID_GROUP_ID
    assert desk.coordinator.list_groups() == []


def test_who_leaves_while_it_waits_is_answered() -> None:
    desk = Desk()
    leader, follower = desk.stable(None, None)
    joining = desk.join(leader)
    desk.leave(leader)
    assert desk.error(joining) is GroupError.UNKNOWN_MEMBER_ID
    desk.join(follower)
    syncing = desk.sync("nobody", 2)
    assert desk.error(syncing) is GroupError.UNKNOWN_MEMBER_ID
    newcomer = desk.join(requires_member_id=False, fresh_id="new")
    desk.join(follower)
    syncing = desk.sync("new", desk.answers[newcomer].generation)
    desk.leave("new")
    assert desk.error(syncing) is GroupError.UNKNOWN_MEMBER_ID


def test_a_newcomer_that_leaves_at_once_leaves_no_trace() -> None:
    desk = Desk()
    desk.join(fresh_id="mine")
    desk.join("mine")
    desk.leave("mine")
    assert desk.coordinator.list_groups() == []
    assert desk.log == []
    desk.run(REBALANCE_MS)
    assert desk.coordinator.deadline() is None


# Looking.


def test_a_stable_group_is_described() -> None:
    desk = Desk()
    first, second = desk.stable("a", None, client_id="c", client_host="/10.0.0.1")
    description = desk.coordinator.describe(GROUP)
    assert (description.error, description.state) == (GroupError.NONE, "Stable")
    assert (description.protocol_type, description.protocol) == ("consumer", "range")
    assert description.members == (
        say.MemberDescription(first, "a", "c", "/10.0.0.1", subscription("t"), b"\0"),
        say.MemberDescription(second, None, "c", "/10.0.0.1", subscription("t"), b"\1"),
    )
    desk.join(first, instance="a")
    description = desk.coordinator.describe(GROUP)
    assert (description.state, description.protocol) == ("PreparingRebalance", "")
    assert [(member.metadata, member.assignment) for member in description.members] == [(b"", b"")] * 2


def test_a_group_that_is_not_there_is_dead() -> None:
    desk = Desk()
    description = desk.coordinator.describe("nobody")
    assert (description.state, description.error) == ("Dead", GroupError.GROUP_ID_NOT_FOUND)
    assert desk.coordinator.describe("").error is GroupError.INVALID_GROUP_ID


def test_groups_are_listed_by_state() -> None:
    desk = Desk()
    desk.stable(None)
    desk.commit({0: 1}, group="simple")
    assert desk.coordinator.list_groups() == [
        say.GroupListing(GROUP, "consumer", "Stable"),
        say.GroupListing("simple", "", "Empty"),
    ]
    assert [listing.group for listing in desk.coordinator.list_groups(["stable", "Dead"])] == [GROUP]


# Failover.


def test_members_do_not_notice_another_coordinator() -> None:
    desk = Desk()
    leader, static = desk.stable(None, "s")
    desk.commit({0: 5}, member=leader, generation=1)
    before = desk.coordinator.describe(GROUP)
    desk.run(SESSION_MS - 1)
    desk.fail_over()
    assert desk.coordinator.describe(GROUP) == before
    # Sessions begin anew, as heartbeats may have been lost with the old coordinator.
    desk.run(SESSION_MS - 1)
    assert desk.beat(leader, 1) is GroupError.NONE
    assert desk.beat(static, 1, instance="s") is GroupError.NONE
    assert desk.answers[desk.sync(static, 1, instance="s")].assignment == b"\1"
    assert desk.error(desk.commit({0: 6}, member=leader, generation=1)) is GroupError.NONE
    assert desk.answers[desk.join(static, instance="s")].leader == leader


def test_who_died_with_the_coordinator_is_given_up_by_the_next() -> None:
    desk = Desk()
    leader, dead = desk.stable(None, None)
    desk.fail_over()
    desk.run(SESSION_MS - 1)
    desk.beat(leader, 1)
    desk.run(1)
    assert desk.beat(dead, 1) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.beat(leader, 1) is GroupError.REBALANCE_IN_PROGRESS


def test_a_coordinator_that_dies_before_the_assignment_leaves_a_round() -> None:
    desk = Desk()
    tickets = [desk.join(requires_member_id=False) for _ in range(2)]
    desk.run(DELAY_MS)
    leader, follower = (desk.answers[ticket].member for ticket in tickets)
    desk.fail_over()
    assert desk.state() == "PreparingRebalance"
    assert desk.beat(leader, 1) is GroupError.REBALANCE_IN_PROGRESS
    assert desk.error(desk.sync(leader, 1, {leader: b"1"})) is GroupError.REBALANCE_IN_PROGRESS
    again = [desk.join(leader), desk.join(follower)]
    assert [desk.answers[ticket].generation for ticket in again] == [2, 2]


def test_a_generation_that_was_not_stored_never_was() -> None:
    desk = Desk()
    leader, follower = desk.stable(None, None)
    desk.holds = True
    tickets = [desk.join(leader), desk.join(follower)]
    desk.fail_over()
    assert all(desk.waits(ticket) for ticket in tickets)
    assert desk.state() == "Stable"
    assert desk.beat(leader, 1) is GroupError.NONE


def test_an_empty_group_is_loaded_with_its_age() -> None:
    desk = Desk()
    (member,) = desk.stable(None)
    desk.leave(member)
    desk.run(599_999)
    desk.fail_over()
    desk.run(500)
    assert desk.state() == "Dead"


def test_the_clock_of_another_machine_may_be_behind() -> None:
    desk = Desk()
    (member,) = desk.stable(None)
    desk.leave(member)
    desk.now -= 500_000
    desk.fail_over()
    desk.run(600_000)
    assert desk.state() == "Dead"


def test_a_log_that_cannot_be_read_is_reported() -> None:
    with pytest.raises(StoreError):
        GroupCoordinator.load(0, [(b"\x92\xa5group\xa1g", b"?")])


def test_when_leadership_is_lost_everybody_who_waits_is_told() -> None:
    desk = Desk()
    leader, follower = desk.stable(None, None)
    desk.commit({0: 1}, group="a")
    desk.holds = True
    waiting = [
        desk.commit({0: 1}, member=leader, generation=1),
        desk.join(leader),
        desk.join(requires_member_id=False, group="h"),
    ]
    deleting = desk.delete("a")
    desk.obey(desk.coordinator.close(desk.now))
    assert {desk.error(ticket) for ticket in waiting} == {GroupError.NOT_COORDINATOR}
    assert desk.answers[deleting].results == (("a", GroupError.NOT_COORDINATOR),)
    # Whatever comes later is not answered from an old view.
    assert desk.beat(follower, 1) is GroupError.NOT_COORDINATOR
    assert desk.error(desk.join()) is GroupError.NOT_COORDINATOR
    assert desk.error(desk.sync(leader, 1)) is GroupError.NOT_COORDINATOR
    assert desk.error(desk.commit({0: 1})) is GroupError.NOT_COORDINATOR
    assert desk.leave(leader).error is GroupError.NOT_COORDINATOR
    assert desk.answers[desk.delete("a")].results == (("a", GroupError.NOT_COORDINATOR),)
    assert desk.coordinator.describe(GROUP).error is GroupError.NOT_COORDINATOR
    desk.obey(desk.coordinator.on_fetch_offsets(desk.now, 100, say.FetchOffsetsRequest((say.OffsetsQuery("a"),))))
    assert desk.answers[100].groups[0].error is GroupError.NOT_COORDINATOR
    assert desk.coordinator.deadline() is None
    assert desk.coordinator.on_time(desk.now + 10**9) == []
    desk.store()
    assert desk.coordinator.on_store_failed(desk.now, 1) == []
    assert desk.coordinator.close(desk.now) == []


def test_a_sync_that_waits_is_told_too() -> None:
    desk = Desk()
    tickets = [desk.join(requires_member_id=False) for _ in range(2)]
    desk.run(DELAY_MS)
    syncing = desk.sync(desk.answers[tickets[1]].member, 1)
    desk.obey(desk.coordinator.close(desk.now))
    assert desk.error(syncing) is GroupError.NOT_COORDINATOR


def test_a_store_that_was_never_asked_for_is_the_drivers_fault() -> None:
    with pytest.raises(UsageError):
        GroupCoordinator().on_stored(0, 1)


# Snapshots.


def test_a_snapshot_takes_the_place_of_the_log() -> None:
    desk = Desk()
    leader, _ = desk.stable(None, "s")
    for offset in range(50):
        desk.commit({0: offset, 1: offset}, member=leader, generation=1)
    desk.commit({0: 1}, group="gone")
    desk.delete("gone")
    snapshot = desk.coordinator.snapshot_records()
    assert len(snapshot) == 3 < len(desk.log)
    before = desk.coordinator.describe(GROUP)
    desk.log = list(snapshot)
    desk.fail_over()
    assert desk.coordinator.describe(GROUP) == before
    assert desk.fetch(0, 1) == [49, 49]
    assert sorted(desk.coordinator.snapshot_records()) == sorted(snapshot)


def test_a_snapshot_has_what_is_on_its_way_to_the_log() -> None:
    desk = Desk()
    desk.commit({0: 1}, group="old")
    desk.holds = True
    desk.commit({0: 2})
    desk.delete("old")
    ticket = desk.join(requires_member_id=False, group="new")
    desk.run(DELAY_MS)
    snapshot = desk.coordinator.snapshot_records()
    desk.store()
    assert desk.answers[ticket].generation == 1
    desk.log += snapshot
    desk.fail_over()
    assert desk.fetch(0) == [2]
    assert [listing.group for listing in desk.coordinator.list_groups()] == ["new", GROUP]
    assert desk.state("new") == "PreparingRebalance"


# Cost.


def test_time_is_not_spent_on_groups_in_which_nothing_is_due() -> None:
    desk = Desk(groups_max=3_000)
    for number in range(2_000):
        desk.join(group=f"g{number}", requires_member_id=False, session_timeout_ms=1_000_000)
    desk.run(DELAY_MS)
    timers = desk.coordinator._timers
    popped = 0
    pop = timers.pop

    def counted(now: int) -> object:
        nonlocal popped
        popped += 1
        return pop(now)

    timers.pop = counted  # type: ignore[method-assign,assignment]
    desk.run(10_000)
    assert popped < 10
