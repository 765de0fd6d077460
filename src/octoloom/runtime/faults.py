"""Logs what reducers did wrong, but never more of it than a person can read."""

from __future__ import annotations

import logging
import time

from octoloom.core.compute import Fault

FAULTS_PER_SECOND_MAX = 5

_log = logging.getLogger("octoloom.link")


class FaultLog:
    """Shows the first faults of each second and counts the rest."""

    def __init__(self) -> None:
        self.total = 0
        self._second = 0
        self._shown = 0
        self._hidden = 0

    def note(self, fault: Fault) -> None:
        self.total += 1
        second = int(time.monotonic())
        if second != self._second:
            if self._hidden:
                _log.error("%d more reducers failed in that second", self._hidden)
            self._second, self._shown, self._hidden = second, 0, 0
        if self._shown >= FAULTS_PER_SECOND_MAX:
            self._hidden += 1
            return
        self._shown += 1
        event = fault.event
        _log.error("the reducer failed on %r of %s in %s:\n%s", event.name, event.device, fault.space, fault.detail)
