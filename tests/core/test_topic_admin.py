"""What may be asked of topics: names, sizes, settings, and how replicas are spread."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core import topic_admin
from octoloom.core.topic_admin import NAME_MAX, PARTITIONS_MAX, SETTINGS, AdminRefused


@pytest.mark.parametrize("name", ["a", "moves", "A.b-c_9", "__consumer_offsets", "...", "x" * NAME_MAX])
def test_a_good_name(name: str) -> None:
    topic_admin.check_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "../a", "ü", "a\n", "a\0", "moves#1", "x" * (NAME_MAX + 1)]
)
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(AdminRefused) as refused:
        topic_admin.check_name(name)
    assert refused.value.error == topic_admin.INVALID_TOPIC
    assert "a topic's name has" in str(refused.value)


@pytest.mark.parametrize(
    ("partitions", "replicas", "brokers", "error"),
    [
        (1, 1, 1, 0),
        (PARTITIONS_MAX, 3, 3, 0),
        (0, 1, 1, topic_admin.INVALID_PARTITIONS),
        (-1, 1, 1, topic_admin.INVALID_PARTITIONS),
        (PARTITIONS_MAX + 1, 1, 1, topic_admin.INVALID_PARTITIONS),
        (1, 0, 1, topic_admin.INVALID_REPLICATION),
        (1, 2, 1, topic_admin.INVALID_REPLICATION),
        (1, 1, 0, topic_admin.INVALID_REPLICATION),
    ],
)
def test_sizes_have_bounds(partitions: int, replicas: int, brokers: int, error: int) -> None:
    if not error:
        topic_admin.check_size(partitions, replicas, brokers)
        return
    with pytest.raises(AdminRefused) as refused:
        topic_admin.check_size(partitions, replicas, brokers)
    assert refused.value.error == error


@pytest.mark.parametrize(
    "config",
    [
        {},
        {key: setting.default for key, setting in SETTINGS.items()},
        {key: str(setting.least) for key, setting in SETTINGS.items()},
        {key: str(setting.most) for key, setting in SETTINGS.items()},
        {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime", "compression.type": "producer"},
    ],
)
def test_good_settings(config: dict[str, str]) -> None:
    topic_admin.check_config(config)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("no.such.setting", "1"),
        ("retention.ms", "week"),
        ("retention.ms", ""),
        ("retention.ms", "-2"),
        ("retention.ms", "1e3"),
        ("retention.ms", " 1"),
        ("retention.ms", "²"),
        ("retention.ms", "٣"),
        ("retention.ms", "9" * 5000),
        ("min.insync.replicas", "0"),
        ("segment.bytes", str(2**31)),
        ("cleanup.policy", "compact"),
        ("compression.type", "gzip"),
    ],
)
def test_a_bad_setting_is_refused(key: str, value: str) -> None:
    with pytest.raises(AdminRefused) as refused:
        topic_admin.check_config({"retention.ms": "5", key: value})
    assert refused.value.error == topic_admin.INVALID_CONFIG
    assert key in refused.value.detail


clusters = st.integers(1, 7).flatmap(lambda count: st.tuples(st.just(count), st.integers(1, count)))


@given(clusters, st.integers(1, 60), st.integers(0, 20))
def test_replicas_are_distinct_and_everybody_leads_and_holds_about_as_many(
    cluster: tuple[int, int], partitions: int, first: int
) -> None:
    count, replicas = cluster
    brokers = [f"b{number}" for number in range(count)]
    places = topic_admin.assign(brokers, partitions, replicas, first)
    assert [len(set(place)) for place in places] == [replicas] * partitions
    leads = Counter(place[0] for place in places)
    assert max(leads.values()) - min(leads[broker] for broker in brokers) <= 1
    assert places[0][0] == brokers[first % count]
    # In whole rounds, in which everybody leads once, everybody holds the same.
    rounds = places[: partitions // count * count]
    assert len(set(Counter(broker for place in rounds for broker in place).values())) <= 1


@pytest.mark.parametrize(
    ("brokers", "partitions", "replicas", "first", "places"),
    [
        ("a", 3, 1, 5, ["a", "a", "a"]),
        ("ab", 3, 2, 1, ["ba", "ab", "ba"]),
        ("abc", 7, 2, 1, ["bc", "ca", "ab", "ba", "cb", "ac", "bc"]),
        ("abcd", 5, 3, 2, ["cda", "dab", "abc", "bcd", "cab"]),
    ],
)
def test_partitions_begin_at_one_broker_after_the_other(
    brokers: str, partitions: int, replicas: int, first: int, places: list[str]
) -> None:
    assert ["".join(place) for place in topic_admin.assign(brokers, partitions, replicas, first)] == places


def test_when_a_broker_dies_its_partitions_go_to_different_ones() -> None:
    """Each round shifts the followers: otherwise all that one led would fall to its neighbour."""
    places = topic_admin.assign(["a", "b", "c", "d"], 12, 2, 0)
    assert [second for first, second in places if first == "a"] == ["b", "c", "d"]
