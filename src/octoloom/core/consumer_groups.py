"""The coordinator of consumer groups: all groups that belong to one partition of the internal topic.

Clients come with Kafka's classic group requests; which partitions a member gets is decided by a member, the leader.
The coordinator keeps who is in, gives generations their numbers, and keeps the committed offsets.

1. What is answered is durable: the answer to a commit, a generation, an assignment leaves after its record is stored.
   `consumer_rounds` says what follows from that.
2. A coordinator made by `load` from the log goes on where the last one stopped: with the same members, which need not
   notice, and whose sessions begin anew.
3. Only the members of the current generation commit; a group without members takes commits from anybody who does not
   claim to be one.
4. A refused request changes nothing.
5. A heartbeat costs O(1), a join O(its protocols), the end of a round O(members). Nothing scans all groups.

What the driver owes:

- `now` in ms, never going back, and comparable to that of earlier coordinators, since offsets live for days: take the
  wall clock once and add what a monotonic clock says. Feed what has arrived before you tell the time, or members are
  given up whose heartbeats wait in a socket.
- A coordinator only on the leader of the partition, loaded from all of its log. When leadership ends, `close` it.
- Effects in order. A `Store` is appended at once; `on_stored(number)` is called when it is committed, and stands for
  all numbers up to this one. `on_store_failed` says that the log refused it: it is not there and never will be. A
  driver that cannot know closes the coordinator and loads another.
- To bound the log: append all of `snapshot_records`, after all stores so far and before any later one. Once that is
  committed, the log below may go.
- Topics that do not exist, and who may do what, are looked after before a request gets here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from octoloom.core import consumer_messages as say
from octoloom.core.consumer_commits import Commits
from octoloom.core.consumer_joins import Joins
from octoloom.core.consumer_ledger import Committing, Deleting, Ledger
from octoloom.core.consumer_membership import Group, GroupState
from octoloom.core.consumer_messages import Effect, GroupError
from octoloom.core.consumer_records import Contents, Record, compacted, encode, group_key, offset_key
from octoloom.core.consumer_rounds import Rounds, Timer
from octoloom.core.consumer_settings import GROUP_ID_MAX, GroupSettings
from octoloom.core.consumer_settling import Settling
from octoloom.core.consumer_timers import Timers


class GroupCoordinator:
    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings()
        self._groups: dict[str, Group] = {}
        self._timers: Timers[Timer] = Timers()
        self._ledger = Ledger()
        self._rounds = Rounds(self.settings, self._timers, self._ledger)
        self._joins = Joins(self.settings, self._timers, self._ledger, self._rounds)
        self._commits = Commits(self.settings, self._timers, self._ledger)
        self._settling = Settling(self._groups, self._timers, self._rounds, self._commits)
        self._closed = False

    # Membership.

    def on_join(self, now: int, ticket: int, request: say.JoinRequest) -> list[Effect]:
        group = self._groups.get(request.group) or Group(request.group)
        refusal = self._refusal(request.group) or self._joins.refusal(group, request)
        is_one_more = request.group not in self._groups
        if not refusal and is_one_more and len(self._groups) >= self.settings.groups_max:
            refusal = GroupError.GROUP_MAX_SIZE_REACHED
        if refusal:
            self._ledger.answer(ticket, say.JoinAnswer(refusal, request.member))
        else:
            self._groups[group.name] = group
            self._joins.join(now, group, ticket, request)
        return self._ledger.take()

    def on_sync(self, now: int, ticket: int, request: say.SyncRequest) -> list[Effect]:
        group, refusal = self._find(request)
        if group is None:
            self._ledger.answer(ticket, say.SyncAnswer(refusal))
            return self._ledger.take()
        member = group.members[request.member]
        error = self._sync_refusal(group, request)
        if error:
            self._ledger.answer(ticket, say.SyncAnswer(error))
        elif group.state is GroupState.STABLE:
            self._rounds.give_assignment(now, group, member, ticket)
        else:
            self._rounds.wait_for_assignment(now, group, member, ticket)
            if group.leader == member.member_id and not group.assigning:
                self._rounds.take_assignments(group, dict(request.assignments))
        return self._ledger.take()

    def _sync_refusal(self, group: Group, request: say.SyncRequest) -> GroupError:
        if request.protocol_type not in (None, group.protocol_type) or request.protocol not in (None, group.protocol):
            return GroupError.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING:
            return GroupError.REBALANCE_IN_PROGRESS
        if sum(len(assignment) for _, assignment in request.assignments) > self.settings.group_bytes_max:
            return GroupError.INVALID_REQUEST
        return GroupError.NONE

    def on_heartbeat(self, now: int, ticket: int, request: say.HeartbeatRequest) -> list[Effect]:
        group, error = self._find(request)
        if group is not None:
            self._rounds.hear(now, group, group.members[request.member])
            # Between join and assignment a heartbeat is fine: the member knows of the round.
            error = GroupError.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else GroupError.NONE
        self._ledger.answer(ticket, say.HeartbeatAnswer(error))
        return self._ledger.take()

    def on_leave(self, now: int, ticket: int, request: say.LeaveRequest) -> list[Effect]:
        group = self._groups.get(request.group)
        refusal = self._refusal(request.group)
        if group is not None and group.state is GroupState.DEAD:
            refusal = refusal or GroupError.COORDINATOR_NOT_AVAILABLE
        if refusal:
            self._ledger.answer(ticket, say.LeaveAnswer(refusal))
            return self._ledger.take()
        group = group or Group(request.group)
        count = len(group.members)
        results = tuple((leaving, self._leave(group, leaving)) for leaving in request.members)
        if len(group.members) < count:
            self._rounds.after_drops(now, group)
        else:
            self._rounds.try_complete(now, group)
        self._settling.forget_unused(group)
        self._ledger.answer(ticket, say.LeaveAnswer(GroupError.NONE, results))
        return self._ledger.take()

    def _leave(self, group: Group, leaving: say.LeavingMember) -> GroupError:
        member = leaving.member
        if member in group.pending:
            del group.pending[member]
            self._timers.clear(("member", group.name, member))
            return GroupError.NONE
        if not member and leaving.instance is not None:
            member = group.instances.get(leaving.instance, "")
        refusal = group.refusal(member, leaving.instance)
        if refusal is GroupError.NONE:
            self._rounds.drop(group, member)
        return refusal

    def _find(self, request: say.SyncRequest | say.HeartbeatRequest) -> tuple[Group | None, GroupError]:
        """The group, if the request comes from a member of its current generation."""
        group = self._groups.get(request.group)
        error = self._refusal(request.group)
        if not error and group is None:
            error = GroupError.UNKNOWN_MEMBER_ID
        if not error and group is not None:
            error = group.refusal(request.member, request.instance) or group.generation_refusal(request.generation)
        return (None, error) if error else (group, error)

    def _refusal(self, group: str) -> GroupError:
        if self._closed:
            return GroupError.NOT_COORDINATOR
        return GroupError.NONE if 0 < len(group) <= GROUP_ID_MAX else GroupError.INVALID_GROUP_ID

    # Offsets.

    def on_commit(self, now: int, ticket: int, request: say.CommitRequest) -> list[Effect]:
        group = self._groups.get(request.group)
        is_new = group is None
        group = group or Group(request.group)
        refusal = self._refusal(request.group) or self._commits.refusal(group, request)
        if is_new and not refusal and len(self._groups) >= self.settings.groups_max:
            refusal = GroupError.POLICY_VIOLATION
        if refusal:
            results = tuple((offset.topic, offset.partition, refusal) for offset in request.offsets)
            self._ledger.answer(ticket, say.CommitAnswer(results))
            return self._ledger.take()
        member = group.members.get(request.member)
        if member is not None:
            self._rounds.hear(now, group, member)
        self._groups[group.name] = group
        self._commits.commit(now, group, ticket, request)
        self._settling.forget_unused(group)
        return self._ledger.take()

    def on_fetch_offsets(self, now: int, ticket: int, request: say.FetchOffsetsRequest) -> list[Effect]:
        self._ledger.answer(ticket, say.FetchOffsetsAnswer(tuple(self._fetch(query) for query in request.groups)))
        return self._ledger.take()

    def _fetch(self, query: say.OffsetsQuery) -> say.FetchedGroup:
        refusal = self._refusal(query.group)
        if refusal:
            return say.FetchedGroup(query.group, refusal)
        group = self._groups.get(query.group) or Group(query.group)
        return say.FetchedGroup(query.group, GroupError.NONE, group.offsets.fetch(query.partitions))

    def on_topic_deleted(self, now: int, topic: str) -> list[Effect]:
        """The offsets in a topic go with it. This one input looks at all groups."""
        for group in self._groups.values():
            self._commits.forget(group, group.offsets.of_topic(topic))
        return self._ledger.take()

    # Administration.

    def on_delete(self, now: int, ticket: int, request: say.DeleteRequest) -> list[Effect]:
        names = dict.fromkeys(request.groups)
        refusal = self._commits.delete_refusal
        results = tuple((name, self._refusal(name) or refusal(self._groups.get(name))) for name in names)
        groups = [self._groups[name] for name, error in results if not error]
        self._commits.delete(Deleting(groups, ticket, say.DeleteAnswer(results)))
        return self._ledger.take()

    def describe(self, name: str) -> say.GroupDescription:
        group, refusal = self._groups.get(name), self._refusal(name)
        if refusal:
            return say.GroupDescription(name, refusal, "")
        if group is None or group.state is GroupState.DEAD:
            return say.GroupDescription(name, GroupError.GROUP_ID_NOT_FOUND, GroupState.DEAD.value)
        return group.describe()

    def list_groups(self, states: Collection[str] = ()) -> list[say.GroupListing]:
        """All groups, or those in one of these states."""
        wanted = [state.lower() for state in states]
        return [
            say.GroupListing(group.name, group.protocol_type, group.state.value)
            for group in self._groups.values()
            if group.state is not GroupState.DEAD and (not wanted or group.state.value.lower() in wanted)
        ]

    # Time.

    def deadline(self) -> int | None:
        """When `on_time` wants to be called next."""
        return None if self._closed else self._timers.deadline()

    def on_time(self, now: int) -> list[Effect]:
        while (timer := self._timers.pop(now)) is not None:
            what, name, member = timer
            group = self._groups.get(name)
            if group is None:
                continue
            if what == "member":
                self._rounds.on_member_due(now, group, member)
            elif what == "rebalance":
                self._rounds.on_rebalance_due(now, group)
            elif what == "sync":
                self._rounds.on_sync_due(now, group)
            else:
                self._commits.on_retire_due(now, group)
            self._settling.forget_unused(group)
        return self._ledger.take()

    # The log.

    def on_stored(self, now: int, number: int) -> list[Effect]:
        """Everything up to this store is committed."""
        if not self._closed:
            for wait in self._ledger.settle(number):
                self._settling.on_stored(now, wait)
        return self._ledger.take()

    def on_store_failed(self, now: int, number: int) -> list[Effect]:
        """The log refused this store: nothing of it is there."""
        wait = None if self._closed else self._ledger.fail(number)
        if wait is not None:
            self._settling.on_refused(now, wait)
        return self._ledger.take()

    @classmethod
    def load(cls, now: int, records: Iterable[Record], settings: GroupSettings | None = None) -> GroupCoordinator:
        """Goes on from a log. Raises `StoreError` if it cannot be read."""
        coordinator = cls(settings)
        contents = Contents(records)
        for name in dict.fromkeys([*contents.groups, *contents.offsets]):
            group = coordinator._groups[name] = Group(name)
            group.offsets.stored.update(contents.offsets.get(name, {}))
            if name in contents.groups:
                record, raw = contents.groups[name]
                group.restore(record, raw)
                coordinator._rounds.resume(now, group, record.assigned)
            if group.state is GroupState.EMPTY:
                coordinator._commits.schedule_retirement(now, group)
        return coordinator

    def snapshot_records(self) -> list[Record]:
        """All that is true once every store so far has happened."""
        records: list[Record] = []
        for group in self._groups.values():
            if group.record is not None:
                records.append((group_key(group.name), group.record))
            for partition, offset in group.offsets.stored.items():
                records.append((offset_key(group.name, partition), encode(offset)))
        for stored, _ in self._ledger.waits.values():
            records += stored
        return compacted(records)

    def close(self, now: int) -> list[Effect]:
        """Leadership is lost: everybody who waits has to look for the new coordinator."""
        error = GroupError.NOT_COORDINATOR
        for _, wait in self._ledger.waits.values():
            if isinstance(wait, Committing):
                self._commits.refuse(wait, error)
            elif isinstance(wait, Deleting):
                self._commits.refuse_delete(now, wait, error)
        for group in self._groups.values():
            for member in group.members.values():
                self._rounds.dismiss(group, member, error)
        self._closed = True
        self._groups.clear()
        self._ledger.waits.clear()
        return self._ledger.take()
