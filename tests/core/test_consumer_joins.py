"""The door of a group: who is let in, as what, and who is not."""

from __future__ import annotations

from typing import Any

import pytest

from octoloom.core.consumer_messages import GroupError, JoinAnswer
from octoloom.core.errors import UsageError
from tests.core.consumer_desk import DELAY_MS, GROUP, SESSION_MS, Desk, subscription

BOTH = (("range", subscription("t")), ("roundrobin", subscription("t")))


# Newcomers.


def test_a_newcomer_is_given_an_id_and_asked_to_come_again() -> None:
    desk = Desk()
    first = desk.join(fresh_id="mine")
    assert desk.answers[first] == JoinAnswer(GroupError.MEMBER_ID_REQUIRED, "mine")
    assert desk.state() == "Empty"
    second = desk.join("mine")
    assert desk.waits(second)
    desk.run(DELAY_MS)
    answer = desk.answers[second]
    assert (answer.error, answer.member, answer.generation, answer.leader) == (GroupError.NONE, "mine", 1, "mine")
    assert (answer.protocol_type, answer.protocol, answer.skip_assignment) == ("consumer", "range", False)
    assert [(member.member, member.metadata) for member in answer.members] == [("mine", subscription("t"))]


def test_a_client_of_old_is_let_in_at_once() -> None:
    desk = Desk()
    ticket = desk.join(fresh_id="mine", requires_member_id=False)
    desk.run(DELAY_MS)
    assert desk.answers[ticket].member == "mine"


def test_a_static_newcomer_is_let_in_at_once() -> None:
    desk = Desk()
    ticket = desk.join(fresh_id="mine", instance="i")
    desk.run(DELAY_MS)
    assert (desk.answers[ticket].member, desk.answers[ticket].members[0].instance) == ("mine", "i")


def test_an_id_that_does_not_come_back_is_forgotten() -> None:
    desk = Desk()
    desk.join(fresh_id="mine")
    desk.run(SESSION_MS - 1)
    assert desk.coordinator.list_groups() != []
    desk.run(1)
    assert desk.error(desk.join("mine")) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.coordinator.list_groups() == []
    assert desk.coordinator.deadline() is None
    assert desk.log == []


def test_a_round_waits_for_an_id_that_was_given_out() -> None:
    desk = Desk()
    (old,) = desk.stable(None)
    desk.join(fresh_id="new")
    rejoined = desk.join(old)
    assert desk.waits(rejoined)
    joined = desk.join("new")
    assert desk.answers[rejoined].generation == desk.answers[joined].generation == 2


def test_the_driver_must_pass_a_fresh_id() -> None:
    desk = Desk()
    (member,) = desk.stable(None)
    desk.join(fresh_id="mine")
    for bad in ("mine", "", member):
        with pytest.raises(UsageError, match="is no fresh id"):
            desk.join(fresh_id=bad)


# Refusals. Each is told why, and changes nothing.


