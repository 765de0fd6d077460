"""Reading the topics from a consumer's metadata, also from what the clients themselves write."""

from __future__ import annotations

import pytest
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor  # type: ignore[import-untyped]
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.consumer_subscription import same_subscription, subscribed_topics
from tests.core.consumer_desk import subscription


@pytest.mark.parametrize("assignor", [RoundRobinPartitionAssignor, StickyPartitionAssignor])
def test_what_a_real_client_writes_is_understood(assignor: type) -> None:
    metadata = assignor.metadata(["b", "a", "größe"]).encode()  # type: ignore[attr-defined]
    assert subscribed_topics(metadata) == ["a", "b", "größe"]


@given(st.lists(st.text(max_size=9), max_size=5), st.binary(max_size=9))
def test_topics_are_read_back(topics: list[str], owned: bytes) -> None:
    names = [topic.encode() for topic in topics]
    text = b"".join(len(name).to_bytes(2, "big") + name for name in names)
    metadata = b"\0\3" + len(names).to_bytes(4, "big") + text + owned
    assert subscribed_topics(metadata) == sorted(topics)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(metadata: bytes) -> None:
    topics = subscribed_topics(metadata)
    assert topics is None or all(isinstance(topic, str) for topic in topics)


def test_metadata_that_breaks_off_is_none() -> None:
    whole = subscription("first", "second")
    assert subscribed_topics(whole) == ["first", "second"]
    for end in range(len(whole) - 4):
        assert subscribed_topics(whole[:end]) is None
    assert subscribed_topics(b"\0\1\0\0\0\1\xff\xff") is None
    assert subscribed_topics(b"\0\1\0\0\0\1\0\1\xff") is None


def test_what_a_consumer_owned_does_not_matter() -> None:
    assert same_subscription("consumer", subscription("a", "b"), subscription("b", "a", owned=b"123"))
    assert not same_subscription("consumer", subscription("a", "b"), subscription("a"))
    assert same_subscription("connect", b"x", b"x")
    assert not same_subscription("connect", subscription("a"), subscription("a", owned=b"1"))
    assert not same_subscription("consumer", b"x", b"y")
