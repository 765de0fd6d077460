"""The promises of the log, checked on every simulated history: the rules that Jepsen uses for Kafka.

1. nothing acknowledged is lost: it is in every final log, at the offset that was answered;
2. nothing is there twice;
3. offsets agree: whatever anybody was told about an offset is the same record, for ever;
4. nothing uncommitted is read: whatever a consumer saw is in the final logs;
5. order is kept: a producer's records lie in the order in which it sent them;
6. in one epoch of a partition one broker acknowledges, and it is the one that the register named;
7. a broker that restarted joins an in-sync set under its new name only;
8. whatever is committed is on the disk of everybody who is in sync or proposed to be, as long as disks are whole;
9. a change of topics that was answered is known by every broker that would say what it knows, whenever it is asked;
10. once faults stop, every partition has a leader, all replicas are in sync, and everything sent is acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from octoloom.core.log_messages import AdminDone, PartitionState, ProposeInSync, TopicPartition
from octoloom.core.roster import incarnation_of, name_of
from octoloom.core.topic_admin import TOPIC_EXISTS, UNKNOWN_TOPIC
from octoloom.simulation.broker_node import BrokerNode
from octoloom.simulation.log_disk import SimBatch
from octoloom.simulation.log_requests import Produce, Produced
from octoloom.simulation.world import Broken

if TYPE_CHECKING:
    from octoloom.simulation.log_cluster import LogCluster


class LogChecker:
    def __init__(self, cluster: LogCluster) -> None:
        self._cluster = cluster
        self._leaders: dict[tuple[TopicPartition, int], str] = {}
        self._decided: dict[TopicPartition, PartitionState] = {}
        self._known: dict[tuple[TopicPartition, int], str] = {}
        """What somebody was told about an offset."""
        self._acknowledged: dict[tuple[TopicPartition, int], str] = {}
        self._read: dict[tuple[TopicPartition, int], str] = {}
        self._committed: dict[TopicPartition, SimBatch] = {}
        """The last batch of each partition that was committed, by anybody."""
        self._tickets: dict[int, int] = {}
        """What was asked of topics, and the revision that whoever is answered can rely on."""
        self._changed = self._answered = 0
        """The last revision in which topics were changed, and the last one that somebody relies on."""
        self.forgotten: dict[str, None] = {}
        """Topics that were deleted."""

    def on_decided(self, place: TopicPartition, state: PartitionState) -> None:
        old = self._decided.get(place, state)
        if old.epoch > state.epoch:
            raise Broken(f"epochs rise: {place} went back to {state.epoch}")
        for member in state.in_sync:
            if member not in old.in_sync and self._restarted(member):
                raise Broken(f"restarted is out: {member} joins {place} after it has ended")
        self._decided[place] = state
        leader = self._leaders.setdefault((place, state.epoch), state.leader)
        if leader != state.leader:
            raise Broken(f"one leader: {leader} and {state.leader} lead {place} in epoch {state.epoch}")
        self._check_disks(place)

    def _restarted(self, member: str) -> bool:
        known = self._cluster.register.disk.brokers
        return any(name_of(n) == name_of(member) and incarnation_of(n) > incarnation_of(member) for n in known)

    def on_acknowledged(self, broker: BrokerNode, request: Produce, offset: int, epoch: int) -> None:
        """A broker answers for a batch, whether or not its producer hears of it."""
        if offset + len(request.tokens) > broker.core.partitions[request.name].high:
            raise Broken(f"committed first: {broker.name} acknowledges {request.tokens} at {offset} of {request.name}")
        leader = self._leaders.get((request.name, epoch))
        if leader != broker.name:
            raise Broken(f"one leader: {broker.name} acknowledges {request.name} in epoch {epoch} of {leader}")
        for number, token in enumerate(request.tokens):
            self._agree(request.name, offset + number, token)
            self._acknowledged[request.name, offset + number] = token

    def on_answered(self, producer: str, batch: Produce, answer: Produced) -> None:
        for number, token in enumerate(batch.tokens):
            self._agree(batch.name, answer.offset + number, token)

    def on_done(self, batch: Produce) -> None:
        pass

    def on_read(self, consumer: str, name: TopicPartition, batch: SimBatch) -> None:
        for number, token in enumerate(batch.tokens):
            self._agree(name, batch.place.base_offset + number, token)
            self._read[name, batch.place.base_offset + number] = token

    def on_high(self, broker: BrokerNode, name: TopicPartition) -> None:
        partition = broker.core.partitions[name]
        if broker.logs[name].durable < partition.high:
            raise Broken(f"durable first: {broker.name} commits {name} up to {partition.high} before its own disk")
        last, known = broker.logs[name].batch_before(partition.high), self._committed.get(name)
        if last is not None and (known is None or known.place.next_offset < partition.high):
            self._committed[name] = last
            self._check_disks(name)

    def on_cut(self, name: TopicPartition) -> None:
        self._check_disks(name)

    def on_proposed(self, message: ProposeInSync) -> None:
        """Whoever is to join has everything, unless the proposal comes too late to be taken."""
        for topic, number, epoch, version, wanted in message.changes:
            state = self._cluster.register.disk.partitions.get((topic, number))
            if state is not None and (state.epoch, state.version) == (epoch, version):
                self._check_disks((topic, number), wanted)

    def _check_disks(self, name: TopicPartition, members: Sequence[str] = ()) -> None:
        """A disk that has lost something stands for nobody who wrote there before, and need not hold it."""
        saved = self._cluster.register.disk
        last, state, info = self._committed.get(name), saved.partitions.get(name), saved.topics.get(name[0])
        if last is None or state is None or info is None:
            return
        for member in members or state.in_sync:
            disk = self._cluster.disks[name_of(member)]
            log = disk.logs.get((name[0], info.number, name[1]))
            if incarnation_of(member) > disk.lost_with and (log is None or not log.holds(last)):
                raise Broken(f"committed is kept: {member} is in sync in {name} and its disk lacks {last}")

    def on_admin(self, ticket: int, revision: int | None) -> None:
        """Somebody asks something of topics, which changes them in this revision, or (None) not at all."""
        self._changed = revision or self._changed
        self._tickets[ticket] = self._changed

    def on_admin_done(self, done: AdminDone) -> None:
        """The register answers that it is done, or was before, or that there is no such topic."""
        if done.error in (0, TOPIC_EXISTS, UNKNOWN_TOPIC):
            self._answered = max(self._answered, self._tickets[done.ticket])
            for broker in self._cluster.brokers.values():
                if broker.alive and not broker.paused:
                    self.on_asked(broker)

    def on_asked(self, broker: BrokerNode) -> None:
        """Something comes to the broker: it might as well be a question about topics."""
        if broker.core.revision < self._answered and broker.standing.informed(self._cluster.world.now):
            raise Broken(f"known when answered: {broker.name} knows {broker.core.revision} of {self._answered}")

    def on_fault(self, broker: BrokerNode, text: str) -> None:
        raise Broken(f"committed is kept: {broker.name} stops: {text}")

    def _agree(self, name: TopicPartition, offset: int, token: str) -> None:
        known = self._known.setdefault((name, offset), token)
        if known != token:
            raise Broken(f"offsets agree: {name} {offset} was {known} and is {token}")

    # At rest.

    def at_rest(self) -> None:
        cluster = self._cluster
        for name, state in cluster.register.disk.partitions.items():
            if len(state.in_sync) != len(state.replicas):
                raise Broken(f"it heals: {name} has only {state.in_sync} of {state.replicas} in sync")
            gone = [each for each in (state.leader, *state.in_sync) if name not in cluster.logs_of(each)]
            if gone:
                raise Broken(f"it heals: {name} still counts on {gone}")
            logs = [cluster.brokers[member].logs[name] for member in state.in_sync]
            first = [(batch.place, batch.tokens) for batch in logs[0].batches]
            for member, log in zip(state.in_sync, logs, strict=True):
                if [(batch.place, batch.tokens) for batch in log.batches] != first:
                    raise Broken(f"replicas agree: {member} differs from {state.in_sync[0]} in {name}")
            leader = cluster.brokers[state.leader].core.partitions[name]
            if leader.leading is None or leader.high != leader.end:
                raise Broken(f"it heals: {state.leader} has committed {name} only to {leader.high} of {leader.end}")
            self._check_log(name, logs[0].batches)
        for producer in cluster.producers:
            for lane in producer.lanes.values():
                if lane.queue and lane.name in cluster.register.disk.partitions:
                    raise Broken(f"it heals: {producer.name} still waits for {lane.queue[0]}")
        for consumer in cluster.consumers:
            for name, state in cluster.register.disk.partitions.items():
                end = cluster.brokers[state.leader].core.partitions[name].end
                if consumer.positions.get(name, 0) < end:
                    raise Broken(f"it heals: {consumer.name} is at {consumer.positions.get(name)} of {end} in {name}")

    def _check_log(self, name: TopicPartition, batches: list[SimBatch]) -> None:
        there: dict[int, str] = {}
        places: dict[str, int] = {}
        last: dict[int, tuple[int, int]] = {}
        for batch in batches:
            for number, token in enumerate(batch.tokens):
                if token in places:
                    raise Broken(f"nothing twice: {token} is at {places[token]} and again in {name}")
                there[batch.place.base_offset + number] = places[token] = token  # type: ignore[assignment]
            now = (batch.place.producer_epoch, batch.place.base_sequence)
            if last.get(batch.place.producer_id, (-1, -1)) >= now:
                raise Broken(f"order is kept: {batch.tokens} of {name} comes after what was sent later")
            last[batch.place.producer_id] = now
        for what, known in (("acknowledged", self._acknowledged), ("read", self._read)):
            for (topic, offset), token in known.items():
                if topic == name and there.get(offset) != token:
                    raise Broken(f"nothing lost: {token} was {what} at {name} {offset}, where {there.get(offset)} is")
