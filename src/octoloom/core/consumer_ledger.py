"""What a coordinator has said so far: answers, and records that are on their way to the log with who waits for them.

Stores are numbered from 1 and are settled in this order, as the log is one line. What is to happen when a store is
settled is written down beside it as a value, so that nothing happens twice and a coordinator that closes knows
everybody who waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from octoloom.core.consumer_membership import Group, Member
from octoloom.core.consumer_messages import Answer, CommitAnswer, DeleteAnswer, Effect, Response, Store, TopicPartition
from octoloom.core.consumer_records import OffsetRecord, Record
from octoloom.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Announcing:
    """A generation begins: once it is stored, those who joined are told."""

    group: Group
    generation: int


@dataclass(frozen=True, slots=True)
class Assigning:
    """The leader has assigned partitions: once that is stored, each member is told its own."""

    group: Group
    generation: int


@dataclass(frozen=True, slots=True)
class TakingOver:
    """A static member is back under a new id, in the same generation."""

    group: Group
    member: Member
    ticket: int
    leader: str
    """What it is told about the leader."""
    may_skip: bool


@dataclass(frozen=True, slots=True)
class Emptying:
    """The last member has gone. Nobody waits for that."""

    group: Group


@dataclass(frozen=True, slots=True)
class Committing:
    group: Group
    ticket: int
    answer: CommitAnswer
    offsets: Mapping[TopicPartition, OffsetRecord]


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Offsets have expired, or their topic is gone."""

    group: Group
    partitions: list[TopicPartition]


@dataclass(frozen=True, slots=True)
class Deleting:
    groups: list[Group]
    ticket: int | None
    """None if nobody asked for it: its time had come."""
    answer: DeleteAnswer


AboutGroup = Announcing | Assigning | TakingOver | Emptying
"""What waits for a group's own record."""
Wait = AboutGroup | Committing | Forgetting | Deleting


class Ledger:
    def __init__(self) -> None:
        self.waits: dict[int, tuple[list[Record], Wait]] = {}
        self._out: list[Effect] = []
        self._first = 1
        """No store below this number waits."""
        self._next = 1

    def answer(self, ticket: int, response: Response) -> None:
        self._out.append(Answer(ticket, response))

    def store(self, records: list[Record], wait: Wait) -> None:
        self._out.append(Store(self._next, records))
        self.waits[self._next] = (records, wait)
        self._next += 1

    def take(self) -> list[Effect]:
        """What the driver is to do, from the last time on."""
        out, self._out = self._out, []
        return out

    def settle(self, number: int) -> list[Wait]:
        """Everything up to this number is stored; answers what it was for, in order."""
        if number >= self._next:
            raise UsageError(f"store {number} was never asked for, the last one was {self._next - 1}")
        numbers = [waiting for waiting in range(self._first, number + 1) if waiting in self.waits]
        self._first = max(self._first, number + 1)
        return [self.waits.pop(waiting)[1] for waiting in numbers]

    def fail(self, number: int) -> Wait | None:
        """This store did not happen and will not."""
        if number >= self._next:
            raise UsageError(f"store {number} was never asked for, the last one was {self._next - 1}")
        _, wait = self.waits.pop(number, ([], None))
        return wait
