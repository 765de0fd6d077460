"""One broker's replica of one partition: leader or follower, in the epochs that the register decides.

The leader gives each batch the next offset; followers copy its log. A record is *committed* once it lies below the
high watermark: on the disk of every member of the in-sync set. Then it is acknowledged, and consumers may see it.

1. A replica leads only in an epoch in which the register named this very process, and follows in every other.
2. Offsets are given one after the other; an epoch's batches are given by one leader.
3. The watermark never falls in a process's life, and never passes what is durable here.
4. A follower cuts its log back only to where it agrees with its leader, and never below its watermark: that would be
   committed records lost, and is a fault that stops the replica rather than a normal step.
5. While a transition is announced nothing is taken, followed or acknowledged, until it is committed or aborted.

The log's bytes are the driver's. It tells where the log stands (`LogTail`) after opening, truncating or a failed write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from octoloom.core.epochs import Epochs
from octoloom.core.in_sync import InSync
from octoloom.core.log_messages import FollowEntry, Part, PartitionState, TopicPartition
from octoloom.core.producers import ProducerTable, Verdict

NOT_LEADER = 6
NOT_ENOUGH_REPLICAS = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
STORAGE_ERROR = 56
FENCED_EPOCH = 74
UNKNOWN_EPOCH = 75
NO_PLACE = -1


@dataclass(frozen=True, slots=True)
class LogTail:
    """Where a log stands on disk."""

    start: int = 0
    end: int = 0
    durable: int = 0
    high: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    producers: ProducerTable = field(default_factory=ProducerTable)


class BatchPlace(Protocol):
    """What a core has to know of a batch."""

    @property
    def base_offset(self) -> int: ...

    @property
    def next_offset(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def producer_id(self) -> int: ...

    @property
    def producer_epoch(self) -> int: ...

    @property
    def base_sequence(self) -> int: ...


class Admission(NamedTuple):
    """`error` 0: the batch has `base_offset`, and is committed once the watermark is at `next_offset`."""

    error: int
    base_offset: int = -1
    next_offset: int = -1
    duplicate: bool = False


class Waiting(NamedTuple):
    next_offset: int
    ticket: int


class Partition:
    def __init__(self, name: TopicPartition, node: str, state: PartitionState, in_sync_min: int, lag_ms: int) -> None:
        self.name = name
        self.node = node
        self.state = state
        self.in_sync_min = in_sync_min
        self.lag_ms = lag_ms
        self.opened = False
        self.start = self.end = self.durable = self.high = 0
        self.epochs = Epochs()
        self.producers = ProducerTable()
        self.leading: InSync | None = None
        self.settled_at = 0
        """As a leader: the end at which it began. Below it the watermark may be older than what others saw."""
        self.held = False
        """A transition is announced."""
        self.faulty = ""
        self.waiting: deque[Waiting] = deque()

    # The log.

    def on_tail(self, tail: LogTail) -> list[Waiting]:
        """The log was opened, cut or failed to take a write. Answers who waited for what it no longer holds."""
        self.opened = True
        self.start, self.end, self.durable = tail.start, tail.end, min(tail.durable, tail.end)
        self.high = max(min(max(tail.high, self.high), tail.end), tail.start)
        self.epochs, self.producers = Epochs(tail.epochs), tail.producers
        lost = [waiting for waiting in self.waiting if waiting.next_offset > self.end]
        self.waiting = deque(waiting for waiting in self.waiting if waiting.next_offset <= self.end)
        return lost

    def on_durable(self, end: int) -> None:
        if end > self.durable:
            self.durable = min(end, self.end)

    def on_start(self, start: int) -> None:
        self.start = max(self.start, start)

    # The register.

    def on_state(self, now: int, state: PartitionState) -> list[Waiting]:
        """Takes up a decision. Answers who waited for a leader that this replica is no longer."""
        if state.version <= self.state.version:
            return []
        newer = state.epoch != self.state.epoch
        self.state = state
        self.held = self.held and not newer
        return self.take_role(now)

    def take_role(self, now: int) -> list[Waiting]:
        """Leads or follows, as the state says."""
        leads = self.opened and not self.faulty and self.state.leader == self.node
        if not leads:
            self.leading = None
            dropped, self.waiting = list(self.waiting), deque()
            return dropped
        if self.leading is not None and self.leading.state.epoch == self.state.epoch:
            self.leading.on_state(now, self.state)
            return []
        self.leading = InSync(now, self.node, self.state, self.end, self.lag_ms)
        self.settled_at = self.end
        dropped, self.waiting = list(self.waiting), deque()
        return dropped

    @property
    def leader(self) -> str:
        """Whom to follow; "" if nobody, or if this replica leads."""
        if not self.opened or self.held or self.faulty:
            return ""
        return self.state.leader if self.state.leader != self.node else ""

    def last(self) -> tuple[int, int, int]:
        """For the register's survey: last epoch, end, watermark."""
        return self.epochs.last, self.end, self.high

    # Leading.

    def leads(self, epoch: int = -1) -> int:
        """0 if this replica leads in the epoch that a client believes in (-1: in any), or Kafka's error."""
        if epoch >= 0 and epoch != self.state.epoch:
            return FENCED_EPOCH if epoch < self.state.epoch else UNKNOWN_EPOCH
        if self.leading is None or self.held:
            return NOT_LEADER
        return 0

    def admit(self, count: int, producer: int, producer_epoch: int, sequence: int, acks: int) -> Admission:
        """Gives a batch its offset, or says why not."""
        if self.leading is None or self.held:
            return Admission(NOT_LEADER)
        if acks == -1 and self.leading.size < self.in_sync_min:
            return Admission(NOT_ENOUGH_REPLICAS)
        if producer >= 0:
            verdict, offset = self.producers.check(producer, producer_epoch, sequence, count, self.start == 0)
            if verdict:
                return Admission(int(verdict))
            if offset >= 0:
                return Admission(Verdict.TAKEN, offset, offset + count, duplicate=True)
        base = self.end
        self.end = base + count
        self.epochs.add(self.state.epoch, base)
        if producer >= 0:
            self.producers.add(producer, producer_epoch, sequence, count, base)
        # Tuples that are made for every batch are made directly: that takes half the time of their own constructors.
        return tuple.__new__(Admission, (0, base, self.end, False))

    def wait(self, next_offset: int, ticket: int) -> None:
        """Have `raise_watermark` answer the ticket once this is committed."""
        self.waiting.append(tuple.__new__(Waiting, (next_offset, ticket)))

    @property
    def can_rise(self) -> bool:
        """Whether the watermark has somewhere to go, once nothing holds it."""
        return self.leading is not None and self.leading.watermark(self.durable) > self.high

    def raise_watermark(self) -> list[Waiting]:
        """Moves the watermark on; answers who waited for that."""
        if self.leading is None or self.held:
            return []
        level = self.leading.watermark(self.durable)
        if level > self.high:
            self.high = level
        ready = []
        waiting = self.waiting
        while waiting and waiting[0].next_offset <= self.high:
            ready.append(waiting.popleft())
        return ready

    def on_follow(self, now: int, follower: str, entry: FollowEntry) -> Part | None:
        """A follower names where its log ends. None if it may go on from there, or the verdict to tell it."""
        part = Part(*self.name, entry.epoch, entry.offset, 0, self.high, self.start, verdict="refused")
        if self.leading is None or self.held or entry.epoch != self.state.epoch:
            return part
        if entry.offset < self.start:
            return self._verdict("reset", NO_PLACE, self.start)
        if entry.last_epoch >= 0:
            epoch, end = self.epochs.end_of(entry.last_epoch, self.end)
            if epoch < 0:
                return self._verdict("reset", NO_PLACE, self.start)
            if epoch != entry.last_epoch or end < entry.offset:
                return self._verdict("diverged", epoch, end)
        elif entry.offset > self.end:
            return self._verdict("reset", NO_PLACE, self.start)
        self.leading.on_durable(now, follower, min(entry.durable, entry.offset), self.end)
        return None

    def on_follower_durable(self, now: int, follower: str, epoch: int, durable: int) -> bool:
        """True: the watermark can move on now, or the follower may join the set."""
        leading = self.leading
        if leading is None or epoch != self.state.epoch or durable > self.end:
            return False
        leading.on_durable(now, follower, durable, self.end)
        return self.can_rise or follower not in self.state.in_sync

    def _verdict(self, verdict: str, epoch: int, offset: int) -> Part:
        return Part(*self.name, self.state.epoch, offset, 0, self.high, self.start, verdict, epoch)

    # Following.

    def follow_entry(self) -> FollowEntry:
        return FollowEntry(*self.name, self.state.epoch, self.end, self.epochs.last, self.durable)

    def takes(self, part: Part) -> bool:
        """Whether data of this part goes on where the log ends, from the leader of this epoch."""
        return self._from_leader(part) and part.offset == self.end

    def _from_leader(self, part: Part) -> bool:
        return self.leader != "" and part.epoch == self.state.epoch

    def append(self, batches: Sequence[BatchPlace], high: int) -> None:
        """The leader's batches, checked and contiguous, go to the end of the log."""
        for batch in batches:
            base, end = self.end, batch.next_offset
            assert batch.base_offset == base, (self.name, batch, base)
            self.epochs.add(batch.leader_epoch, base)
            if batch.producer_id >= 0:
                self.producers.add(batch.producer_id, batch.producer_epoch, batch.base_sequence, end - base, base)
            self.end = end
        self.on_high(high)

    def on_high(self, high: int) -> None:
        """The leader's watermark, as far as it is also ours."""
        if high > self.high:
            self.high = max(self.high, min(high, self.durable))

    def cut_at(self, part: Part) -> int | None:
        """Where the log has to be cut to agree with the leader's; None if the verdict is not for this epoch.

        Raises no error for a cut below the watermark: it makes the replica faulty (invariant 4).
        """
        if not self._from_leader(part):
            return None
        _, ours = self.epochs.end_of(part.agreed_epoch, self.end)
        place = max(min(part.offset, ours), self.start)
        if place < self.high:
            self.faulty = (
                f"{self.name[0]}-{self.name[1]}: the leader of epoch {part.epoch} agrees only up to {place}, "
                f"but everything below {self.high} is committed here"
            )
            return None
        return place
