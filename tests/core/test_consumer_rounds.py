"""The rounds of a group: joining, assigning, who is given up and when, and a log that is slow or refuses."""

from __future__ import annotations

import pytest

from octoloom.core.consumer_groups import GroupCoordinator
from octoloom.core.consumer_messages import GroupError
from octoloom.core.consumer_settings import STORE_RETRY_MS
from tests.core.consumer_desk import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, Desk, subscription


def other(*topics: str) -> tuple[tuple[str, bytes], ...]:
    return (("range", subscription(*topics)),)


# A round.


def test_a_first_round_waits_for_others_but_not_for_ever() -> None:
    desk = Desk(initial_delay_ms=100)
    tickets = []
    for _ in range(3):
        tickets.append(desk.join(requires_member_id=False, rebalance_timeout_ms=250))
        desk.run(80)
    assert all(desk.waits(ticket) for ticket in tickets)
    tickets.append(desk.join(requires_member_id=False, rebalance_timeout_ms=250))
    desk.run(10)
    assert {desk.answers[ticket].generation for ticket in tickets} == {1}


def test_a_first_round_waits_a_little_for_an_id_that_was_given_out() -> None:
    desk = Desk()
    here = desk.join(requires_member_id=False)
    desk.run(DELAY_MS - 1)
    desk.join(fresh_id="slow")
    desk.run(DELAY_MS - 1)
    assert desk.waits(here)
    desk.run(1)
    assert desk.answers[here].generation == 1
    slow = desk.join("slow")
    desk.join(desk.answers[here].member)
    assert desk.answers[slow].generation == 2


def test_the_first_to_join_leads_and_is_told_of_all() -> None:
    desk = Desk()
    tickets = [desk.join(requires_member_id=False) for _ in range(3)]
    desk.run(DELAY_MS)
    answers = [desk.answers[ticket] for ticket in tickets]
    ids = [answer.member for answer in answers]
    assert [answer.leader for answer in answers] == [ids[0]] * 3
    assert [member.member for member in answers[0].members] == ids
    assert [answer.members for answer in answers[1:]] == [(), ()]


def test_everybody_gets_what_the_leader_assigned_and_nobody_before() -> None:
    desk = Desk()
    tickets = [desk.join(requires_member_id=False) for _ in range(3)]
    desk.run(DELAY_MS)
    leader, second, third = (desk.answers[ticket].member for ticket in tickets)
    early = desk.sync(second, 1)
    assert desk.waits(early)
    mine = desk.sync(leader, 1, {leader: b"a", second: b"b", "stranger": b"x"})
    assert desk.state() == "Stable"
    assert (desk.answers[early].assignment, desk.answers[mine].assignment) == (b"b", b"a")
    # Whom the leader forgot gets nothing, and a leader that speaks twice changes nothing.
    assert desk.answers[desk.sync(third, 1)].assignment == b""
    assert desk.answers[desk.sync(leader, 1, {leader: b"z"})].assignment == b"a"


def test_sync_is_for_members_of_this_generation() -> None:
    desk = Desk()
    leader, follower = desk.stable(None, None)
    assert desk.error(desk.sync("stranger", 1)) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.error(desk.sync(follower, 0)) is GroupError.ILLEGAL_GENERATION
    assert desk.error(desk.sync(follower, 1, protocol="sticky")) is GroupError.INCONSISTENT_GROUP_PROTOCOL
    assert desk.error(desk.sync(follower, 1, protocol_type="connect")) is GroupError.INCONSISTENT_GROUP_PROTOCOL
    assert desk.error(desk.sync(follower, 1, protocol_type="consumer", protocol="range")) is GroupError.NONE
    desk.join(leader)
    assert desk.error(desk.sync(follower, 1)) is GroupError.REBALANCE_IN_PROGRESS


def test_an_assignment_that_is_too_large_is_refused() -> None:
    desk = Desk(group_bytes_max=100)
    ticket = desk.join(requires_member_id=False)
    desk.run(DELAY_MS)
    member = desk.answers[ticket].member
    assert desk.error(desk.sync(member, 1, {member: bytes(101)})) is GroupError.INVALID_REQUEST
    assert desk.error(desk.sync(member, 1, {member: bytes(100)})) is GroupError.NONE


