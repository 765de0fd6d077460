"""The log's directory as it was told last, and what Kafka clients are told of it.

The register tells the whole directory once and then only what changed. Brokers keep it to answer Metadata; so does
whoever looks for a leader.

A client knows a broker by a number, which belongs to the broker's name. A name whose process is not there has a number
only as long as somebody here has seen it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from octoloom.core.errors import ProtocolError
from octoloom.core.log_messages import (
    BrokerAddress,
    LogDirectory,
    LogNews,
    PartitionState,
    TopicInfo,
    TopicPartition,
)
from octoloom.core.roster import name_of
from octoloom.core.topic_admin import OFFSETS_TOPIC
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.metadata import BrokerEntry, PartitionEntry, TopicEntry

CLUSTER_ID = "octoloom"
NO_BROKER = -1


class LogMirror:
    def __init__(self) -> None:
        self.revision = -1
        self.brokers: dict[str, BrokerAddress] = {}
        """Those that the register takes to be alive, by incarnation."""
        self.topics: dict[str, TopicInfo] = {}
        self._states: dict[str, list[PartitionState]] = {}
        self._ids: dict[str, int] = {}
        self._there: frozenset[str] = frozenset()
        """The names of those that are alive."""

    def on_directory(self, directory: LogDirectory) -> None:
        self.revision = directory.revision
        self.topics = dict(directory.topics)
        self._states = {topic: [] for topic in self.topics}
        self._on_brokers(directory.brokers)
        for topic, number, state in sorted(directory.partitions, key=lambda entry: entry[:2]):
            self._put((topic, number), state)

    def on_news(self, news: LogNews) -> None:
        self.revision = news.revision
        if news.brokers is not None:
            self._on_brokers(news.brokers)
        for topic, info in news.topics.items():
            known = self.topics.get(topic)
            if info is None or known is None or known.number != info.number:
                self.topics.pop(topic, None)
                self._states[topic] = []
            if info is None:
                del self._states[topic]
            else:
                self.topics[topic] = info
        for topic, number, state in news.partitions:
            self._put((topic, number), state)

    def _on_brokers(self, brokers: dict[str, BrokerAddress]) -> None:
        self.brokers = dict(brokers)
        self._there = frozenset(name_of(broker) for broker in brokers)
        self._ids.update((name_of(broker), address.id) for broker, address in brokers.items())

    def _put(self, place: TopicPartition, state: PartitionState) -> None:
        topic, number = place
        states = self._states.get(topic)
        if states is None or number > len(states):
            raise ProtocolError("gap", f"told of {topic}-{number}, but not of what comes before it")
        states[number : number + 1] = [state]

    # Questions.

    def states(self, topic: str) -> Sequence[PartitionState]:
        """Of all partitions of a topic, in their order; none if there is no such topic."""
        return self._states.get(topic, ())

    def state(self, place: TopicPartition) -> PartitionState | None:
        states = self.states(place[0])
        return states[place[1]] if 0 <= place[1] < len(states) else None

    def leader(self, place: TopicPartition) -> BrokerAddress | None:
        """Where the partition's leader listens, if it has one that is alive."""
        state = self.state(place)
        return self.brokers.get(state.leader) if state is not None else None

    def number_of(self, name: str) -> int:
        """The number of the broker of this name, `NO_BROKER` if it is not known."""
        return self._ids.get(name, NO_BROKER)

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionState]]:
        for topic, states in self._states.items():
            for number, state in enumerate(states):
                yield (topic, number), state

    # For Kafka clients.

    def broker_entries(self) -> list[BrokerEntry]:
        """All that are alive, by number."""
        return sorted(BrokerEntry(address.id, address.host, address.port) for address in self.brokers.values())

    def controller(self) -> int:
        """Any broker passes on what is asked of a controller."""
        return min((address.id for address in self.brokers.values()), default=NO_BROKER)

    def topic_entry(self, topic: str) -> TopicEntry:
        info = self.topics.get(topic)
        if info is None:
            return TopicEntry(topic, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = [self._partition_entry(number, state) for number, state in enumerate(self.states(topic))]
        return TopicEntry(topic, partitions, 0, topic_id(info), topic == OFFSETS_TOPIC)

    def topic_entries(self) -> list[TopicEntry]:
        return [self.topic_entry(topic) for topic in self.topics]

    def _partition_entry(self, number: int, state: PartitionState) -> PartitionEntry:
        leader = self.brokers.get(state.leader)
        known = [name for name in state.replicas if name in self._ids]
        replicas = [self._ids[name] for name in known]
        offline = [self._ids[name] for name in known if name not in self._there]
        in_sync = [self.brokers[member].id for member in state.in_sync if member in self.brokers]
        if leader is None:
            error = ErrorCode.LEADER_NOT_AVAILABLE
            return PartitionEntry(number, NO_BROKER, state.epoch, replicas, in_sync, offline, error)
        return PartitionEntry(number, leader.id, state.epoch, replicas, in_sync, offline)


def topic_id(info: TopicInfo) -> bytes:
    """Sixteen bytes that tell this topic from every other of the cluster, deleted ones included."""
    return b"octoloom" + info.number.to_bytes(8, "big")
