"""The commits that a member of a consumer group has yet to make, in order.

One is under way at a time, so that none is overtaken by an older one. What passes is tried again, until its time is up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from octoloom.core.consumer_member_messages import Commit
from octoloom.core.consumer_messages import GroupError
from octoloom.core.consumer_progress import Place, Progress
from octoloom.core.consumer_standing import Standing
from octoloom.core.errors import UsageError

COMMITS_MAX = 1_000


class Kind(Enum):
    APP = auto()
    """The app wants it."""
    TIMER = auto()
    PLEDGE = auto()
    """Where a group begins that was never there."""
    LAST = auto()
    """Before the partitions go."""


@dataclass(frozen=True, slots=True)
class Wish:
    kind: Kind
    until: int | None
    """For how long it is tried again after an error that passes; None for ever."""
    offsets: Mapping[Place, int] | None = None
    """None for all that is done when its turn comes."""
    number: int = 0


Over = tuple[Wish, int | Exception]
"""A wish that was made (0), or never will be, and why."""


class CommitQueue:
    def __init__(self, progress: Progress, standing: Standing) -> None:
        self._progress, self._standing = progress, standing
        self._wishes: deque[Wish] = deque()
        self._news: dict[Place, int] = {}
        self.ticket = 0
        """Of what is under way; 0 for nothing."""
        self.again_at: int | None = None

    def __len__(self) -> int:
        return len(self._wishes)

    def add(self, wish: Wish) -> None:
        if len(self._wishes) >= COMMITS_MAX:
            raise UsageError(f"{COMMITS_MAX} commits wait already: wait for some of them")
        self._wishes.append(wish)

    def advance(self) -> Commit | Over | None:
        """The next commit to send, or a wish that needs none; None if there is nothing to do now."""
        if self.ticket or self.again_at is not None or not self._wishes:
            return None
        offsets = self._wishes[0].offsets
        self._news = self._progress.not_committed(self._progress.done if offsets is None else offsets)
        if not self._news:
            return self._over(0)
        if not self._standing.is_in:
            return self._over(GroupError.UNKNOWN_MEMBER_ID)
        return Commit(self._standing.member, self._standing.generation, self._news)

    def on_reply(self, code: int) -> Over:
        """To what is under way: it is over, one way or the other."""
        self.ticket = 0
        self._standing.on_refused(code)
        return self._over(code)

    def on_failed(self, now: int, reason: int | Exception, again_at: int | None) -> Over | None:
        """It may be tried again then, or never."""
        self.ticket = 0
        until = self._wishes[0].until
        if again_at is None or (until is not None and now >= until):
            return self._over(reason)
        self.again_at = again_at
        return None

    def _over(self, error: int | Exception) -> Over:
        wish = self._wishes.popleft()
        if not error:
            self._progress.on_committed(self._news)
            if wish.kind is Kind.APP and wish.offsets is not None:
                self._progress.on_chosen(wish.offsets)
        return wish, error

    def clear(self) -> list[Wish]:
        """Those of the app, which will not be made."""
        left = [wish for wish in self._wishes if wish.kind is Kind.APP]
        self._wishes.clear()
        self.ticket, self.again_at = 0, None
        return left