def test_a_second_sync_takes_the_place_of_the_first() -> None:
    desk = Desk()
    tickets = [desk.join(requires_member_id=False) for _ in range(2)]
    desk.run(DELAY_MS)
    leader, follower = (desk.answers[ticket].member for ticket in tickets)
    first, second = desk.sync(follower, 1), desk.sync(follower, 1)
    assert desk.error(first) is GroupError.REBALANCE_IN_PROGRESS
    desk.sync(leader, 1, {follower: b"b"})
    assert desk.answers[second].assignment == b"b"


def test_who_waits_for_an_assignment_is_told_when_a_new_round_begins() -> None:
    desk = Desk()
    tickets = [desk.join(requires_member_id=False) for _ in range(2)]
    desk.run(DELAY_MS)
    leader, follower = (desk.answers[ticket].member for ticket in tickets)
    synced = desk.sync(follower, 1)
    desk.join(requires_member_id=False)
    assert desk.error(synced) is GroupError.REBALANCE_IN_PROGRESS
    assert desk.beat(leader, 1) is GroupError.REBALANCE_IN_PROGRESS


# Who is given up.


def test_a_silent_member_is_given_up_and_the_others_go_on() -> None:
    desk = Desk()
    leader, silent = desk.stable(None, None)
    for _ in range(4):
        desk.run(SESSION_MS // 4)
        desk.beat(leader, 1)
    assert desk.beat(silent, 1) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.beat(leader, 1) is GroupError.REBALANCE_IN_PROGRESS
    assert desk.answers[desk.join(leader)].generation == 2


@pytest.mark.parametrize("show", ["beat", "commit", "sync", "join"])
def test_whatever_a_member_does_shows_that_it_is_there(show: str) -> None:
    desk = Desk()
    leader, member = desk.stable(None, None)
    for _ in range(5):
        desk.run(SESSION_MS - 1)
        desk.beat(leader, 1)
        if show == "beat":
            desk.beat(member, 1)
        elif show == "commit":
            desk.commit({0: 1}, member=member, generation=1)
        elif show == "sync":
            desk.sync(member, 1)
        else:
            desk.join(member)
    assert desk.beat(member, 1) is GroupError.NONE


def test_who_does_not_join_in_time_is_out() -> None:
    desk = Desk()
    leader, slow = desk.stable(None, None)
    ticket = desk.join(leader)
    for _ in range(REBALANCE_MS // 5_000):
        assert desk.waits(ticket)
        assert desk.beat(slow, 1) is GroupError.REBALANCE_IN_PROGRESS
        desk.run(5_000)
    assert desk.answers[ticket].generation == 2
    assert [member.member for member in desk.answers[ticket].members] == [leader]
    assert desk.beat(slow, 1) is GroupError.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_join_leads_no_more() -> None:
    desk = Desk()
    leader, follower = desk.stable(None, None)
    ticket = desk.join(follower, protocols=other("t", "u"))
    desk.run(SESSION_MS)
    assert desk.answers[ticket].leader == follower
    assert desk.beat(leader, 2) is GroupError.UNKNOWN_MEMBER_ID


def test_a_static_member_that_misses_a_join_keeps_its_place() -> None:
    desk = Desk()
    leader, absent = desk.stable("a", "b", session_timeout_ms=200_000)
    ticket = desk.join(leader, instance="a", session_timeout_ms=200_000)
    desk.run(REBALANCE_MS)
    answer = desk.answers[ticket]
    assert [member.instance for member in answer.members] == ["a", "b"]
    # Once it does not ask for its assignment either, it is out.
    desk.sync(leader, 2, {leader: b"1"}, instance="a")
    assert desk.state() == "Stable"
    desk.run(REBALANCE_MS)
    assert desk.state() == "PreparingRebalance"
    assert desk.beat(absent, 2, instance="b") is GroupError.UNKNOWN_MEMBER_ID


def test_an_absent_static_leader_is_replaced() -> None:
    desk = Desk()
    _, follower = desk.stable("a", "b", session_timeout_ms=200_000)
    ticket = desk.join(follower, instance="b", protocols=other("t", "u"))
    desk.run(REBALANCE_MS)
    assert desk.answers[ticket].leader == follower
    assert len(desk.answers[ticket].members) == 2


def test_a_round_that_nobody_joins_waits_for_static_members() -> None:
    desk = Desk()
    first, second, dynamic = desk.stable("a", "b", None, session_timeout_ms=200_000)
    desk.leave(dynamic)
    desk.run(REBALANCE_MS + 1)
    assert desk.state() == "PreparingRebalance"
    ticket = desk.join(first, instance="a")
    desk.join(second, instance="b")
    assert desk.answers[ticket].generation == 2


def test_a_round_that_nobody_ever_joins_ends_with_the_sessions() -> None:
    desk = Desk()
    _, dynamic = desk.stable("a", None, session_timeout_ms=200_000)
    desk.leave(dynamic)
    desk.run(200_000)
    assert desk.state() == "Empty"


@pytest.mark.parametrize("is_leader", [False, True])
def test_who_does_not_ask_for_its_assignment_is_out(is_leader: bool) -> None:
    desk = Desk()
    tickets = [desk.join(requires_member_id=False) for _ in range(2)]
    desk.run(DELAY_MS)
    leader, follower = (desk.answers[ticket].member for ticket in tickets)
    here, absent = (follower, leader) if is_leader else (leader, follower)
    ticket = desk.sync(here, 1, {here: b"1"})
    for _ in range(REBALANCE_MS // 5_000):
        assert desk.beat(absent, 1) is GroupError.NONE
        desk.beat(here, 1)
        desk.run(5_000)
    assert desk.beat(absent, 1) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.state() == "PreparingRebalance"
    assert desk.error(ticket) is (GroupError.REBALANCE_IN_PROGRESS if is_leader else GroupError.NONE)


def beat_for(desk: Desk, ms: int, *members: tuple[str, str]) -> None:
    """Time passes, and each of these (id, instance) sends heartbeats."""
    for _ in range(ms // 5_000):
        desk.run(5_000)
        for member, instance in members:
            desk.beat(member, 1, instance=instance)


def test_who_takes_its_place_back_has_to_ask_for_its_assignment_too() -> None:
    desk = Desk()
    leader, _ = desk.stable("a", "b")
    assert desk.answers[desk.join(instance="b", fresh_id="hangs")].generation == 1
    beat_for(desk, REBALANCE_MS - 5_000, (leader, "a"), ("hangs", "b"))
    assert desk.beat("hangs", 1, instance="b") is GroupError.NONE
    beat_for(desk, 5_000, (leader, "a"), ("hangs", "b"))
    assert desk.beat("hangs", 1, instance="b") is GroupError.UNKNOWN_MEMBER_ID
    assert desk.state() == "PreparingRebalance"


def test_each_who_takes_its_place_back_has_its_own_time() -> None:
    desk = Desk()
    leader, _, third = desk.stable("a", "b", "c")
    desk.join(instance="b", fresh_id="first")
    beat_for(desk, REBALANCE_MS - 5_000, (leader, "a"), ("first", "b"), (third, "c"))
    desk.join(instance="c", fresh_id="second")
    desk.sync("first", 1, instance="b")
    everybody = (leader, "a"), ("first", "b"), ("second", "c")
    beat_for(desk, REBALANCE_MS - 5_000, *everybody)
    assert desk.state() == "Stable"
    beat_for(desk, 5_000, *everybody)
    assert desk.state() == "PreparingRebalance"
    assert desk.beat("second", 1, instance="c") is GroupError.UNKNOWN_MEMBER_ID
    assert desk.beat("first", 1, instance="b") is GroupError.REBALANCE_IN_PROGRESS


def test_who_waits_for_an_answer_is_not_silent() -> None:
    desk = Desk()
    leader, busy = desk.stable(None, None)
    ticket = desk.join(leader)
    for _ in range(5):
        desk.run(SESSION_MS - 1)
        desk.beat(busy, 1)
    assert desk.waits(ticket)
    desk.join(busy)
    assert desk.answers[ticket].generation == 2
    synced = desk.sync(busy, 2)
    for _ in range(5):
        desk.run(SESSION_MS - 1)
        desk.beat(leader, 2)
    desk.sync(leader, 2, {busy: b"1"})
    assert desk.answers[synced].assignment == b"1"


def test_the_join_of_a_newcomer_does_not_stay_open_for_ever() -> None:
    desk = Desk(new_member_ms=20_000)
    (member,) = desk.stable(None)
    ticket = desk.join(requires_member_id=False)
    for _ in range(5):
        assert desk.waits(ticket)
        desk.run(4_000)
        desk.beat(member, 1)
    assert desk.error(ticket) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.answers[ticket].member == ""


def test_a_newcomer_cannot_shorten_its_time_by_guessing() -> None:
    desk = Desk()
    desk.join(fresh_id="mine")
    ticket = desk.join("mine", rebalance_timeout_ms=0)
    assert desk.beat("mine", 0) is GroupError.REBALANCE_IN_PROGRESS
    desk.run(DELAY_MS)
    assert desk.answers[ticket].generation == 1


def test_a_member_that_waits_for_nobody_is_not_waited_for() -> None:
    desk = Desk()
    ticket = desk.join(requires_member_id=False, rebalance_timeout_ms=0)
    desk.run(DELAY_MS)
    assert desk.answers[ticket].generation == 1
    assert desk.state() == "Empty"


# A log that is slow, or refuses.


def test_a_generation_is_told_only_when_it_is_stored() -> None:
    desk = Desk()
    desk.holds = True
    ticket = desk.join(fresh_id="mine", requires_member_id=False)
    desk.run(DELAY_MS)
    assert desk.state() == "CompletingRebalance"
    assert desk.waits(ticket)
    for generation in (0, 1):
        assert desk.beat("mine", generation) is GroupError.REBALANCE_IN_PROGRESS
        assert desk.error(desk.sync("mine", generation)) is GroupError.REBALANCE_IN_PROGRESS
    again = desk.join("mine")
    assert desk.error(ticket) is GroupError.REBALANCE_IN_PROGRESS
    desk.store()
    assert desk.answers[again].generation == 1


def test_a_generation_that_nobody_was_told_is_passed_over() -> None:
    desk = Desk()
    desk.holds = True
    first = desk.join(requires_member_id=False)
    desk.run(DELAY_MS)
    second = desk.join(requires_member_id=False)
    desk.store()
    desk.store()
    assert desk.answers[first].generation == desk.answers[second].generation == 2
    assert len(desk.answers[first].members) == 2


def test_an_assignment_is_told_only_when_it_is_stored() -> None:
    desk = Desk()
    ticket = desk.join(requires_member_id=False)
    desk.run(DELAY_MS)
    member = desk.answers[ticket].member
    desk.holds = True
    synced = desk.sync(member, 1, {member: b"1"})
    again = desk.sync(member, 1, {member: b"2"})
    assert desk.error(synced) is GroupError.REBALANCE_IN_PROGRESS
    assert desk.waits(again)
    assert desk.state() == "CompletingRebalance"
    assert len(desk.held) == 1
    desk.store()
    assert desk.answers[again].assignment == b"1"
    assert desk.state() == "Stable"


def test_an_assignment_that_comes_too_late_is_not_told() -> None:
    desk = Desk()
    ticket = desk.join(requires_member_id=False)
    desk.run(DELAY_MS)
    member = desk.answers[ticket].member
    desk.holds = True
    synced = desk.sync(member, 1, {member: b"1"})
    desk.join(requires_member_id=False)
    assert desk.error(synced) is GroupError.REBALANCE_IN_PROGRESS
    desk.store()
    assert desk.state() == "PreparingRebalance"
    assert desk.coordinator.describe(GROUP).members[0].assignment == b""


def test_a_log_that_is_stuck_holds_one_record_of_a_group() -> None:
    desk = Desk()
    desk.holds = True
    tickets = [desk.join(requires_member_id=False)]
    desk.run(DELAY_MS)
    tickets += [desk.join(requires_member_id=False) for _ in range(20)]
    desk.leave(*[f"m{number}" for number in range(2, 8)])
    desk.run(REBALANCE_MS + 1)
    assert len(desk.held) == 1
    desk.store()
    assert len(desk.held) == 1
    desk.store()
    remaining = [tickets[0], *tickets[7:]]
    assert {desk.answers[ticket].generation for ticket in remaining} == {2}
    assert len(desk.answers[tickets[0]].members) == len(remaining)


def test_a_group_that_empties_while_the_log_is_stuck_is_empty_afterwards() -> None:
    desk = Desk()
    desk.holds = True
    desk.join(requires_member_id=False, fresh_id="mine")
    desk.run(DELAY_MS)
    desk.leave("mine")
    assert desk.state() == "PreparingRebalance"
    desk.store()
    assert desk.state() == "Empty"
    desk.store()
    desk.fail_over()
    assert desk.state() == "Empty"


def test_a_refused_generation_is_tried_again() -> None:
    desk = Desk()
    desk.holds = True
    ticket = desk.join(requires_member_id=False)
    desk.run(DELAY_MS)
    desk.refuse()
    assert desk.waits(ticket)
    assert desk.state() == "PreparingRebalance"
    desk.run(STORE_RETRY_MS)
    desk.store()
    assert desk.answers[ticket].generation == 2


def test_a_refused_assignment_begins_a_new_round() -> None:
    desk = Desk()
    ticket = desk.join(requires_member_id=False)
    desk.run(DELAY_MS)
    member = desk.answers[ticket].member
    desk.holds = True
    synced = desk.sync(member, 1, {member: b"1"})
    desk.refuse()
    assert desk.error(synced) is GroupError.REBALANCE_IN_PROGRESS
    twin = GroupCoordinator.load(desk.now, desk.coordinator.snapshot_records(), desk.settings)
    assert twin.describe(GROUP).state == "PreparingRebalance"
    ticket = desk.join(member)
    desk.run(STORE_RETRY_MS)
    desk.store()
    assert desk.answers[ticket].generation == 2


def test_a_static_member_is_told_its_place_only_when_it_is_stored() -> None:
    desk = Desk()
    desk.stable("a")
    desk.holds = True
    first = desk.join(instance="a", fresh_id="again")
    assert desk.waits(first)
    desk.refuse()
    assert desk.error(first) is GroupError.COORDINATOR_NOT_AVAILABLE
    second = desk.join(instance="a", fresh_id="once more")
    third = desk.join(instance="a", fresh_id="and again")
    assert desk.error(second) is GroupError.FENCED_INSTANCE_ID
    # A second claim while the first is on its way begins a round.
    assert len(desk.held) == 1
    desk.store()
    assert desk.waits(third)
    desk.store()
    assert (desk.answers[third].member, desk.answers[third].generation) == ("and again", 2)


def test_a_static_member_whose_place_was_refused_is_still_watched() -> None:
    desk = Desk()
    desk.stable("a")
    desk.holds = True
    ticket = desk.join(instance="a")
    desk.run(3 * SESSION_MS)
    assert desk.waits(ticket)
    desk.refuse()
    desk.run(SESSION_MS)
    assert desk.state() == "Empty"


def test_a_static_member_whose_place_is_not_stored_yet_is_in_the_next_round() -> None:
    desk = Desk()
    leader, _ = desk.stable("a", "b")
    desk.holds = True
    back = desk.join(instance="b", fresh_id="again")
    ticket = desk.join(leader, instance="a")
    desk.store()
    desk.store()
    assert desk.answers[back].generation == desk.answers[ticket].generation == 2
    assert desk.answers[back].member == "again"
