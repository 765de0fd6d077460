"""An app's filters in a row: out from the first to the last, in from the last to the first."""

from __future__ import annotations

from typing import Any

import pytest

from octoloom.core.filters import Forwarder, MessageFilters, ReceivedMessage, SentMessage, UnknownFilter
from octoloom.runtime.group_pipeline import Pipeline


class Signs:
    """Puts its name behind every message."""

    def __init__(self, sign: str) -> None:
        self.processor: Any = None
        self._sign = sign

    def filter(self, message: Any) -> None:
        kind = type(message)
        body = message.body + self._sign
        self.processor(SentMessage(body) if kind is SentMessage else ReceivedMessage(message.sender, body))


def test_messages_pass_all_filters_and_back_in_the_other_direction() -> None:
    sent: list[SentMessage] = []
    received: list[ReceivedMessage] = []
    made = [lambda name, sign=sign: MessageFilters(Signs(sign + name), Signs(sign)) for sign in "12"]
    pipeline = Pipeline("ada", made, sent.append, received.append)
    pipeline.send(SentMessage("x"))
    pipeline.receive(ReceivedMessage("bob", "y"))
    assert [message.body for message in sent] == ["x1ada2ada"]
    assert received == [ReceivedMessage("bob", "y21")]
    assert pipeline


def test_members_and_time_are_told_to_those_who_want_to_know() -> None:
    members: list[Any] = []
    pairs = [
        MessageFilters(Forwarder(), Forwarder(), members.append, lambda now: now + 9),
        MessageFilters(Forwarder(), Forwarder(), None, lambda now: now + 5),
        MessageFilters(Forwarder(), Forwarder(), None, lambda _: None),
        MessageFilters(Forwarder(), Forwarder()),
    ]
    left = iter(pairs)
    pipeline = Pipeline("ada", [lambda _: next(left)] * 4, print, print)
    pipeline.on_members(["ada", "bob"])
    assert members == [["ada", "bob"]]
    assert pipeline.on_time(100) == 105


def test_without_filters_there_is_no_pipeline() -> None:
    pipeline = Pipeline("ada", [], print, print)
    assert not pipeline
    assert pipeline.on_time(1) is None
    with pytest.raises(UnknownFilter, match="no filter called 'magic'"):
        Pipeline("ada", ["magic"], print, print)
