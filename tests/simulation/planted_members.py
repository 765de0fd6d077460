"""Bugs to plant in a member of a consumer group, one at a time: what a client gets wrong that is a little too quick."""

from __future__ import annotations

from typing import Any

from octoloom.core.consumer_commit_queue import CommitQueue, Kind
from octoloom.core.consumer_entry import Entry
from octoloom.core.consumer_member import Member
from octoloom.core.consumer_progress import Progress
from octoloom.core.consumer_timetable import Timetable
from tests.simulation.planting import Plants, planting

MEMBER_PLANTS: Plants = {}
plant = planting(MEMBER_PLANTS)


@plant(Progress, "on_handed_out")
def done_when_it_is_handed_out(right: Any, self: Progress, *rest: Any) -> None:
    """The next commit says so before the app has worked on it."""
    right(self, *rest)
    self.on_next_asked()


@plant(Member, "_revoke")
def reads_on_when_the_group_changes(right: Any, self: Member, now: int) -> None:
    """Nobody can divide anything before this one has come."""


@plant(Timetable, "is_heard")
def sure_without_an_answer(right: Any, self: Timetable, now: int) -> bool:
    """A process that has slept goes on with partitions that are another's by now."""
    return True


@plant(CommitQueue, "_over")
def a_refused_commit_counts_as_made(right: Any, self: CommitQueue, error: Any) -> Any:
    return right(self, 0)


@plant(Entry, "_start_of")
def begins_at_the_end_of_what_there_is(right: Any, self: Entry, place: Any, first: int, end: int) -> int:
    """As if the group had never been there."""
    return end


@plant(CommitQueue, "add")
def a_group_at_the_end_pledges_nothing(right: Any, self: CommitQueue, wish: Any) -> None:
    right(self, wish)
    if wish.kind is Kind.PLEDGE:
        self._progress.on_committed(self._progress.done)


@plant(Progress, "end")
def old_progress_stays(right: Any, self: Progress) -> None:
    """What it knows of partitions that were its own once."""
