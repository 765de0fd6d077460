"""What a plan makes of what was not said."""

from __future__ import annotations

from pathlib import Path

import pytest

from octoloom.core.errors import UsageError
from octoloom.core.journal import Durability
from octoloom.runtime.plan import Plan

DATA = Path("data")


def test_there_are_as_many_brokers_as_replicas_and_a_journal_behind_the_chain() -> None:
    plan = Plan(DATA, "a:app", replicas=3)
    assert (plan.broker_count, plan.journal) == (3, Durability.CHAIN)


def test_without_brokers_there_is_no_journal() -> None:
    plan = Plan(DATA, "a:app", replicas=3, brokers=0)
    assert (plan.broker_count, plan.journal) == (0, Durability.NONE)


def test_brokers_need_not_keep_a_journal() -> None:
    assert Plan(DATA, "a:app", brokers=2, durability=Durability.NONE).journal is Durability.NONE


@pytest.mark.parametrize("durability", [Durability.CHAIN, Durability.JOURNAL])
def test_a_journal_without_brokers_is_refused(durability: Durability) -> None:
    with pytest.raises(UsageError, match="start at least one with --brokers"):
        Plan(DATA, "a:app", brokers=0, durability=durability)
