"""The register's memory of brokers and topics: one row for each thing, in tables of the register's file.

A decision about a thousand partitions writes a thousand small rows, one about a single partition writes one. A row that
is missing leaves a gap that `load` finds.
"""

from __future__ import annotations

from collections.abc import Sequence

from octoloom.core.errors import StoreError
from octoloom.core.log_messages import BrokerAddress, PartitionState, TopicInfo
from octoloom.core.log_saved import Counters, Identity, LogSaved, Persist
from octoloom.storage.checked_tables import CheckedTables

TABLES = ("log_counters", "log_identities", "log_brokers", "log_topics", "log_partitions")


class TopicTables(CheckedTables):
    TABLES = TABLES

    def save(self, steps: Sequence[Persist]) -> None:
        """Applies these, in order."""
        for step in steps:
            self._put("log_counters", [(("", 0), step.counters)])
            self._put("log_identities", (((name, 0), body) for name, body in step.identities.items()))
            if step.brokers is not None:
                self._database.execute("DELETE FROM log_brokers")
                self._put("log_brokers", (((name, 0), body) for name, body in step.brokers.items()))
            self._put("log_topics", (((name, 0), body) for name, body in step.topics.items()))
            self._put("log_partitions", step.partitions.items())

    def load(self) -> LogSaved | None:
        """All of it, or None if nothing was ever saved. Raises `StoreError` if it does not fit together."""
        saved = LogSaved(
            next((body for _, body in self._rows("log_counters", Counters)), Counters()),
            {name: body for (name, _), body in self._rows("log_identities", Identity)},
            {name: body for (name, _), body in self._rows("log_brokers", BrokerAddress)},
            {name: body for (name, _), body in self._rows("log_topics", TopicInfo)},
            dict(self._rows("log_partitions", PartitionState)),
        )
        _check(saved)
        return saved if saved.counters != Counters() else None


def _check(saved: LogSaved) -> None:
    """Every topic has its partitions, every partition its topic, and the counters know of all of them."""
    counts = dict.fromkeys(saved.topics, 0)
    for topic, _ in saved.partitions:
        if topic not in counts:
            raise StoreError(f"there are partitions of {topic}, but no topic of that name")
        counts[topic] += 1
    for topic, count in counts.items():
        if not count or any((topic, number) not in saved.partitions for number in range(count)):
            raise StoreError(f"{topic} lacks a partition")
    newest = max((info.number for info in saved.topics.values()), default=0)
    if saved.counters.topics < newest or (saved.brokers and not saved.counters.revision):
        raise StoreError("the counters are older than the rest")
