"""Bugs to plant in the coordinator of consumer groups, one at a time: each replaces one method by a wrong one.

They are what a coordinator gets wrong that answers a little too early, forgets a little at a failover, or trusts
whoever asks.
"""

from __future__ import annotations

from typing import Any

from octoloom.core.consumer_commits import Commits
from octoloom.core.consumer_groups import GroupCoordinator
from octoloom.core.consumer_joins import Joins
from octoloom.core.consumer_ledger import Announcing, Assigning, Committing, Forgetting, Ledger, Wait
from octoloom.core.consumer_membership import Group, GroupState
from octoloom.core.consumer_messages import GroupError
from octoloom.core.consumer_records import compacted
from octoloom.core.consumer_rounds import Rounds
from octoloom.core.group_offsets import GroupOffsets
from tests.simulation.planting import Plants, planting, together

GROUP_PLANTS: Plants = {}
plant = planting(GROUP_PLANTS)


# Too early.


@plant(Rounds, "_complete")
def generation_told_before_it_is_stored(right: Any, self: Rounds, now: int, group: Group) -> None:
    """As in Kafka: the next coordinator gives the same number to another generation."""
    right(self, now, group)
    if group.state is GroupState.COMPLETING:
        self.announce(now, Announcing(group, group.generation))


@plant(GroupCoordinator, "on_sync")
def assignment_told_before_it_is_stored(right: Any, self: GroupCoordinator, now: int, *rest: Any) -> Any:
    """The next coordinator does not know it, and lets the members agree on another."""
    effects = right(self, now, *rest)
    for _, wait in self._ledger.waits.values():
        if isinstance(wait, Assigning):
            self._rounds.give_assignments(now, wait)
    return effects + self._ledger.take()


@plant(Ledger, "store")
def commit_answered_before_it_is_stored(right: Any, self: Ledger, records: Any, wait: Wait) -> None:
    right(self, records, wait)
    if isinstance(wait, Committing):
        self.waits[next(reversed(self.waits))] = (records, Forgetting(wait.group, []))
        wait.group.offsets.end(wait.offsets)
        wait.group.offsets.stored.update(wait.offsets)
        self.answer(wait.ticket, wait.answer)


# Of another generation.


@plant(Group, "generation_refusal")
def old_generations_are_heard(right: Any, self: Group, generation: int) -> GroupError:
    """Whoever is in the group may speak, whichever generation it thinks it is in."""
    return GroupError.NONE


@plant(Rounds, "give_assignments")
def assignment_of_an_abandoned_round(right: Any, self: Rounds, now: int, wait: Assigning) -> None:
    """An assignment counts although somebody has come or gone since."""
    if wait.group.state is GroupState.PREPARING:
        wait.group.state = GroupState.COMPLETING
    right(self, now, wait)


@plant(Commits, "refusal")
def strangers_commit(right: Any, self: Commits, group: Group, request: Any) -> GroupError:
    """Somebody without a generation may commit, members or not."""
    return GroupError.NONE if request.generation < 0 else right(self, group, request)


@plant(Group, "refusal")
def fenced_instance_goes_on(right: Any, self: Group, member_id: str, instance: str | None) -> GroupError:
    """A member whose place was taken is let through under its old id."""
    if instance in self.instances and member_id not in self.members:
        self.members[member_id] = self.members[self.instances[instance]]
    return right(self, member_id, None)  # type: ignore[no-any-return]


@plant(Joins, "_take_over")
def place_taken_in_the_middle_of_a_round(right: Any, self: Joins, now: int, group: Group, *rest: Any) -> None:
    """Between join and assignment a static member takes its place, and the leader assigns to its old id."""
    state = group.state
    if state is GroupState.COMPLETING and group.announced:
        group.state = GroupState.STABLE
    right(self, now, group, *rest)
    if group.state is GroupState.STABLE:
        group.state = state


# At a failover.


@plant(Rounds, "resume")
def unassigned_group_loaded_as_stable(right: Any, self: Rounds, now: int, group: Group, assigned: bool) -> None:
    """A coordinator that died between join and assignment leaves a stable group behind in which nobody has anything."""
    right(self, now, group, True)


