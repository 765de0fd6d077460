"""What members of a consumer group tell each other, held against kio's schemas."""

from __future__ import annotations

import contextlib
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment as Assignment
from kio.schema.consumer_protocol_assignment.v0.data import TopicPartition as Assigned
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription as Subscription
from kio.schema.consumer_protocol_subscription.v1.data import ConsumerProtocolSubscription as LaterSubscription
from kio.schema.consumer_protocol_subscription.v1.data import TopicPartition as Owned
from kio.schema.types import TopicName
from kio.serial import entity_writer
from kio.static.primitive import i32

from octoloom.core.errors import ProtocolError
from octoloom.wire.kafka.consumer_protocol import (
    encode_assignment,
    encode_subscription,
    parse_assignment,
    parse_subscription,
)

names = st.text(st.characters(codec="utf-8"), max_size=20)


def written(entity: Any) -> bytes:
    body = BytesIO()
    entity_writer(type(entity))(body, entity)
    return int(entity.__version__).to_bytes(2, "big") + body.getvalue()


@given(st.lists(names, max_size=5))
def test_a_subscription_is_as_others_write_it(topics: list[str]) -> None:
    raw = encode_subscription(topics)
    assert raw == written(Subscription(topics=tuple(topics), user_data=None))
    assert parse_subscription(raw) == topics


def test_what_later_versions_add_is_left_alone() -> None:
    owned = (Owned(topic=TopicName("a"), partitions=(i32(3),)),)
    later = LaterSubscription(topics=("a", "b"), user_data=b"mine", owned_partitions=owned)
    assert parse_subscription(written(later)) == ["a", "b"]


@given(st.dictionaries(names, st.lists(st.integers(0, 2**31 - 1), max_size=5), max_size=5))
def test_an_assignment_is_as_others_write_it(places: dict[str, list[int]]) -> None:
    raw = encode_assignment(places)
    parts = tuple(
        Assigned(topic=TopicName(topic), partitions=tuple(map(i32, numbers))) for topic, numbers in places.items()
    )
    assert raw == written(Assignment(assigned_partitions=parts, user_data=None))
    assert parse_assignment(raw) == [(topic, number) for topic, numbers in places.items() for number in numbers]


def test_nothing_is_an_assignment_of_nothing() -> None:
    assert parse_assignment(b"") == []


@given(st.binary(max_size=40))
def test_nonsense_is_refused(raw: bytes) -> None:
    for parse in (parse_subscription, parse_assignment):
        with contextlib.suppress(ProtocolError):
            parse(raw)


@pytest.mark.parametrize("size", range(1, 20))
def test_what_is_cut_off_is_refused(size: int) -> None:
    subscription, assignment = encode_subscription(["orders", "moves"]), encode_assignment({"orders": [1, 2]})
    with pytest.raises(ProtocolError):
        parse_subscription(subscription[:size])
    with pytest.raises(ProtocolError):
        parse_assignment(assignment[:size])
