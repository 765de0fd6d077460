"""What the register keeps: its rows go to a store and back, and a step says only what it changes."""

from __future__ import annotations

import msgspec
import pytest

from octoloom.core.log_messages import BrokerAddress, PartitionState, TopicInfo
from octoloom.core.log_saved import Counters, Identity, LogSaved, Persist


@pytest.mark.parametrize(
    "row",
    [
        Identity(3, "disk"),
        Counters(),
        Counters(9, 8, 7, 6),
        BrokerAddress("b#2", "host", 9092, "disk", 77, 3),
        TopicInfo("moves", 5, {"retention.ms": "-1"}),
        PartitionState("b#2", 4, ["b#2"], ["a", "b"], 9),
    ],
)
def test_a_row_goes_to_a_store_and_back(row: msgspec.Struct) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(row), type=type(row)) == row


def test_producer_ids_begin_where_nobody_makes_up_his_own() -> None:
    assert Counters().producers == 1000


def test_a_step_that_says_nothing_changes_nothing_and_shares_nothing() -> None:
    one, other = Persist(Counters()), Persist(Counters())
    assert (one.identities, one.brokers, one.topics, one.partitions) == ({}, None, {}, {})
    one.topics["moves"] = None
    one.partitions["moves", 0] = None
    assert other == Persist(Counters())


def test_what_is_saved_is_not_changed_in_place() -> None:
    saved = LogSaved(Counters(), {}, {}, {}, {})
    with pytest.raises(AttributeError):
        saved.counters = Counters(1)  # type: ignore[misc]
