"""What happens when a record is stored, or when the log refuses it: whom it concerns, and which groups go with it."""

from __future__ import annotations

from octoloom.core.consumer_commits import Commits
from octoloom.core.consumer_ledger import (
    AboutGroup,
    Announcing,
    Assigning,
    Committing,
    Deleting,
    Forgetting,
    TakingOver,
    Wait,
)
from octoloom.core.consumer_membership import Group
from octoloom.core.consumer_messages import GroupError
from octoloom.core.consumer_rounds import Rounds, Timer
from octoloom.core.consumer_timers import Timers


class Settling:
    def __init__(self, groups: dict[str, Group], timers: Timers[Timer], rounds: Rounds, commits: Commits) -> None:
        self._groups = groups
        self._timers = timers
        self._rounds = rounds
        self._commits = commits

    def on_stored(self, now: int, wait: Wait) -> None:
        match wait:
            case Announcing():
                self._rounds.announce(now, wait)
            case Assigning():
                self._rounds.give_assignments(now, wait)
            case TakingOver():
                self._rounds.confirm_place(now, wait, GroupError.NONE)
            case Committing():
                self._commits.confirm(now, wait)
            case Forgetting():
                wait.group.offsets.end(wait.partitions)
                wait.group.offsets.forget(wait.partitions)
                self.forget_unused(wait.group)
            case Deleting():
                for group in wait.groups:
                    self._remove(group)
                self._commits.confirm_delete(wait)
        self._go_on(now, wait)

    def on_refused(self, now: int, wait: Wait) -> None:
        error = GroupError.COORDINATOR_NOT_AVAILABLE
        match wait:
            case Announcing() | Assigning():
                self._rounds.on_refused(now, wait)
            case TakingOver():
                self._rounds.confirm_place(now, wait, error)
            case Committing():
                self._commits.refuse(wait, error)
                self.forget_unused(wait.group)
            case Forgetting():
                wait.group.offsets.end(wait.partitions)
            case Deleting():
                self._commits.refuse_delete(now, wait, error)
        self._go_on(now, wait)

    def forget_unused(self, group: Group) -> None:
        """A group that was never written down and has nobody leaves no trace."""
        if group.is_unused:
            self._remove(group)

    def _go_on(self, now: int, wait: Wait) -> None:
        if isinstance(wait, AboutGroup):
            self._rounds.after_store(now, wait.group)

    def _remove(self, group: Group) -> None:
        if self._groups.get(group.name) is not group:
            return
        for member_id in group.pending:
            self._timers.clear(("member", group.name, member_id))
        self._timers.clear(("retire", group.name, ""))
        del self._groups[group.name]
