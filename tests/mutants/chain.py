"""Bugs in chains: heads, tails, neighbours, watchers, devices, and the register's part for them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CHAIN = (
    Mutant(
        "join-after-events",
        "a join comes before its device's events",
        "core/service.py",
        """        # The join comes before the events that the device brings along.
        self._chain.head.joined(now, space, request.device)
        welcome, following = door.bootstrap(now, connection, request, space)
""",
        """        welcome, following = door.bootstrap(now, connection, request, space)
        self._chain.head.joined(now, space, request.device)
""",
        "tests/core/test_service.py",
    ),
    Mutant(
        "journaled-of-older-generation",
        "a device is told only what is in the journal",
        "core/chain.py",
        "if generation == self.view.generation and space in self.spaces:",
        "if generation <= self.view.generation and space in self.spaces:",
        "tests/core/test_chain.py",
    ),
    Mutant(
        "joined-is-never-suspicious",
        "a fatal event is tried on one more tail, never again",
        "core/chain.py",
        "suspicious = self._joined_in != self.epoch",
        "suspicious = self._joined_in == 0",
        "tests/core/test_chain.py",
    ),
    Mutant(
        "difference-to-uncommitted",
        "watchers see committed state only",
        "core/audience.py",
        " and self.version == self.space.version:",
        ":",
        "tests/core/test_audience.py",
    ),
)