@pytest.mark.parametrize(
    ("request_fields", "error"),
    [
        ({"group": ""}, GroupError.INVALID_GROUP_ID),
        ({"group": "g" * 1_001}, GroupError.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, GroupError.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, GroupError.INVALID_SESSION_TIMEOUT),
        ({"rebalance_timeout_ms": -1}, GroupError.INVALID_REQUEST),
        ({"protocols": ()}, GroupError.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", b""), ("range", b""))}, GroupError.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": tuple((f"p{n}", b"") for n in range(65))}, GroupError.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, GroupError.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "x" * 250}, GroupError.INVALID_REQUEST),
        ({"instance": ""}, GroupError.INVALID_REQUEST),
        ({"instance": "x" * 250}, GroupError.INVALID_REQUEST),
        ({"protocols": (("range", bytes(256 * 1024)),)}, GroupError.INVALID_REQUEST),
        ({"member": "stranger"}, GroupError.UNKNOWN_MEMBER_ID),
        ({"member": "stranger", "instance": "i"}, GroupError.UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.parametrize("is_there", [False, True])
def test_a_bad_join_is_refused_and_changes_nothing(
    request_fields: dict[str, Any], error: GroupError, is_there: bool
) -> None:
    desk = Desk()
    if is_there:
        desk.stable(None)
    before = desk.coordinator.describe(GROUP), desk.coordinator.list_groups(), desk.coordinator.snapshot_records()
    assert desk.error(desk.join(**request_fields)) is error
    assert before == (
        desk.coordinator.describe(GROUP),
        desk.coordinator.list_groups(),
        desk.coordinator.snapshot_records(),
    )


@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_the_bounds_of_the_session_timeout_are_allowed(session_timeout_ms: int) -> None:
    assert Desk().stable(None, session_timeout_ms=session_timeout_ms) == ["m1"]


def test_a_member_needs_a_protocol_that_all_support() -> None:
    desk = Desk()
    (member,) = desk.stable(None, protocols=BOTH)
    assert desk.error(desk.join(protocols=(("sticky", b""),))) is GroupError.INCONSISTENT_GROUP_PROTOCOL
    assert desk.error(desk.join(protocol_type="connect")) is GroupError.INCONSISTENT_GROUP_PROTOCOL
    assert desk.state() == "Stable"
    # A member that is alone may change to whatever it wants.
    assert desk.error(desk.join(member, protocols=(("sticky", b""),))) is GroupError.NONE


def test_a_group_may_change_its_type_once_it_is_empty() -> None:
    desk = Desk()
    (member,) = desk.stable(None)
    desk.leave(member)
    ticket = desk.join(requires_member_id=False, protocol_type="connect", protocols=(("eager", b""),))
    desk.run(DELAY_MS)
    assert desk.answers[ticket].protocol_type == "connect"


def test_the_members_of_a_group_are_bounded() -> None:
    desk = Desk(members_max=2)
    members = desk.stable(None)
    desk.join(fresh_id="second")
    assert desk.error(desk.join()) is GroupError.GROUP_MAX_SIZE_REACHED
    assert desk.error(desk.join(instance="i")) is GroupError.GROUP_MAX_SIZE_REACHED
    assert desk.waits(desk.join("second"))
    assert desk.waits(desk.join(members[0])) is False
    assert len(desk.coordinator.describe(GROUP).members) == 2


def test_a_full_group_lets_its_own_static_member_back_in() -> None:
    desk = Desk(members_max=1)
    desk.stable("i")
    assert desk.error(desk.join(instance="i")) is GroupError.NONE


def test_the_bytes_of_a_group_are_bounded() -> None:
    desk = Desk(group_bytes_max=300)
    (member,) = desk.stable(None, protocols=(("range", bytes(150)),))
    assert desk.error(desk.join(protocols=(("range", bytes(150)),))) is GroupError.GROUP_MAX_SIZE_REACHED
    assert desk.error(desk.join(member, protocols=(("range", bytes(290)),))) is GroupError.NONE


def test_the_number_of_groups_is_bounded() -> None:
    desk = Desk(groups_max=2)
    desk.join(group="a")
    desk.join(group="b")
    assert desk.error(desk.join(group="c")) is GroupError.GROUP_MAX_SIZE_REACHED
    assert desk.error(desk.join(group="a")) is GroupError.MEMBER_ID_REQUIRED
    desk.run(SESSION_MS)
    assert desk.error(desk.join(group="c")) is GroupError.MEMBER_ID_REQUIRED


# Members that join again.


def test_a_follower_that_wants_the_same_is_told_the_same() -> None:
    desk = Desk()
    leader, follower = desk.stable(None, None)
    answer = desk.answers[desk.join(follower)]
    assert (answer.error, answer.generation, answer.leader, answer.members) == (GroupError.NONE, 1, leader, ())
    assert desk.state() == "Stable"


def test_a_follower_that_wants_something_else_begins_a_round() -> None:
    desk = Desk()
    _, follower = desk.stable(None, None)
    assert desk.waits(desk.join(follower, protocols=(("range", subscription("t", "u")),)))
    assert desk.state() == "PreparingRebalance"


def test_the_leader_begins_a_round_by_joining_again() -> None:
    desk = Desk()
    leader, _ = desk.stable(None, None)
    assert desk.waits(desk.join(leader))
    assert desk.state() == "PreparingRebalance"


def test_who_did_not_get_its_answer_is_told_again_before_the_assignment() -> None:
    desk = Desk()
    tickets = [desk.join(requires_member_id=False) for _ in range(2)]
    desk.run(DELAY_MS)
    leader, follower = (desk.answers[ticket] for ticket in tickets)
    assert desk.answers[desk.join(leader.member)] == leader
    assert desk.answers[desk.join(follower.member)] == follower
    assert desk.state() == "CompletingRebalance"
    assert desk.waits(desk.join(follower.member, protocols=(("range", subscription("u")),)))
    assert desk.state() == "PreparingRebalance"


def test_a_second_join_takes_the_place_of_the_first() -> None:
    desk = Desk()
    first = desk.join(fresh_id="mine", requires_member_id=False)
    second = desk.join("mine")
    assert desk.error(first) is GroupError.REBALANCE_IN_PROGRESS
    desk.run(DELAY_MS)
    assert desk.answers[second].generation == 1


# Static members.


def test_a_static_member_takes_its_place_back_and_nobody_notices() -> None:
    desk = Desk()
    leader, other = desk.stable("a", "b")
    answer = desk.answers[
        desk.join(instance="b", fresh_id="again", protocols=(("range", subscription("t", owned=b"1")),))
    ]
    assert (answer.error, answer.member, answer.generation, answer.leader) == (GroupError.NONE, "again", 1, leader)
    assert desk.state() == "Stable"
    assert desk.answers[desk.sync("again", 1, instance="b")].assignment == b"\1"
    assert desk.beat(leader, 1, instance="a") is GroupError.NONE
    assert desk.beat(other, 1, instance="b") is GroupError.FENCED_INSTANCE_ID
    assert desk.error(desk.join(other, instance="b")) is GroupError.FENCED_INSTANCE_ID
    assert desk.error(desk.sync(other, 1, instance="b")) is GroupError.FENCED_INSTANCE_ID
    assert desk.error(desk.commit({0: 1}, member=other, generation=1, instance="b")) is GroupError.FENCED_INSTANCE_ID


@pytest.mark.parametrize("may_skip", [False, True])
def test_a_static_leader_that_is_back_does_not_assign(may_skip: bool) -> None:
    desk = Desk()
    leader, _ = desk.stable("a", "b")
    answer = desk.answers[desk.join(instance="a", fresh_id="again", may_skip_assignment=may_skip)]
    assert answer.skip_assignment is may_skip
    assert answer.leader == ("again" if may_skip else leader)
    assert len(answer.members) == (2 if may_skip else 0)
    assert desk.answers[desk.sync("again", 1, instance="a")].assignment == b"\0"
    # It is the leader nevertheless: its next join begins a round.
    assert desk.waits(desk.join("again", instance="a"))


def test_a_static_member_that_subscribes_to_something_else_begins_a_round() -> None:
    desk = Desk()
    leader, _ = desk.stable("a", "b")
    ticket = desk.join(instance="b", protocols=(("range", subscription("u")),))
    assert desk.waits(ticket)
    assert desk.beat(leader, 1, instance="a") is GroupError.REBALANCE_IN_PROGRESS
    desk.join(leader, instance="a")
    assert desk.answers[ticket].generation == 2


def test_a_static_member_that_changes_the_protocol_begins_a_round() -> None:
    desk = Desk()
    desk.stable("a", protocols=BOTH)
    ticket = desk.join(instance="a", protocols=BOTH[1:])
    assert desk.answers[ticket].generation == 2
    assert desk.answers[ticket].protocol == "roundrobin"


def test_a_place_that_is_taken_during_a_round_fences_who_waits() -> None:
    desk = Desk()
    first = desk.join(instance="a", fresh_id="one")
    second = desk.join(instance="a", fresh_id="two")
    assert desk.error(first) is GroupError.FENCED_INSTANCE_ID
    desk.run(DELAY_MS)
    assert desk.answers[second].member == "two"
    waiting = desk.join(instance="b", fresh_id="three")
    third = desk.join(instance="a", fresh_id="four")
    assert desk.answers[third].generation == desk.answers[waiting].generation == 2


def test_a_place_that_is_taken_before_the_assignment_begins_a_new_round() -> None:
    desk = Desk()
    tickets = [desk.join(instance=instance) for instance in ("a", "b")]
    desk.run(DELAY_MS)
    leader, follower = (desk.answers[ticket].member for ticket in tickets)
    synced = desk.sync(follower, 1, instance="b")
    ticket = desk.join(instance="b", fresh_id="again")
    assert desk.error(synced) is GroupError.FENCED_INSTANCE_ID
    assert desk.waits(ticket)
    desk.join(leader, instance="a")
    assert desk.answers[ticket].generation == 2


def test_a_newcomers_place_that_is_taken_is_still_watched() -> None:
    desk = Desk(initial_delay_ms=400_000, new_member_ms=1_000)
    desk.join(instance="a")
    ticket = desk.join(instance="a", rebalance_timeout_ms=500_000)
    desk.run(1_000)
    assert desk.error(ticket) is GroupError.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_does_not_become_static() -> None:
    desk = Desk()
    desk.join(fresh_id="mine")
    assert desk.error(desk.join("mine", instance="i")) is GroupError.UNKNOWN_MEMBER_ID
