"""Commits on their way to the log, and the end of groups that nobody uses.

A group without members and without offsets is forgotten after a while, and so are offsets that nobody has used for the
time of retention. A group is deleted by one record; until that is stored it is `Dead` and takes no requests, so that
nothing is written behind the deletion that depends on what was before it.
"""

from __future__ import annotations

from octoloom.core.consumer_ledger import Committing, Deleting, Forgetting, Ledger
from octoloom.core.consumer_membership import Group, GroupState
from octoloom.core.consumer_messages import CommitAnswer, CommitRequest, DeleteAnswer, GroupError, TopicPartition
from octoloom.core.consumer_records import OffsetRecord, Record, encode, group_key, offset_key
from octoloom.core.consumer_rounds import Timer
from octoloom.core.consumer_settings import STORE_RETRY_MS, GroupSettings
from octoloom.core.consumer_timers import Timers


class Commits:
    def __init__(self, settings: GroupSettings, timers: Timers[Timer], ledger: Ledger) -> None:
        self._settings = settings
        self._timers = timers
        self._ledger = ledger

    # Commits.

    def refusal(self, group: Group, request: CommitRequest) -> GroupError:
        """Why all of a request is refused."""
        if group.state is GroupState.DEAD:
            return GroupError.COORDINATOR_NOT_AVAILABLE
        refusal = self._not_a_member(group, request)
        if refusal:
            return refusal
        if group.state is GroupState.COMPLETING:
            # Its partitions may be another's by now. It knows of the round, and commits again when it is through.
            return GroupError.REBALANCE_IN_PROGRESS
        if len(self._ledger.waits) >= self._settings.stores_max:
            return GroupError.COORDINATOR_LOAD_IN_PROGRESS
        return GroupError.NONE

    @staticmethod
    def _not_a_member(group: Group, request: CommitRequest) -> GroupError:
        if group.state is GroupState.EMPTY:
            if request.generation < 0:
                return GroupError.NONE
            return GroupError.UNKNOWN_MEMBER_ID if group.record is not None else GroupError.ILLEGAL_GENERATION
        return group.refusal(request.member, request.instance) or group.generation_refusal(request.generation)

    def commit(self, now: int, group: Group, ticket: int, request: CommitRequest) -> None:
        """Takes what can be taken, and answers for all of it when that is stored."""
        errors = group.offsets.check(request.offsets, self._settings.metadata_max, self._settings.offsets_max)
        accepted: dict[TopicPartition, OffsetRecord] = {}
        for offset, error in zip(request.offsets, errors, strict=True):
            if not error:
                record = OffsetRecord(offset.offset, offset.leader_epoch, offset.metadata, now)
                accepted[offset.topic, offset.partition] = record
        answer = CommitAnswer(
            tuple(
                (offset.topic, offset.partition, error) for offset, error in zip(request.offsets, errors, strict=True)
            )
        )
        if not accepted:
            self._ledger.answer(ticket, answer)
            return
        group.offsets.begin(accepted)
        records: list[Record] = [(offset_key(group.name, where), encode(record)) for where, record in accepted.items()]
        self._ledger.store(records, Committing(group, ticket, answer, accepted))

    def confirm(self, now: int, wait: Committing) -> None:
        offsets = wait.group.offsets
        offsets.end(wait.offsets)
        offsets.stored.update(wait.offsets)
        if wait.group.state is GroupState.EMPTY and ("retire", wait.group.name, "") not in self._timers:
            self.schedule_retirement(now, wait.group)
        self._ledger.answer(wait.ticket, wait.answer)

    def refuse(self, wait: Committing, error: GroupError) -> None:
        wait.group.offsets.end(wait.offsets)
        results = tuple((topic, partition, refused or error) for topic, partition, refused in wait.answer.results)
        self._ledger.answer(wait.ticket, CommitAnswer(results))

    def forget(self, group: Group, partitions: list[TopicPartition]) -> None:
        if partitions and group.state is not GroupState.DEAD:
            records: list[Record] = [(offset_key(group.name, partition), None) for partition in partitions]
            group.offsets.begin(partitions)
            self._ledger.store(records, Forgetting(group, partitions))

    # The end of groups.

    @staticmethod
    def delete_refusal(group: Group | None) -> GroupError:
        if group is None:
            return GroupError.GROUP_ID_NOT_FOUND
        if group.state is GroupState.DEAD:
            return GroupError.COORDINATOR_NOT_AVAILABLE
        return GroupError.NONE if group.state is GroupState.EMPTY else GroupError.NON_EMPTY_GROUP

    def delete(self, wait: Deleting) -> None:
        for group in wait.groups:
            group.state = GroupState.DEAD
        if wait.groups:
            self._ledger.store([(group_key(group.name), None) for group in wait.groups], wait)
        else:
            self.confirm_delete(wait)

    def confirm_delete(self, wait: Deleting) -> None:
        if wait.ticket is not None:
            self._ledger.answer(wait.ticket, wait.answer)

    def refuse_delete(self, now: int, wait: Deleting, error: GroupError) -> None:
        for group in wait.groups:
            group.state = GroupState.EMPTY
            self._timers.set(("retire", group.name, ""), now + STORE_RETRY_MS)
        if wait.ticket is not None:
            results = tuple((name, refused or error) for name, refused in wait.answer.results)
            self._ledger.answer(wait.ticket, DeleteAnswer(results))

    def on_retire_due(self, now: int, group: Group) -> None:
        if group.state is not GroupState.EMPTY:
            return
        expired = group.offsets.expired(now, group.empty_since, self._settings.offsets_retention_ms)
        is_old = now >= group.empty_since + self._settings.empty_group_ms
        is_awaited = group.pending or group.offsets.pending
        if is_old and not is_awaited and len(expired) == len(group.offsets.stored):
            self.delete(Deleting([group], None, DeleteAnswer(())))
        else:
            self.forget(group, expired)
            self.schedule_retirement(now, group)

    def schedule_retirement(self, now: int, group: Group) -> None:
        """For an empty group: the next time at which something of it may go."""
        if group.offsets.stored:
            due = max(group.offsets.oldest(), group.empty_since) + self._settings.offsets_retention_ms
        else:
            due = group.empty_since + self._settings.empty_group_ms
        self._timers.set(("retire", group.name, ""), max(due, now + STORE_RETRY_MS))
