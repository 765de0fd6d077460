"""Bugs in the log's cores: partitions, in-sync sets, producers, leaders, and the register's part for topics."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LOG = (
    Mutant(
        "ids-told-before-persisted",
        "producer ids are unique",
        "core/log_register.py",
        "return [Persist(self._counters), Tell(broker, Allotted(first, count))]",
        "return [Tell(broker, Allotted(first, count)), Persist(self._counters)]",
        "tests/core/test_log_register.py -k producer_ids",
    ),
)
