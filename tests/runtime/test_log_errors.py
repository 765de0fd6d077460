"""Every code of the protocol is an error that says what to do."""

from __future__ import annotations

import pytest

from octoloom.runtime.log_errors import (
    Busy,
    Fenced,
    LogError,
    NotEnoughReplicas,
    NotLeader,
    Refused,
    TimedOut,
    UnknownTopic,
    error_of,
)
from octoloom.wire.kafka.errors import ErrorCode


@pytest.mark.parametrize("code", [code for code in ErrorCode if code != ErrorCode.NONE], ids=lambda code: code.name)
def test_every_code_is_an_error_about_something(code: ErrorCode) -> None:
    error = error_of(code, "journal-0")
    assert isinstance(error, LogError)
    assert "journal-0" in str(error)
    # What it is, and after the colon what to do or what exactly was said.
    assert ": " in str(error)


@pytest.mark.parametrize(
    ("code", "kind", "retriable", "ambiguous"),
    [
        (ErrorCode.NOT_LEADER, NotLeader, True, False),
        (ErrorCode.FENCED_LEADER_EPOCH, NotLeader, True, False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UnknownTopic, True, False),
        (ErrorCode.NOT_ENOUGH_REPLICAS, NotEnoughReplicas, True, False),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, NotEnoughReplicas, True, True),
        (ErrorCode.REQUEST_TIMED_OUT, TimedOut, True, True),
        (ErrorCode.NOT_CONTROLLER, Busy, True, False),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Fenced, False, False),
        (ErrorCode.INVALID_CONFIG, Refused, False, False),
    ],
)
def test_what_may_be_tried_again(code: ErrorCode, kind: type[LogError], retriable: bool, ambiguous: bool) -> None:
    error = error_of(code, "t")
    assert type(error) is kind
    assert (error.retriable, error.ambiguous) == (retriable, ambiguous)


def test_a_broker_may_say_why_and_may_use_codes_that_nobody_knows() -> None:
    assert str(error_of(ErrorCode.INVALID_CONFIG, "t", "no")) == "the broker refused it for t: INVALID_CONFIG, no"
    assert str(error_of(9999, "t")) == "the broker refused it for t: code 9999"
