"""The register's book of topics: their settings and the state of every partition, and what changed since it was saved.

Requests about topics are checked whole before anything is written; `dry` ones are only checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from octoloom.core import topic_admin
from octoloom.core.log_messages import (
    Admin,
    ConfigureTopic,
    DropTopic,
    GrowTopic,
    MakeTopic,
    PartitionState,
    TopicInfo,
    TopicPartition,
)
from octoloom.core.topic_admin import AdminRefused


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    partitions: int
    replicas: int
    in_sync_min: int


class TopicBook:
    def __init__(
        self,
        defaults: TopicDefaults,
        topics: Mapping[str, TopicInfo],
        partitions: Mapping[TopicPartition, PartitionState],
        count: int,
    ) -> None:
        self._defaults = defaults
        self.topics = dict(topics)
        self._states: dict[str, list[PartitionState]] = {topic: [] for topic in topics}
        for topic, number in sorted(partitions):
            self._states[topic].append(partitions[topic, number])
        self.count = count
        """How many topics there ever were: the number of the last one."""
        self.new_topics: dict[str, TopicInfo | None] = {}
        self.new_states: dict[TopicPartition, PartitionState | None] = {}

    def states(self) -> Iterator[tuple[TopicPartition, PartitionState]]:
        for topic, states in self._states.items():
            for number, state in enumerate(states):
                yield (topic, number), state

    def find(self, place: TopicPartition) -> PartitionState | None:
        states = self._states.get(place[0], [])
        return states[place[1]] if 0 <= place[1] < len(states) else None

    def state(self, place: TopicPartition) -> PartitionState:
        return self._states[place[0]][place[1]]

    def put(self, place: TopicPartition, state: PartitionState) -> None:
        """A new decision about a partition."""
        state = msgspec.structs.replace(state, version=self.state(place).version + 1)
        self._states[place[0]][place[1]] = self.new_states[place] = state

    def put_in_sync(self, place: TopicPartition, in_sync: list[str]) -> None:
        state = self.state(place)
        if in_sync != state.in_sync:
            self.put(place, msgspec.structs.replace(state, in_sync=in_sync))

    def on_admin(self, message: Admin, brokers: Mapping[str, str]) -> None:
        """Does what is asked, or raises `AdminRefused`. `brokers`: those that can take replicas, by name."""
        match message:
            case MakeTopic():
                self._make(message, brokers)
            case DropTopic():
                self._drop(message)
            case GrowTopic():
                self._grow(message, brokers)
            case ConfigureTopic():
                self._configure(message)

    def _make(self, message: MakeTopic, brokers: Mapping[str, str]) -> None:
        topic_admin.check_name(message.topic)
        if message.topic in self.topics:
            raise AdminRefused(topic_admin.TOPIC_EXISTS, f"the topic {message.topic} exists already")
        partitions = message.partitions or self._defaults.partitions
        replicas = message.replicas or max(1, min(self._defaults.replicas, len(brokers)))
        in_sync_min = self._defaults.in_sync_min or (2 if replicas >= 3 else 1)
        config = {"min.insync.replicas": str(max(1, min(in_sync_min, replicas))), **message.config}
        topic_admin.check_config(config)
        topic_admin.check_size(partitions, replicas, len(brokers))
        if len(self.topics) >= topic_admin.TOPICS_MAX:
            detail = f"there are {topic_admin.TOPICS_MAX} topics already"
            raise AdminRefused(topic_admin.POLICY_VIOLATION, detail)
        self._check_room(partitions)
        if message.dry:
            return
        self.count += 1
        self.topics[message.topic] = self.new_topics[message.topic] = TopicInfo(message.topic, self.count, config)
        self._states[message.topic] = []
        self._add_partitions(message.topic, partitions, replicas, brokers)

    def _check_room(self, more: int) -> None:
        held = sum(len(states) for states in self._states.values())
        if held + more > topic_admin.PARTITIONS_ALL_MAX:
            detail = f"there are {held} partitions, and {topic_admin.PARTITIONS_ALL_MAX} at most: delete some first"
            raise AdminRefused(topic_admin.POLICY_VIOLATION, detail)

    def _add_partitions(self, topic: str, count: int, replicas: int, brokers: Mapping[str, str]) -> None:
        states = self._states[topic]
        first = self.topics[topic].number + len(states)
        for names in topic_admin.assign(sorted(brokers), count, replicas, first):
            members = [brokers[name] for name in names]
            # An empty log is in sync wherever it is.
            state = PartitionState(members[0], 1, members, names, 1)
            self.new_states[topic, len(states)] = state
            states.append(state)

    def _drop(self, message: DropTopic) -> None:
        self._known(message.topic)
        for number in range(len(self._states.pop(message.topic))):
            self.new_states[message.topic, number] = None
        del self.topics[message.topic]
        self.new_topics[message.topic] = None

    def _grow(self, message: GrowTopic, brokers: Mapping[str, str]) -> None:
        self._known(message.topic)
        states = self._states[message.topic]
        more = message.partitions - len(states)
        if more <= 0:
            detail = f"{message.topic} has {len(states)} partitions already: ask for more than that"
            raise AdminRefused(topic_admin.INVALID_PARTITIONS, detail)
        replicas = len(states[0].replicas)
        topic_admin.check_size(message.partitions, replicas, len(brokers))
        self._check_room(more)
        if not message.dry:
            self._add_partitions(message.topic, more, replicas, brokers)

    def _configure(self, message: ConfigureTopic) -> None:
        info = self._known(message.topic)
        topic_admin.check_config(message.put)
        config = {key: value for key, value in {**info.config, **message.put}.items() if key not in message.unset}
        if not message.dry:
            info = msgspec.structs.replace(info, config=config)
            self.topics[message.topic] = self.new_topics[message.topic] = info

    def _known(self, topic: str) -> TopicInfo:
        info = self.topics.get(topic)
        if info is None:
            raise AdminRefused(topic_admin.UNKNOWN_TOPIC, f"there is no topic {topic}")
        return info


def changed(states: Mapping[TopicPartition, PartitionState | None]) -> Sequence[tuple[str, int, PartitionState]]:
    return [(*place, state) for place, state in states.items() if state is not None]
