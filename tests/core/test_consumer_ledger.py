"""The ledger: stores are numbered, settled in order, each once."""

from __future__ import annotations

import pytest

from octoloom.core.consumer_ledger import Forgetting, Ledger
from octoloom.core.consumer_membership import Group
from octoloom.core.consumer_messages import Answer, GroupError, HeartbeatAnswer, Store
from octoloom.core.errors import UsageError


def wait(number: int) -> Forgetting:
    return Forgetting(Group(str(number)), [])


def test_effects_come_out_once_and_in_order() -> None:
    ledger = Ledger()
    ledger.store([(b"a", None)], wait(1))
    ledger.answer(7, HeartbeatAnswer(GroupError.NONE))
    ledger.store([(b"b", b"1")], wait(2))
    assert ledger.take() == [
        Store(1, [(b"a", None)]),
        Answer(7, HeartbeatAnswer(GroupError.NONE)),
        Store(2, [(b"b", b"1")]),
    ]
    assert ledger.take() == []


def test_a_number_stands_for_all_before_it() -> None:
    ledger = Ledger()
    waits = [wait(number) for number in range(5)]
    for each in waits:
        ledger.store([], each)
    assert ledger.settle(1) == waits[:1]
    assert ledger.fail(3) is waits[2]
    assert ledger.settle(4) == [waits[1], waits[3]]
    assert ledger.settle(4) == []
    assert ledger.fail(4) is None
    assert list(ledger.waits) == [5]


def test_a_number_that_was_never_given_is_the_drivers_fault() -> None:
    ledger = Ledger()
    ledger.store([], wait(1))
    with pytest.raises(UsageError, match="store 2 was never asked for, the last one was 1"):
        ledger.settle(2)
    with pytest.raises(UsageError, match="store 2 was never asked for"):
        ledger.fail(2)
    assert list(ledger.waits) == [1]
