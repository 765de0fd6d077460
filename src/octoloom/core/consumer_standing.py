"""Whom the coordinator of a consumer group takes a member for, and what its refusals mean for that."""

from __future__ import annotations

from octoloom.core.consumer_messages import GroupError

PASSING = (
    GroupError.COORDINATOR_LOAD_IN_PROGRESS,
    GroupError.COORDINATOR_NOT_AVAILABLE,
    GroupError.NOT_COORDINATOR,
)
"""Said of the coordinator, not of the member: another one answers soon."""
FENCED = (GroupError.UNKNOWN_MEMBER_ID, GroupError.ILLEGAL_GENERATION)
"""The group goes on without this member."""
NOT_NOW = (*FENCED, GroupError.REBALANCE_IN_PROGRESS)
"""It has to join."""


class Standing:
    def __init__(self) -> None:
        self.member, self.generation = "", -1

    @property
    def is_in(self) -> bool:
        """It has joined, and was not told that it is out."""
        return self.generation >= 0

    def on_left(self) -> None:
        self.member, self.generation = "", -1

    def on_refused(self, code: int) -> None:
        """Forgets what is not so any more. A member of an older generation joins again under its name."""
        if code == GroupError.UNKNOWN_MEMBER_ID:
            self.member = ""
        if code in FENCED:
            self.generation = -1
