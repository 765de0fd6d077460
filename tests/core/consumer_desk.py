"""A desk for tests of the group coordinator: it plays the clients, the clock and the log."""

from __future__ import annotations

import struct
from typing import Any

from octoloom.core import consumer_messages as say
from octoloom.core.consumer_groups import GroupCoordinator
from octoloom.core.consumer_messages import Answer, Effect, GroupError, Response, Store
from octoloom.core.consumer_records import Record
from octoloom.core.consumer_settings import GroupSettings

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 100


def subscription(*topics: str, owned: bytes = b"") -> bytes:
    """A consumer's metadata as the clients write it: version 1, the topics, and more."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 1, len(topics)) + names + struct.pack(">i", len(owned)) + owned


class Desk:
    """Stores succeed at once, unless `holds` is set: then they wait for `commit` or `refuse`."""

    def __init__(self, now: int = 1_000_000, **settings: Any) -> None:
        self.now = now
        self.settings = GroupSettings(**settings)
        self.coordinator = GroupCoordinator(self.settings)
        self.answers: dict[int, Any] = {}
        self.log: list[Record] = []
        self.holds = False
        self.held: list[Store] = []
        self._tickets = 0

    # Requests; each answers its ticket.

    def join(self, member: str = "", group: str = GROUP, **more: Any) -> int:
        fields: dict[str, Any] = {
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": (("range", subscription("t")),),
            "fresh_id": f"m{self._tickets + 1}",
        }
        return self._ask(self.coordinator.on_join, say.JoinRequest(group, member, **{**fields, **more}))

    def sync(self, member: str, generation: int, assignments: dict[str, bytes] | None = None, **more: Any) -> int:
        shares = tuple((assignments or {}).items())
        return self._ask(self.coordinator.on_sync, say.SyncRequest(GROUP, member, generation, shares, **more))

    def beat(self, member: str, generation: int, group: str = GROUP, instance: str | None = None) -> GroupError:
        ticket = self._ask(self.coordinator.on_heartbeat, say.HeartbeatRequest(group, member, generation, instance))
        return self.error(ticket)

    def leave(self, *members: say.LeavingMember | str, group: str = GROUP) -> say.LeaveAnswer:
        leaving = tuple(say.LeavingMember(member) if isinstance(member, str) else member for member in members)
        answer = self.answers[self._ask(self.coordinator.on_leave, say.LeaveRequest(group, leaving))]
        assert isinstance(answer, say.LeaveAnswer)
        return answer

    def commit(self, offsets: dict[int, int], group: str = GROUP, metadata: str = "", **more: Any) -> int:
        wanted = tuple(say.OffsetToCommit("t", part, offset, 3, metadata) for part, offset in offsets.items())
        return self._ask(self.coordinator.on_commit, say.CommitRequest(group, wanted, **more))

    def fetch(self, *partitions: int, group: str = GROUP) -> list[int]:
        query = say.OffsetsQuery(group, tuple(("t", partition) for partition in partitions))
        answer = self.answers[self._ask(self.coordinator.on_fetch_offsets, say.FetchOffsetsRequest((query,)))]
        return [fetched.offset for fetched in answer.groups[0].offsets]

    def delete(self, *groups: str) -> int:
        return self._ask(self.coordinator.on_delete, say.DeleteRequest(groups))

    def _ask(self, receive: Any, request: Any) -> int:
        self._tickets += 1
        ticket = self._tickets
        self.obey(receive(self.now, ticket, request))
        return ticket

    # Answers.

    def error(self, ticket: int) -> GroupError:
        answer = self.answers[ticket]
        if isinstance(answer, say.CommitAnswer):
            return answer.results[0][2]
        error: GroupError = answer.error
        return error

    def waits(self, ticket: int) -> bool:
        return ticket not in self.answers

    # The driver.

    def obey(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                assert effect.ticket not in self.answers, "a ticket is answered once"
                self.answers[effect.ticket] = effect.response
            elif self.holds:
                self.held.append(effect)
            else:
                self.log += effect.records
                self.obey(self.coordinator.on_stored(self.now, effect.number))

    def store(self) -> None:
        """The log takes what was held."""
        held, self.held = self.held, []
        for store in held:
            self.log += store.records
            self.obey(self.coordinator.on_stored(self.now, store.number))

    def refuse(self) -> None:
        held, self.held = self.held, []
        for store in held:
            self.obey(self.coordinator.on_store_failed(self.now, store.number))

    def run(self, ms: int) -> None:
        """Lets time pass; the coordinator is woken when it wants to be, and not otherwise."""
        end = self.now + ms
        while (deadline := self.coordinator.deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.obey(self.coordinator.on_time(self.now))
        self.now = end

    def fail_over(self) -> None:
        """Another coordinator goes on from the log; what was held is lost."""
        self.held = []
        self.coordinator = GroupCoordinator.load(self.now, self.log, self.settings)

    # Stories that many tests begin with.

    def state(self, group: str = GROUP) -> str:
        return self.coordinator.describe(group).state

    def stable(self, *instances: str | None, **more: Any) -> list[str]:
        """A stable group with these members, each of which was assigned its own number; answers their ids."""
        tickets = [self.join(instance=instance, requires_member_id=False, **more) for instance in instances]
        self.run(DELAY_MS)
        answers = [self.answers[ticket] for ticket in tickets]
        ids = [answer.member for answer in answers]
        shares = {member: bytes([number]) for number, member in enumerate(ids)}
        for answer, instance in zip(answers, instances, strict=True):
            self.sync(answer.member, answer.generation, shares if answer.members else None, instance=instance)
        assert self.state() == "Stable"
        return ids


__all__ = ["DELAY_MS", "GROUP", "REBALANCE_MS", "SESSION_MS", "Desk", "Response", "subscription"]
