"""The register's book of topics: requests are done whole or not at all, and what changed is told once."""

from __future__ import annotations

import pytest

from octoloom.core import topic_admin
from octoloom.core.log_messages import Admin, ConfigureTopic, DropTopic, GrowTopic, MakeTopic, PartitionState, TopicInfo
from octoloom.core.topic_admin import AdminRefused
from octoloom.core.topic_book import TopicBook, TopicDefaults, changed

BROKERS = {"a": "a#3", "b": "b#1", "c": "c#7"}


def book(*messages: Admin, partitions: int = 1, replicas: int = 3, in_sync_min: int = 0) -> TopicBook:
    made = TopicBook(TopicDefaults(partitions, replicas, in_sync_min), {}, {}, 0)
    for message in messages:
        made.on_admin(message, BROKERS)
    return made


def saved(made: TopicBook) -> TopicBook:
    """What comes back after a restart."""
    return TopicBook(TopicDefaults(1, 3, 0), made.topics, dict(made.states()), made.count)


def everything(made: TopicBook) -> tuple[object, ...]:
    return dict(made.topics), dict(made.states()), made.count, dict(made.new_topics), dict(made.new_states)


def test_a_new_topic_is_in_sync_wherever_it_is_and_led_by_its_first_replica() -> None:
    made = book(MakeTopic(1, "moves", partitions=3, replicas=2))
    assert list(made.states()) == [
        (("moves", 0), PartitionState("b#1", 1, ["b#1", "c#7"], ["b", "c"], 1)),
        (("moves", 1), PartitionState("c#7", 1, ["c#7", "a#3"], ["c", "a"], 1)),
        (("moves", 2), PartitionState("a#3", 1, ["a#3", "b#1"], ["a", "b"], 1)),
    ]
    assert made.new_states == dict(made.states())
    assert made.new_topics == made.topics == {"moves": TopicInfo("moves", 1, {"min.insync.replicas": "1"})}


@pytest.mark.parametrize(
    ("brokers", "replicas", "default_min", "config", "expected"),
    [
        (3, 0, 0, {}, (3, "2")),
        (2, 0, 0, {}, (2, "1")),
        (1, 0, 0, {}, (1, "1")),
        (3, 1, 0, {}, (1, "1")),
        (3, 3, 3, {}, (3, "3")),
        (3, 2, 3, {}, (2, "2")),
        (3, 3, 0, {"min.insync.replicas": "1"}, (3, "1")),
    ],
)
def test_what_is_not_said_has_a_default_that_fits_the_cluster(
    brokers: int, replicas: int, default_min: int, config: dict[str, str], expected: tuple[int, str]
) -> None:
    made = TopicBook(TopicDefaults(1, 3, default_min), {}, {}, 0)
    there = dict(list(BROKERS.items())[:brokers])
    made.on_admin(MakeTopic(1, "moves", replicas=replicas, config=config), there)
    state = made.state(("moves", 0))
    assert (len(state.replicas), made.topics["moves"].config["min.insync.replicas"]) == expected


def test_topics_begin_at_different_brokers() -> None:
    made = book(*(MakeTopic(1, f"t{number}", replicas=1) for number in range(3)))
    assert [state.leader for _, state in made.states()] == ["b#1", "c#7", "a#3"]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (MakeTopic(1, "moves"), topic_admin.TOPIC_EXISTS),
        (MakeTopic(1, "a b"), topic_admin.INVALID_TOPIC),
        (MakeTopic(1, "x", partitions=-1), topic_admin.INVALID_PARTITIONS),
        (MakeTopic(1, "x", replicas=4), topic_admin.INVALID_REPLICATION),
        (MakeTopic(1, "x", replicas=-1), topic_admin.INVALID_REPLICATION),
        (MakeTopic(1, "x", config={"retention.ms": "soon"}), topic_admin.INVALID_CONFIG),
        (DropTopic(1, "x"), topic_admin.UNKNOWN_TOPIC),
        (GrowTopic(1, "x", 5), topic_admin.UNKNOWN_TOPIC),
        (GrowTopic(1, "moves", 2), topic_admin.INVALID_PARTITIONS),
        (GrowTopic(1, "moves", 1), topic_admin.INVALID_PARTITIONS),
        (GrowTopic(1, "moves", topic_admin.PARTITIONS_MAX + 1), topic_admin.INVALID_PARTITIONS),
        (ConfigureTopic(1, "x", {}), topic_admin.UNKNOWN_TOPIC),
        (ConfigureTopic(1, "moves", {"retention.ms": "5", "colour": "red"}), topic_admin.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_done_changes_nothing(message: Admin, error: int) -> None:
    made = book(MakeTopic(1, "moves", partitions=2))
    before = everything(made)
    with pytest.raises(AdminRefused) as refused:
        made.on_admin(message, BROKERS)
    assert refused.value.error == error
    assert everything(made) == before


@pytest.mark.parametrize(
    "message",
    [
        MakeTopic(1, "x", dry=True),
        GrowTopic(1, "moves", 5, dry=True),
        ConfigureTopic(1, "moves", {"retention.ms": "5"}, dry=True),
    ],
)
def test_a_dry_request_is_only_checked(message: Admin) -> None:
    made = book(MakeTopic(1, "moves"))
    before = everything(made)
    made.on_admin(message, BROKERS)
    assert everything(made) == before


def test_the_number_of_topics_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_admin, "TOPICS_MAX", 2)
    made = book(MakeTopic(1, "a"), MakeTopic(1, "b"))
    with pytest.raises(AdminRefused, match="2 topics"):
        made.on_admin(MakeTopic(1, "c"), BROKERS)


