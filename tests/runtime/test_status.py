"""What is told of brokers and topics; links and registers are in `test_supervisor.py`."""

from __future__ import annotations

import asyncio

from octoloom.core.log_messages import BrokerAddress, LogDirectory, PartitionState, TopicInfo
from octoloom.runtime.status import Topics, _of_broker, _topics

ALL = ["a", "b", "c"]


def directory(*partitions: PartitionState) -> LogDirectory:
    """a and b are there, c is gone."""
    brokers = {f"{name}#1": BrokerAddress(f"{name}#1", "127.0.0.1", 1, "disk") for name in ("a", "b")}
    states = [("moves", number, state) for number, state in enumerate(partitions)]
    return LogDirectory(7, brokers, {"moves": TopicInfo("moves", 1, {})}, states)


def test_topics_that_are_well() -> None:
    told = _topics(
        directory(PartitionState("a#1", 1, ["a#1", "b#1"], ["a", "b"]), PartitionState("b#1", 1, ["b#1"], ["b"]))
    )
    assert told == Topics(topics=1, partitions=2, leaderless=0, shrunk=0)


def test_a_leader_that_is_gone_and_sets_that_are_smaller() -> None:
    told = _topics(
        directory(
            PartitionState("a#1", 2, ["a#1", "b#1"], ALL),
            PartitionState("c#1", 1, ["c#1", "a#1", "b#1"], ALL),
            PartitionState("", 3, [], ALL),
            PartitionState("a#1", 1, ["a#1", "b#1"], ["a", "b"]),
        )
    )
    assert told == Topics(topics=1, partitions=4, leaderless=2, shrunk=3)


def test_a_broker_that_does_not_answer_is_silent_whatever_the_register_believes() -> None:
    log = directory(PartitionState("a#1", 1, ["a#1", "b#1"], ["a", "b"]), PartitionState("b#1", 1, ["b#1"], ["b"]))
    process = asyncio.run(_of_broker(log.brokers["b#1"], log))
    assert (process.role, process.state, process.id) == ("silent", "silent", "b#1")
    assert (process.leaders, process.partitions) == (1, 2)
