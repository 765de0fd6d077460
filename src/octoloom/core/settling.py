"""Whether all members have what one of them has sent so far: then it may leave, and nothing of that goes with it.

What others send meanwhile does not matter. So it is no use to wait until nothing is under way. First one's own messages
have to be cast, or ordered by the coordinator and delivered here; then all casts that were here at that moment have to
become stable. Wherever a view begins, everything of the one before is.
"""

from __future__ import annotations

from octoloom.core.group import GroupMember


class Settling:
    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._mark: tuple[int, list[int]] | None = None
        """The view, and how far each sender's casts were here, when the last of one's own was among them."""

    @property
    def done(self) -> bool:
        """To be asked again at the end of each turn."""
        member = self._member
        if member.casting is None or member.frozen or not member.outgoing.empty:
            return False
        nakack = member.casting.nakack
        if self._mark is None:
            self._mark = member.casting.epoch, nakack.counts()
        epoch, counts = self._mark
        return epoch != member.casting.epoch or nakack.are_stable(counts)