def test_a_topic_grows_at_its_end() -> None:
    made = book(MakeTopic(1, "moves", partitions=2, replicas=2))
    before = dict(made.states())
    made.new_states.clear()
    made.on_admin(GrowTopic(1, "moves", 4), BROKERS)
    assert list(made.new_states) == [("moves", 2), ("moves", 3)]
    assert {place: state for place, state in made.states() if place in before} == before
    assert [len(state.replicas) for _, state in made.states()] == [2, 2, 2, 2]


def test_a_topic_does_not_grow_where_brokers_are_missing_for_its_replicas() -> None:
    made = book(MakeTopic(1, "moves", replicas=3))
    with pytest.raises(AdminRefused, match="3 replicas need as many brokers, and 2 are there"):
        made.on_admin(GrowTopic(1, "moves", 4), {"a": "a#3", "b": "b#1"})


def test_a_dropped_topic_is_gone_and_one_of_its_name_is_another() -> None:
    made = book(MakeTopic(1, "moves", partitions=2))
    made.new_states.clear()
    made.on_admin(DropTopic(2, "moves"), BROKERS)
    assert (made.topics, list(made.states())) == ({}, [])
    assert made.new_topics == {"moves": None}
    assert made.new_states == {("moves", 0): None, ("moves", 1): None}
    assert changed(made.new_states) == []
    made.on_admin(MakeTopic(3, "moves"), BROKERS)
    assert made.topics["moves"].number == 2
    assert made.new_states[("moves", 1)] is None
    assert made.find(("moves", 1)) is None


def test_settings_are_put_and_taken_back() -> None:
    made = book(MakeTopic(1, "moves", config={"retention.ms": "5"}))
    made.on_admin(ConfigureTopic(1, "moves", {"segment.bytes": "20000"}, ["retention.ms", "unheard.of"]), BROKERS)
    assert made.topics["moves"].config == {"min.insync.replicas": "2", "segment.bytes": "20000"}
    assert made.new_topics == made.topics


def test_each_decision_has_the_next_version_and_one_that_changes_nothing_is_none() -> None:
    made = book(MakeTopic(1, "moves"))
    made.new_states.clear()
    place = ("moves", 0)
    made.put_in_sync(place, list(made.state(place).in_sync))
    assert made.new_states == {}
    made.put_in_sync(place, ["b#1"])
    assert made.new_states == {place: made.state(place)}
    assert (made.state(place).version, made.state(place).in_sync) == (2, ["b#1"])
    assert changed(made.new_states) == [("moves", 0, made.state(place))]


@pytest.mark.parametrize("place", [("moves", -1), ("moves", 2), ("nowhere", 0)])
def test_a_place_that_is_not_there_is_not_found(place: tuple[str, int]) -> None:
    assert book(MakeTopic(1, "moves", partitions=2)).find(place) is None


def test_a_saved_book_is_the_same_with_its_partitions_in_order() -> None:
    made = book(MakeTopic(1, "moves", partitions=12), MakeTopic(1, "chat"), DropTopic(1, "chat"))
    again = saved(made)
    assert dict(again.states()) == dict(made.states())
    assert (again.topics, again.count) == (made.topics, 2)
    assert (again.new_topics, again.new_states) == ({}, {})
    assert [place[1] for place, _ in again.states()] == list(range(12))


def test_all_topics_together_have_a_bound() -> None:
    made = book()
    for number in range(topic_admin.PARTITIONS_ALL_MAX // topic_admin.PARTITIONS_MAX):
        made.on_admin(MakeTopic(1, f"t{number}", partitions=topic_admin.PARTITIONS_MAX, replicas=1), BROKERS)
    before = made.count
    with pytest.raises(AdminRefused, match="delete some first"):
        made.on_admin(MakeTopic(1, "one-more", replicas=1), BROKERS)
    assert made.count == before
    made.on_admin(DropTopic(1, "t0"), BROKERS)
    made.on_admin(MakeTopic(1, "one-more", replicas=1), BROKERS)


def test_topics_do_not_grow_beyond_that_bound_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_admin, "PARTITIONS_ALL_MAX", 5)
    made = book(MakeTopic(1, "moves", partitions=2, replicas=1), MakeTopic(1, "chat", partitions=2, replicas=1))
    with pytest.raises(AdminRefused, match="delete some first"):
        made.on_admin(GrowTopic(1, "moves", partitions=4), BROKERS)
    made.on_admin(GrowTopic(1, "moves", partitions=3), BROKERS)
    assert len(dict(made.states())) == 5
