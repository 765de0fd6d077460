"""The directory, told all at once and by news: both come to the same."""

from __future__ import annotations

from octoloom.core.log_messages import BrokerAddress, LogDirectory, LogNews, PartitionState, TopicInfo
from octoloom.runtime.broker_directory import Directory


def broker(name: str, number: int) -> BrokerAddress:
    return BrokerAddress(name, "host", 9000 + number, "disk", id=number)


B1, B2 = broker("b1#1", 1), broker("b2#1", 2)
STATE = PartitionState("b1#1", 1, ["b1#1", "b2#1"], ["b1", "b2", "b9"], 1)


def filled() -> Directory:
    directory = Directory()
    brokers = {"b1#1": B1, "b2#1": B2}
    topics = {"t": TopicInfo("t", 1, {})}
    directory.on_directory(LogDirectory(4, brokers, topics, [("t", 1, STATE), ("t", 0, STATE)]))
    return directory


def test_it_answers_what_it_was_told() -> None:
    directory = filled()
    assert directory.revision == 4
    assert directory.leader(("t", 0)) == B1
    assert list(directory.partitions("t")) == [0, 1]
    assert directory.state(("t", 2)) is directory.state(("u", 0)) is None
    assert directory.leader(("u", 0)) is None
    assert directory.partitions("u") == {}
    assert directory.ids_of(STATE.in_sync) == [1, 2]
    assert directory.ids_of(STATE.replicas, named=True) == [1, 2]


def test_news_change_it() -> None:
    directory = filled()
    before = directory.changes
    moved = PartitionState("b2#1", 2, ["b2#1"], ["b1", "b2"], 2)
    directory.on_news(LogNews(5, {"b2#1": B2}, {"u": TopicInfo("u", 2, {})}, [("t", 0, moved), ("u", 0, STATE)]))
    assert directory.changes > before
    assert directory.leader(("t", 0)) == B2
    assert directory.leader(("t", 1)) is None  # whoever leads it is gone
    assert directory.state(("u", 0)) == STATE
    assert directory.ids_of(["b1#1"]) == [1]  # one who is gone keeps its number


def test_a_deleted_topic_is_forgotten_and_one_made_again_is_new() -> None:
    directory = filled()
    directory.on_news(LogNews(5, None, {"t": TopicInfo("t", 7, {})}, [("t", 0, STATE)]))
    assert list(directory.partitions("t")) == [0]
    directory.on_news(LogNews(6, None, {"t": None}))
    assert directory.topics == {}
    assert directory.state(("t", 0)) is None
    directory.on_news(LogNews(7, None, {}, [("t", 0, STATE)]))
    assert directory.state(("t", 0)) is None


def test_new_settings_keep_the_partitions() -> None:
    directory = filled()
    directory.on_news(LogNews(5, None, {"t": TopicInfo("t", 1, {"retention.ms": "5"})}))
    assert list(directory.partitions("t")) == [0, 1]
    assert directory.topics["t"].config == {"retention.ms": "5"}
