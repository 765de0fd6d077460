"""Bugs in those who look for bugs: audits of logs, devices and groups, and the replay of a journal."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

AUDITS = (
    Mutant(
        "audit-misses-lost-record",
        "an acknowledged record that is gone is found",
        "core/log_audit.py",
        "if offset in self._lost or not self._start <= offset < self._end:",
        "if not self._start <= offset < self._end:",
        "tests/core/test_log_audit.py",
    ),
    Mutant(
        "audit-misses-short-log",
        "a log that ends early is found",
        "core/log_audit.py",
        """        if self._next < self._end:
""",
        """        if self._next < self._start:
""",
        "tests/core/test_log_audit.py",
    ),
    Mutant(
        "audit-epoch-forgotten",
        "a leader epoch that goes back is found",
        "core/log_audit.py",
        "self._leader_epoch = max(self._leader_epoch, batch.leader_epoch)",
        "self._leader_epoch = batch.leader_epoch",
        "tests/core/test_log_audit.py",
    ),
    Mutant(
        "audit-double-as-gap",
        "a batch that was written twice is found",
        "core/log_audit.py",
        """ again, {wanted} is next", batch.first)
            return
""",
        """ again, {wanted} is next", batch.first)
""",
        "tests/core/test_log_audit.py",
    ),
    Mutant(
        "audit-settled-twice",
        "an event that is settled twice is found",
        "core/device_audit.py",
        """        if not self._chain.add(place):
            return""",
        """        if not self._chain.add(place) and not number:
            return""",
        "tests/core/test_device_audit.py",
    ),
    Mutant(
        "audit-deferred-forgiven",
        "an event out of order that was not deferred is found",
        "core/device_audit.py",
        "if number < self._before[device] and place not in waiting:",
        "if number < self._before[device] and place in waiting:",
        "tests/core/test_device_audit.py",
    ),
    Mutant(
        "audit-order-of-total",
        "two members with another order are found",
        "core/group_audit.py",
        "if pair[0] != pair[1]), None)",
        "if pair[0][0] != pair[1][0]), None)",
        "tests/core/test_group_audit.py",
        survives="where two differ in the numbers of one sender, the check of each sender's sequence tells of it",
    ),
    Mutant(
        "audit-lost-at-member",
        "a message that one of those who went on together lacks is found",
        "core/group_audit.py",
        """            if len(mine) == len(union):
                continue
""",
        """            if mine:
                continue
""",
        "tests/core/test_group_audit.py",
    ),
    Mutant(
        "replay-goes-on-behind-gap",
        "nothing is computed behind a missing record",
        "core/replay.py",
        """            self._lost, verdict.unread = True, verdict.unread + 1
""",
        """            verdict.unread = verdict.unread + 1
""",
        "tests/core/test_replay.py",
    ),
    Mutant(
        "replay-ignores-timers",
        "a timer that would be set otherwise is a difference",
        "core/replay.py",
        """            and concluded.timers == change.timers
""",
        "",
        "tests/core/test_replay.py",
    ),
    Mutant(
        "replay-runs-imposed",
        "what was quarantined is not run",
        "core/replay.py",
        "return kill.outcome is Outcome.QUARANTINED or (",
        "return (",
        "tests/core/test_replay.py",
    ),
    Mutant(
        "replay-obeys-itself",
        "after a difference the recorded way goes on",
        "core/replay.py",
        """        if found or concluded is None:
            self._employ()
        return found""",
        "        return found",
        "tests/core/test_replay.py",
    ),
)