@plant(Rounds, "expect")
def sessions_do_not_begin_anew(right: Any, self: Rounds, now: int, group: Group, member: Any) -> None:
    """Who died together with the coordinator stays a member for ever."""
    if member.is_new:
        right(self, now, group, member)


@plant(GroupCoordinator, "snapshot_records")
def snapshot_without_what_is_on_its_way(right: Any, self: GroupCoordinator) -> Any:
    """What was appended and is not committed yet is overwritten by what was there before it."""
    waits, self._ledger.waits = self._ledger.waits, {}
    try:
        return right(self)
    finally:
        self._ledger.waits = waits


@plant(GroupCoordinator, "snapshot_records")
def snapshot_without_members(right: Any, self: GroupCoordinator) -> Any:
    """Only offsets are written anew."""
    return [(key, value) for key, value in compacted(right(self)) if b"group" not in key[:8]]


# Forgotten.


@plant(GroupOffsets, "expired")
def expiry_swallows_a_commit(right: Any, self: GroupOffsets, *rest: Any) -> Any:
    """An old offset expires while a new one for the same partition is on its way to the log."""
    pending, self.pending = self.pending, type(self.pending)()
    try:
        return right(self, *rest)
    finally:
        self.pending = pending


@plant(Commits, "delete")
def deleted_group_takes_commits(right: Any, self: Commits, wait: Any) -> None:
    """Until the deletion is stored the group goes on, and then goes with what was committed to it meanwhile."""
    right(self, wait)
    for group in wait.groups:
        group.state = GroupState.EMPTY


@plant(Rounds, "on_rebalance_due")
def round_waits_for_ever(right: Any, self: Rounds, now: int, group: Group) -> None:
    """Somebody who does not join again holds everybody up."""
    if group.everybody_joined:
        right(self, now, group)


@plant(GroupCoordinator, "on_heartbeat")
def stuck_members_stay(right: Any, self: GroupCoordinator, now: int, ticket: int, request: Any) -> Any:
    """Somebody who sends heartbeats and nothing else is taken along from round to round."""
    group = self._groups.get(request.group)
    if group is not None and request.member in group.members:
        self._rounds.hear(now, group, group.members[request.member])
    return right(self, now, ticket, request)


@plant(Rounds, "drop")
def nobody_who_is_heard_is_dropped(right: Any, self: Rounds, group: Group, member_id: str) -> None:
    if ("member", group.name, member_id) not in self._timers:
        right(self, group, member_id)


together(GROUP_PLANTS, stuck_members_stay, nobody_who_is_heard_is_dropped)


@plant(Rounds, "on_sync_due")
def stuck_leader_stays(right: Any, self: Rounds, now: int, group: Group) -> None:
    """Everybody has joined, and the leader never assigns: the others wait for ever."""


@plant(Rounds, "confirm_place")
def who_is_back_need_not_ask(right: Any, self: Rounds, now: int, wait: Any, error: GroupError) -> None:
    """As in Kafka: a static member takes its place back and hangs, and what is assigned to it is read by nobody."""
    right(self, now, wait, error)
    wait.group.unsynced.pop(wait.member.member_id, None)


@plant(Rounds, "dismiss")
def removed_member_is_not_answered(right: Any, self: Rounds, group: Group, member: Any, error: GroupError) -> None:
    """Somebody whose place is taken waits for an answer that never comes."""
    group.close_join(member)
    member.sync_ticket = None


@plant(Group, "joined_members")
def leader_is_not_told_of_absent_members(right: Any, self: Group) -> Any:
    """Whoever does not wait at the moment is in the generation, but the leader does not know."""
    return tuple(
        joined
        for joined in right(self)
        if joined.member == self.leader or self.members[joined.member].join_ticket is not None
    )


@plant(Rounds, "on_refused")
def refused_record_is_forgotten(right: Any, self: Rounds, now: int, wait: Any) -> None:
    """The log did not take a generation, and nobody tries again."""
