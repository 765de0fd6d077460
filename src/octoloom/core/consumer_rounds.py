"""The rounds by which a group agrees on who consumes what.

A round: everybody joins, the leader is told all members and assigns, everybody asks for its assignment.

1. A generation is told to members only after it is stored. So its number is never used for a second one, whichever
   coordinator comes next, and an answer of an older generation is recognised for ever.
2. An assignment is told only after it is stored: all that was ever told in a generation comes from one assignment.
3. Who does not join within the rebalance timeout, or does not ask for its assignment within it, or is silent for its
   session timeout, is out. Somebody whose request is open is not silent. A static member that misses a join keeps its
   place until its session ends; one that takes its place back asks for its assignment like everybody.
4. A request is never forgotten: each way out of a round answers those who wait.
5. A round does not end while a record of the group is on its way to the log. So a log that is stuck holds one or two
   records of each group, however many come and go meanwhile.

A group that loses its coordinator between 1 and 2 is loaded as preparing, and its members join once more. After 2 it is
loaded as stable; who has asked for its assignment is not in the log, so nobody is sent away for not asking then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from octoloom.core.consumer_ledger import AboutGroup, Announcing, Assigning, Emptying, Ledger, TakingOver
from octoloom.core.consumer_membership import Group, GroupState, Member
from octoloom.core.consumer_messages import GroupError, JoinAnswer, SyncAnswer
from octoloom.core.consumer_records import group_key
from octoloom.core.consumer_settings import STORE_RETRY_MS, GroupSettings
from octoloom.core.consumer_timers import Timers

Timer = tuple[Literal["member", "rebalance", "sync", "retire"], str, str]
"""(what, which group, which member)"""


class Rounds:
    def __init__(self, settings: GroupSettings, timers: Timers[Timer], ledger: Ledger) -> None:
        self._settings = settings
        self._timers = timers
        self._ledger = ledger

    # Members come, show that they are there, and go.

    def hear(self, now: int, group: Group, member: Member) -> None:
        if not member.is_new:
            self._timers.set(("member", group.name, member.member_id), now + member.session_timeout_ms)

    def expect(self, now: int, group: Group, member: Member) -> None:
        """Under this id the member is new to the clock."""
        patience = self._settings.new_member_ms if member.is_new else member.session_timeout_ms
        self._timers.set(("member", group.name, member.member_id), now + patience)

    def wait_for_round(self, group: Group, member: Member, ticket: int) -> None:
        older = group.open_join(member, ticket)
        if older is not None:
            # The client asked again on another connection, so nobody reads this.
            self._ledger.answer(older, JoinAnswer(GroupError.REBALANCE_IN_PROGRESS, member.member_id))

    def admit(self, now: int, group: Group, member: Member, protocol_type: str, ticket: int) -> None:
        if not group.members:
            group.protocol_type = protocol_type
        group.add(member)
        self.expect(now, group, member)
        self.wait_for_round(group, member, ticket)
        if group.state is not GroupState.PREPARING:
            self.prepare(now, group)
        self.wait_for_more(now, group)
        self.try_complete(now, group)

    def wait_for_more(self, now: int, group: Group) -> None:
        """Somebody has come to the first round, and where one comes there may be others."""
        if group.state is GroupState.PREPARING and group.is_initial:
            group.not_before = min(now + self._settings.initial_delay_ms, group.rebalance_deadline)

    def drop(self, group: Group, member_id: str) -> None:
        """Takes a member out; `after_drops` has to follow."""
        self.dismiss(group, group.members[member_id], GroupError.UNKNOWN_MEMBER_ID)
        group.remove(member_id)
        self._timers.clear(("member", group.name, member_id))

    def dismiss(self, group: Group, member: Member, error: GroupError) -> None:
        """Ends what the member waits for."""
        ticket = group.close_join(member)
        if ticket is not None:
            self._ledger.answer(ticket, JoinAnswer(error))
        if member.sync_ticket is not None:
            self._ledger.answer(member.sync_ticket, SyncAnswer(error))
            member.sync_ticket = None

    def after_drops(self, now: int, group: Group) -> None:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING):
            self.prepare(now, group)
        else:
            self.try_complete(now, group)

    # The round.

    def prepare(self, now: int, group: Group, hold_ms: int = 0) -> None:
        """Begins a round, which does not end before `hold_ms` have passed."""
        if group.state is GroupState.COMPLETING:
            for member in group.members.values():
                self._answer_sync(now, group, member, GroupError.REBALANCE_IN_PROGRESS)
        group.is_initial = group.state is GroupState.EMPTY
        if group.is_initial:
            hold_ms = self._settings.initial_delay_ms
            self._timers.clear(("retire", group.name, ""))
        self._timers.clear(("sync", group.name, ""))
        group.unsynced.clear()
        group.state, group.announced, group.assigning = GroupState.PREPARING, False, False
        group.not_before = now + hold_ms
        group.rebalance_deadline = max(now + group.rebalance_timeout_ms, group.not_before)
        self._timers.set(("rebalance", group.name, ""), group.not_before if hold_ms else group.rebalance_deadline)
        self.try_complete(now, group)

    def try_complete(self, now: int, group: Group) -> None:
        if group.state is not GroupState.PREPARING or not group.everybody_joined:
            return
        if group.storing == 0 and (now >= group.not_before or not group.members):
            self._complete(now, group)

    def on_rebalance_due(self, now: int, group: Group) -> None:
        if group.state is not GroupState.PREPARING:
            return
        if now >= group.rebalance_deadline:
            if group.storing == 0:
                self._complete(now, group)
            return
        waits_for_more = now >= group.not_before
        due = group.rebalance_deadline if waits_for_more else group.not_before
        self._timers.set(("rebalance", group.name, ""), due)
        self.try_complete(now, group)

    def _complete(self, now: int, group: Group) -> None:
        late = [member for member in group.members.values() if member.join_ticket is None and member.instance is None]
        for member in late:
            self.drop(group, member.member_id)
        if group.members and not group.waiting:
            # Only static members are left and none has joined: wait until one does or their sessions end.
            group.rebalance_deadline = now + max(group.rebalance_timeout_ms, 1)
            self._timers.set(("rebalance", group.name, ""), group.rebalance_deadline)
            return
        self._timers.clear(("rebalance", group.name, ""))
        group.generation += 1
        if not group.members:
            self._become_empty(now, group)
            return
        if group.members[group.leader].join_ticket is None:
            group.leader = next(name for name, member in group.members.items() if member.join_ticket is not None)
        for member in group.members.values():
            member.assignment = b""
        group.protocol = group.choose_protocol()
        group.state, group.empty_since = GroupState.COMPLETING, 0
        self._store(group, False, Announcing(group, group.generation))

    def _become_empty(self, now: int, group: Group) -> None:
        group.state, group.protocol, group.empty_since = GroupState.EMPTY, "", now
        if group.record is not None:
            self._store(group, False, Emptying(group))
        patience = self._settings.empty_group_ms if group.offsets.is_empty else self._settings.offsets_retention_ms
        self._timers.set(("retire", group.name, ""), now + patience)

    def announce(self, now: int, wait: Announcing) -> None:
        group = wait.group
        if group.state is not GroupState.COMPLETING:
            return  # A new round has begun meanwhile, and those who joined are in it.
        assert group.generation == wait.generation, "rule 5: no other round has ended since"
        group.announced = True
        due = now + group.rebalance_timeout_ms
        for member in group.members.values():
            ticket = group.close_join(member)
            if ticket is not None:
                self._ledger.answer(ticket, self.current(group, member))
            if member.is_new or ticket is not None:
                member.is_new = False
                self.hear(now, group, member)
            group.unsynced[member.member_id] = due
        self._timers.set(("sync", group.name, ""), due)

    def current(self, group: Group, member: Member, leader: str = "", skips: bool = False) -> JoinAnswer:
        """What a member is told of the generation that it is in; `leader` is whom it is to take for the leader."""
        leader = leader or group.leader
        leads = leader == member.member_id
        return JoinAnswer(
            GroupError.NONE,
            member.member_id,
            group.generation,
            group.protocol_type,
            group.protocol,
            leader,
            skip_assignment=leads and skips,
            members=group.joined_members() if leads and (skips or group.state is GroupState.COMPLETING) else (),
        )

    # Assignments.

    def wait_for_assignment(self, now: int, group: Group, member: Member, ticket: int) -> None:
        self._answer_sync(now, group, member, GroupError.REBALANCE_IN_PROGRESS)
        member.sync_ticket = ticket
        self._has_synced(group, member)

    def take_assignments(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        """The leader has spoken. Those that it left out get nothing; nobody is told before it is stored."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        group.assigning = True
        self._store(group, True, Assigning(group, group.generation))

    def give_assignments(self, now: int, wait: Assigning) -> None:
        group = wait.group
        if group.state is not GroupState.COMPLETING:
            return
        assert group.generation == wait.generation, "rule 5: no other round has ended since"
        group.state, group.assigning = GroupState.STABLE, False
        for member in group.members.values():
            self._answer_sync(now, group, member, GroupError.NONE)

    def give_assignment(self, now: int, group: Group, member: Member, ticket: int) -> None:
        member.sync_ticket = ticket
        self._has_synced(group, member)
        self._answer_sync(now, group, member, GroupError.NONE)

    def _has_synced(self, group: Group, member: Member) -> None:
        group.unsynced.pop(member.member_id, None)
        if not group.unsynced:
            self._timers.clear(("sync", group.name, ""))

    def _answer_sync(self, now: int, group: Group, member: Member, error: GroupError) -> None:
        if member.sync_ticket is None:
            return
        told = (group.protocol_type, group.protocol, member.assignment) if error is GroupError.NONE else ()
        self._ledger.answer(member.sync_ticket, SyncAnswer(error, *told))
        member.sync_ticket = None
        self.hear(now, group, member)

    # A static member comes back under a new id.

    def keep_place(self, group: Group, member: Member, ticket: int, old_id: str, may_skip: bool) -> None:
        """The generation goes on with the new id in it.

        A leader of older versions is told its former id as the leader's: so it does not assign, which nobody would
        hear. Version 9 has a flag for this.
        """
        leader = group.leader if may_skip or group.leader != member.member_id else old_id
        self._store(group, True, TakingOver(group, member, ticket, leader, may_skip))

    def confirm_place(self, now: int, wait: TakingOver, error: GroupError) -> None:
        group, member = wait.group, wait.member
        if group.state is not GroupState.STABLE or member.join_ticket != wait.ticket:
            return  # A new round has begun, and the ticket is in it; or somebody else has the place by now.
        group.close_join(member)
        if error:
            self._ledger.answer(wait.ticket, JoinAnswer(error))
            return
        self._ledger.answer(wait.ticket, self.current(group, member, wait.leader, wait.may_skip))
        group.unsynced[member.member_id] = now + member.rebalance_timeout_ms
        if ("sync", group.name, "") not in self._timers:
            # Otherwise somebody came before it, and whoever is left is looked at again then.
            self._timers.set(("sync", group.name, ""), now + member.rebalance_timeout_ms)

    def resume(self, now: int, group: Group, assigned: bool) -> None:
        """Goes on with a group as its record shows it."""
        group.empty_since = min(group.empty_since, now)
        if not group.members:
            return
        for member in group.members.values():
            self.expect(now, group, member)
        group.state = GroupState.STABLE
        if not assigned:
            self.prepare(now, group)

    # Time, and a log that refuses.

    def on_member_due(self, now: int, group: Group, member_id: str) -> None:
        member = group.members.get(member_id)
        if member is None:
            group.pending.pop(member_id, None)
            self.try_complete(now, group)
        elif not member.is_new and (member.join_ticket is not None or member.sync_ticket is not None):
            self._timers.set(("member", group.name, member_id), now + max(member.session_timeout_ms, 1))
        else:
            self.drop(group, member_id)
            self.after_drops(now, group)

    def on_sync_due(self, now: int, group: Group) -> None:
        if group.state not in (GroupState.COMPLETING, GroupState.STABLE) or not group.unsynced:
            return
        late = [member_id for member_id, due in group.unsynced.items() if due <= now]
        for member_id in late:
            self.drop(group, member_id)
        if late:
            self.after_drops(now, group)
        else:
            self._timers.set(("sync", group.name, ""), min(group.unsynced.values()))

    def _store(self, group: Group, assigned: bool, wait: AboutGroup) -> None:
        group.storing += 1
        self._ledger.store([(group_key(group.name), group.make_record(assigned))], wait)

    def after_store(self, now: int, group: Group) -> None:
        """A record of the group is stored, or was refused: a round that waited for that may end."""
        group.storing -= 1
        self.on_rebalance_due(now, group)

    def on_refused(self, now: int, wait: Announcing | Assigning) -> None:
        """The log did not take the group's record: the round is held again a little later."""
        group = wait.group
        if group.state is GroupState.COMPLETING:
            self.prepare(now, group, STORE_RETRY_MS)
            group.make_record(assigned=False)
