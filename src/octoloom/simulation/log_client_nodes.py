"""Simulated clients of the log: a producer that is idempotent as Kafka's are, and a consumer that reads everything.

The producer numbers its batches per partition, has at most five under way, and sends again in order what was not
answered. It never gives up a batch on its own, so every batch has an end that the checker can tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from octoloom.core.log_messages import TopicPartition
from octoloom.simulation.log_requests import Fetch, Fetched, Produce, Produced
from octoloom.simulation.network import Channel

if TYPE_CHECKING:
    from octoloom.simulation.log_cluster import LogCluster

IN_FLIGHT_MAX = 5
ANSWER_MS = 400
RETRY_MS = 50
UNKNOWN_TOPIC = 3
OUT_OF_RANGE = 1


@dataclass(slots=True)
class Lane:
    """One partition, as one producer sees it. What is in flight was sent to `leader` on one connection, in order."""

    name: TopicPartition
    sequence: int = 0
    queue: list[Produce] = field(default_factory=list)
    """Batches that are not acknowledged, in order."""
    in_flight: int = 0
    sent_at: int = 0
    round: int = 0


class ClientNode:
    """What both have in common: it finds leaders in what the register decided, which may be out of date."""

    def __init__(self, cluster: LogCluster, name: str) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name = name
        self.alive, self.paused, self.slow = True, False, False
        self.channels: dict[str, Channel] = {}
        self._seen: dict[TopicPartition, str] = {}
        """The leaders as they were when it looked last."""
        self._dialling: dict[int, str] = {}

    def channel_to(self, broker: str) -> Channel | None:
        channel = self.channels.get(broker)
        if channel is None and broker not in self._dialling.values():
            dialled = self.cluster.network.dial(self, self.cluster.brokers.get(broker), "client")
            if dialled is not None:
                self._dialling[dialled.number] = broker
        return channel

    def on_open(self, channel: Channel) -> None:
        self._dialling.pop(channel.number, None)
        self.channels[channel.other(self).name] = channel
        self.go_on()

    def on_close(self, channel: Channel) -> None:
        self._dialling.pop(channel.number, None)
        peer = channel.other(self).name
        if self.channels.get(peer) is channel:
            del self.channels[peer]
            self.on_lost(peer)

    def on_lost(self, peer: str) -> None: ...

    def go_on(self) -> None: ...

    def on_data(self, channel: Channel, data: object) -> None: ...

    def leader_of(self, name: TopicPartition) -> str:
        """What is so, or what was so a while ago, or anybody."""
        luck = self.world.dice.random()
        if luck < 0.1:
            return self.cluster.any_broker()
        if luck > self.cluster.staleness or name not in self._seen:
            state = self.cluster.register.disk.partitions.get(name)
            self._seen[name] = state.leader if state is not None else ""
        return self._seen[name]


class ProducerNode(ClientNode):
    def __init__(self, cluster: LogCluster, name: str, producer: int) -> None:
        super().__init__(cluster, name)
        self.producer = producer
        self.epoch = 0
        self.lanes: dict[TopicPartition, Lane] = {}
        self._numbers = 0
        self.world.after(self.world.dice.randrange(50), self._look)

    def send(self, name: TopicPartition, tokens: tuple[str, ...]) -> None:
        lane = self.lanes.setdefault(name, Lane(name))
        self._numbers += 1
        batch = Produce(self._numbers, name, self.producer, self.epoch, lane.sequence, tokens, acks=-1)
        lane.sequence += len(tokens)
        lane.queue.append(batch)
        self._pump(lane)

    def _pump(self, lane: Lane) -> None:
        """Sends what may be under way."""
        if lane.in_flight >= min(IN_FLIGHT_MAX, len(lane.queue)):
            return
        if lane.in_flight == 0:
            self._leaders[lane.name] = self.leader_of(lane.name)
        leader = self._leaders.get(lane.name, "")
        channel = self.channel_to(leader) if leader else None
        while channel is not None and lane.in_flight < min(IN_FLIGHT_MAX, len(lane.queue)):
            channel.send(self, lane.queue[lane.in_flight])
            lane.in_flight += 1
            lane.sent_at = self.world.now

    @property
    def _leaders(self) -> dict[TopicPartition, str]:
        return self.__dict__.setdefault("_leader_of", {})  # type: ignore[no-any-return]

    def _look(self) -> None:
        """Sends again what was not answered in time."""
        for lane in list(self.lanes.values()):
            if lane.in_flight and self.world.now - lane.sent_at > ANSWER_MS:
                self._again(lane)
            self._pump(lane)
        self.world.after(RETRY_MS + self.world.dice.randrange(30), self._look)

    def _again(self, lane: Lane) -> None:
        """Everything that is not acknowledged goes out again, in order, on a fresh connection."""
        leader = self._leaders.pop(lane.name, "")
        lane.in_flight = 0
        channel = self.channels.pop(leader, None)
        if channel is not None:
            channel.close(self)
            self.on_lost(leader)

    def on_lost(self, peer: str) -> None:
        for lane in self.lanes.values():
            if self._leaders.get(lane.name) == peer:
                lane.in_flight = 0

    def go_on(self) -> None:
        for lane in list(self.lanes.values()):
            self._pump(lane)

    def on_data(self, channel: Channel, data: object) -> None:
        assert isinstance(data, Produced)
        for lane in self.lanes.values():
            for place, batch in enumerate(lane.queue[: lane.in_flight]):
                if batch.number == data.number:
                    self._on_answer(lane, place, batch, data)
                    return

    def _on_answer(self, lane: Lane, place: int, batch: Produce, answer: Produced) -> None:
        if answer.error in (0, 46):
            # 46: it was taken once, and its place is forgotten. Everything before it was taken, too.
            if answer.error == 0:
                self.cluster.checker.on_answered(self.name, batch, answer)
            for early in lane.queue[: place + 1]:
                self.cluster.checker.on_done(early)
            del lane.queue[: place + 1]
            lane.in_flight -= place + 1
            self._pump(lane)
        elif answer.error == UNKNOWN_TOPIC and lane.name not in self.cluster.register.disk.partitions:
            del self.lanes[lane.name]
        else:
            self._again(lane)


class ConsumerNode(ClientNode):
    def __init__(self, cluster: LogCluster, name: str) -> None:
        super().__init__(cluster, name)
        self.positions: dict[TopicPartition, int] = {}
        self.world.after(self.world.dice.randrange(50), self._look)

    def _look(self) -> None:
        for name in list(self.cluster.register.disk.partitions):
            self._fetch(name)
        self.world.after(RETRY_MS + self.world.dice.randrange(60), self._look)

    def _fetch(self, name: TopicPartition) -> None:
        leader = self.leader_of(name)
        channel = self.channel_to(leader) if leader else None
        if channel is not None:
            channel.send(self, Fetch(name, self.positions.get(name, 0)))

    def on_data(self, channel: Channel, data: object) -> None:
        assert isinstance(data, Fetched)
        if data.error == OUT_OF_RANGE:
            self.positions[data.name] = data.start
        for batch in data.batches:
            place = batch.place
            position = self.positions.get(data.name, 0)
            if place.base_offset <= position < place.next_offset:
                self.cluster.checker.on_read(self.name, data.name, batch)
                self.positions[data.name] = place.next_offset
