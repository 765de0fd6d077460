"""What a broker knows of all brokers, topics and partitions, kept as the register tells it.

The core remembers only the replicas that it has. Clients ask any broker about everything: who leads what, who is
there, how a topic is configured. `revision` rises with every change, so whatever is made of this can be kept until
then.
"""

from __future__ import annotations

from octoloom.core.log_messages import BrokerAddress, LogDirectory, LogNews, PartitionState, TopicInfo, TopicPartition
from octoloom.core.roster import name_of


class Directory:
    def __init__(self) -> None:
        self.revision = -1
        self.changes = 0
        """Rises with everything that is told here."""
        self.brokers: dict[str, BrokerAddress] = {}
        """By incarnation; those that the register takes to be alive."""
        self.topics: dict[str, TopicInfo] = {}
        self.ids: dict[str, int] = {}
        """The number that clients know a broker's name by. Those who are gone keep theirs."""
        self._states: dict[str, dict[int, PartitionState]] = {}

    def on_directory(self, directory: LogDirectory) -> None:
        self.revision = directory.revision
        self.changes += 1
        self.topics = dict(directory.topics)
        self._states = {topic: {} for topic in self.topics}
        self.ids.update(directory.ids)
        self._on_brokers(directory.brokers)
        self._on_states(directory.partitions)

    def on_news(self, news: LogNews) -> None:
        self.revision = news.revision
        self.changes += 1
        if news.brokers is not None:
            self._on_brokers(news.brokers)
        for topic, info in news.topics.items():
            known = self.topics.get(topic)
            if info is None or (known is not None and known.number != info.number):
                self.topics.pop(topic, None)
                self._states.pop(topic, None)
            if info is not None:
                self.topics[topic] = info
                self._states.setdefault(topic, {})
        self._on_states(news.partitions)

    def _on_brokers(self, brokers: dict[str, BrokerAddress]) -> None:
        self.brokers = dict(brokers)
        for broker, address in brokers.items():
            self.ids[name_of(broker)] = address.id

    def _on_states(self, states: list[tuple[str, int, PartitionState]]) -> None:
        for topic, number, state in states:
            if topic in self._states:
                self._states[topic][number] = state

    # Questions.

    def state(self, name: TopicPartition) -> PartitionState | None:
        return self._states.get(name[0], {}).get(name[1])

    def partitions(self, topic: str) -> dict[int, PartitionState]:
        """By number, rising; none for a topic that is not known."""
        return dict(sorted(self._states.get(topic, {}).items()))

    def leader(self, name: TopicPartition) -> BrokerAddress | None:
        """Who leads, if somebody does and is alive."""
        state = self.state(name)
        return self.brokers.get(state.leader) if state is not None else None

    def ids_of(self, brokers: list[str], named: bool = False) -> list[int]:
        """The numbers of these incarnations, or (`named`) of these names; of those that were ever seen."""
        names = brokers if named else [name_of(broker) for broker in brokers]
        return [self.ids[name] for name in names if name in self.ids]
