"""A broker: its replicas, what it streams to and from other brokers, and what it tells the register.

Inputs are told as they come (`on_…`, `produce`); `flush` says what to do about all of them together. A driver owes:

1. at the end of a tick it writes what was admitted and taken, one write per partition, before it calls `flush`;
2. effects are obeyed in order; `on_durable` is told when the disk has synced (or at once, where nobody wants a sync);
3. a write that failed, a log that was opened, cut or reset is answered by `on_tail`, one that cannot be opened now by
   `on_unopened`. Opening may take its time: what the register told is taken up when all logs are open;
4. a log that turns out to be damaged ends this broker's life: the driver cuts the log, makes a new core under a new
   incarnation, and tells the register what was damaged. It may not forget that before the register has heard it;
5. what other brokers say goes to `streaming` (they follow us) or to `following` (we follow them). Of each that follows
   us there is one connection: a newer one ends the older, and `on_follower_down` comes before its first word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from octoloom.core.broker_effects import (
    Acknowledge,
    Close,
    Effect,
    LeadershipLost,
    LeadershipTaken,
    Moved,
    Open,
    Report,
)
from octoloom.core.following import Following
from octoloom.core.log_messages import (
    Aborted,
    Accept,
    Announced,
    BrokerAddress,
    InSyncRefused,
    LogDirectory,
    LogNews,
    PartitionState,
    ProposeInSync,
    Refuse,
    Taken,
    TopicInfo,
    TopicPartition,
)
from octoloom.core.partition import (
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER,
    STORAGE_ERROR,
    LogTail,
    Partition,
    Waiting,
)
from octoloom.core.roster import name_of
from octoloom.core.streaming import Streaming


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    node: str
    lag_ms: int = 10_000
    """A follower that had not all for so long is taken out of the in-sync set. Four looks are taken in that time."""
    high_ms: int = 100
    """How long a follower may know an older watermark than the leader, when nothing else is to be sent."""
    failed_ms: int = 1000
    """How long a follower waits before it asks anew for what it could not write."""
    refollow_ms: int = 100
    """How long a follower waits before it asks a leader again that has refused it."""


class Broker:
    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._node = config.node
        self.partitions: dict[TopicPartition, Partition] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.brokers: dict[str, BrokerAddress] = {}
        """Those that the register takes to be alive."""
        self.revision = -1
        self._untaken = False
        """Something was told that the register does not know to be taken up."""
        self._opening: dict[TopicPartition, None] = {}
        self._effects: list[Effect] = []
        self._acknowledged: list[tuple[int, int]] = []
        self._touched: dict[TopicPartition, None] = {}
        """Leaders whose watermark or in-sync set may change, or who have somebody to answer."""
        self._owed: dict[TopicPartition, None] = {}
        """Leaders whose followers know an older watermark."""
        self._owed_at: int | None = None
        self._look_at: int | None = None
        self._transition: Announced | None = None
        self.streaming = Streaming(self.partitions, self._touched)
        self.following = Following(config.node, self.partitions, config.refollow_ms)

    # The register.

    def on_directory(self, now: int, directory: LogDirectory) -> None:
        """All of it, on a new connection: outstanding words to the register are said again."""
        self.revision, self._untaken = directory.revision, True
        self.brokers = dict(directory.brokers)
        self.following.on_brokers(now, directory.brokers)
        if self._transition is not None:
            self._release(now)
        for topic in [topic for topic in self.topics if topic not in directory.topics]:
            self._on_topic(now, topic, None)
        for topic, info in directory.topics.items():
            self._on_topic(now, topic, info)
        for topic, number, state in directory.partitions:
            self._on_state(now, (topic, number), state)
        proposals = [
            (*name, partition.state.epoch, partition.state.version, partition.leading.proposal)
            for name, partition in self.partitions.items()
            if partition.leading is not None and partition.leading.proposal is not None
        ]
        if proposals:
            self._effects.append(Report(ProposeInSync(proposals)))

    def on_news(self, now: int, news: LogNews) -> None:
        self.revision, self._untaken = news.revision, True
        if news.brokers is not None:
            self.brokers = dict(news.brokers)
            self.following.on_brokers(now, news.brokers)
        for topic, info in news.topics.items():
            self._on_topic(now, topic, info)
        for topic, number, state in news.partitions:
            self._on_state(now, (topic, number), state)
        if self._transition is not None and news.transition == self._transition.transition:
            self._release(now)

    def on_announced(self, now: int, announced: Announced) -> None:
        """Stops following and leading in these partitions, and says where they stand; or refuses."""
        ends = []
        for topic, number, epoch in announced.partitions:
            partition = self.partitions.get((topic, number))
            if partition is not None and partition.state.epoch > epoch:
                reason = f"{topic}-{number} is in epoch {partition.state.epoch} here, past {epoch}"
                self._effects.append(Report(Refuse(announced.transition, reason)))
                return
            if partition is not None and partition.opened:
                ends.append((topic, number, *partition.last()))
        if self._transition is not None:
            self._release(now)
        self._transition = announced
        for topic, number, _ in announced.partitions:
            partition = self.partitions.get((topic, number))
            if partition is not None:
                partition.held = True
                self.following.drop(partition.name)
        self._effects.append(Report(Accept(announced.transition, ends)))

    def on_aborted(self, now: int, aborted: Aborted) -> None:
        if self._transition is not None and self._transition.transition == aborted.transition:
            self._release(now)

    def on_refused(self, now: int, refused: InSyncRefused) -> None:
        partition = self.partitions.get((refused.topic, refused.partition))
        if partition is not None and partition.leading is not None:
            partition.leading.on_refused(now, refused.version)
            self._touched[partition.name] = None

    def _release(self, now: int) -> None:
        """The transition is over, one way or the other."""
        assert self._transition is not None
        for topic, number, _ in self._transition.partitions:
            partition = self.partitions.get((topic, number))
            if partition is not None and partition.held:
                partition.held = False
                self._touched[partition.name] = None
                self.following.wish(partition.name, now)
        self._transition = None

    def _on_topic(self, now: int, topic: str, info: TopicInfo | None) -> None:
        known = self.topics.get(topic)
        if known is not None and (info is None or info.number != known.number):
            for name in [name for name in self.partitions if name[0] == topic]:
                self._drop(name, known)
            del self.topics[topic]
        if info is not None:
            self.topics[topic] = info
            for name, partition in self.partitions.items():
                if name[0] == topic:
                    partition.in_sync_min = in_sync_min_of(info)

    def _on_state(self, now: int, name: TopicPartition, state: PartitionState) -> None:
        info = self.topics.get(name[0])
        if info is None or name_of(self._node) not in state.replicas:
            return
        partition = self.partitions.get(name)
        if partition is None:
            partition = Partition(name, self._node, state, in_sync_min_of(info), self._config.lag_ms)
            self.partitions[name] = partition
            self._effects.append(Open(name, info))
            self._opening[name] = None
            return
        led, epoch = partition.leading is not None, partition.state.epoch
        self._refuse(partition.on_state(now, state), NOT_LEADER)
        if state.epoch != epoch or led != (partition.leading is not None):
            self._on_role(now, partition, led)
        if partition.leading is not None:
            self._touched[name] = None

    def _on_role(self, now: int, partition: Partition, led: bool) -> None:
        """The partition has another leader: its streams begin anew."""
        name = partition.name
        self.following.drop(name)
        self.streaming.end(name)
        self._owed.pop(name, None)
        if led:
            self._effects.append(LeadershipLost(name))
        if partition.leading is not None:
            self._touched[name] = None
            self._effects.append(LeadershipTaken(name, partition.state.epoch))
        elif partition.leader:
            self.following.wish(name, now)

    def _drop(self, name: TopicPartition, info: TopicInfo) -> None:
        partition = self.partitions.pop(name)
        self._refuse(partition.waiting, NOT_LEADER)
        self.following.drop(name)
        self.streaming.end(name)
        for book in (self._touched, self._owed, self._opening):
            book.pop(name, None)
        if self._withdraw(partition):
            self._effects.append(LeadershipLost(name))
        self._effects.append(Close(name, info))

    def _withdraw(self, partition: Partition) -> bool:
        """Takes back what was not asked for yet about a partition that is gone. True: it is known to be led here."""
        leads = partition.leading is not None
        kinds = (Open, LeadershipTaken, LeadershipLost)
        mine = [effect for effect in self._effects if isinstance(effect, kinds) and effect.name == partition.name]
        self._effects = [effect for effect in self._effects if effect not in mine]
        return next((isinstance(effect, LeadershipLost) for effect in mine if not isinstance(effect, Open)), leads)

    # The disk.

    def on_tail(self, now: int, name: TopicPartition, tail: LogTail, failed: bool = False) -> None:
        """Where a log stands after it was opened, cut, reset, or (`failed`) did not take a write."""
        partition = self.partitions.get(name)
        if partition is None:
            return
        fresh = not partition.opened
        self._opening.pop(name, None)
        self._refuse(partition.on_tail(tail), STORAGE_ERROR)
        if fresh:
            self._refuse(partition.take_role(now), NOT_LEADER)
            self._on_role(now, partition, False)
        elif partition.leading is None:
            self.following.drop(name)
            self.following.wish(name, now + (self._config.failed_ms if failed else 0))
        else:
            self._touched[name] = None

    def on_unopened(self, name: TopicPartition) -> None:
        """A log cannot be opened for now: everything else goes on without it."""
        self._opening.pop(name, None)

    def on_durable(self, name: TopicPartition, end: int) -> None:
        """The disk has everything of this partition below `end`."""
        partition = self.partitions.get(name)
        if partition is not None:
            partition.on_durable(end)
            if partition.can_rise:
                self._touched[name] = None

    def on_trimmed(self, name: TopicPartition, start: int) -> None:
        """The log begins at `start` now: retention, or somebody deleted what was before."""
        partition = self.partitions.get(name)
        if partition is not None:
            partition.on_start(start)

    # Clients.

    def wait(self, name: TopicPartition, next_offset: int, ticket: int) -> None:
        """Acknowledge the ticket once everything below `next_offset` is committed."""
        partition = self.partitions[name]
        partition.wait(next_offset, ticket)
        if next_offset <= partition.high:
            self._touched[name] = None

    def on_admitted(self, name: TopicPartition) -> None:
        """Something was admitted and written: it can be streamed."""
        self.streaming.touch(name)

    # Time.

    def deadline(self) -> int | None:
        due = self.following.deadline()
        for at in (self._owed_at, self._look_at):
            if at is not None and (due is None or at < due):
                due = at
        return due

    def on_time(self, now: int) -> None:
        """Looks after followers that lag, now and then, and tells watermarks that nothing else has carried."""
        if self._look_at is not None and self._look_at <= now:
            self._look_at = None
            for name, partition in self.partitions.items():
                if partition.leading is not None:
                    self._touched[name] = None
        if self._owed_at is not None and self._owed_at <= now:
            self._owed_at = None
            for name in self._owed:
                self.streaming.touch(name)
            self._owed.clear()

    def flush(self, now: int) -> list[Effect]:
        """What to do about all that was told since the last time."""
        if self._touched:
            self._settle_leaders(now)
        effects, self._effects = self._effects, []
        self.following.flush(now, effects)
        self.streaming.flush(effects)
        if self._acknowledged:
            effects.append(Acknowledge(self._acknowledged))
            self._acknowledged = []
        if self._untaken and not self._opening:
            self._untaken = False
            effects.append(Report(Taken(self.revision)))
        return effects

    def _settle_leaders(self, now: int) -> None:
        touched = list(self._touched)
        self._touched.clear()
        proposals, moved = [], []
        for name in touched:
            partition = self.partitions.get(name)
            if partition is None or partition.leading is None:
                continue
            leading, high = partition.leading, partition.high
            if self._look_at is None and leading.followers:
                self._look_at = now + self._config.lag_ms // 4
            for waiting in partition.raise_watermark():
                short = leading.size < partition.in_sync_min
                self._acknowledged.append((waiting.ticket, NOT_ENOUGH_REPLICAS_AFTER_APPEND if short else 0))
            if partition.high > high:
                moved.append(name)
                if leading.followers:
                    self._owed[name] = None
                    self._owed_at = now + self._config.high_ms if self._owed_at is None else self._owed_at
            wanted = None if partition.held else leading.weigh(now, partition.end, partition.high)
            if wanted is not None:
                proposals.append((*name, partition.state.epoch, partition.state.version, wanted))
        if moved:
            self._effects.append(Moved(moved))
        if proposals:
            self._effects.append(Report(ProposeInSync(proposals)))

    def _refuse(self, waiting: Iterable[Waiting], error: int) -> None:
        self._acknowledged.extend((each.ticket, error) for each in waiting)


def in_sync_min_of(info: TopicInfo) -> int:
    return int(info.config.get("min.insync.replicas", "1"))
