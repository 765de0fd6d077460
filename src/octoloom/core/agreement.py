"""Whether the members of a group agree on one order.

In total order every member of a view delivers the same casts in the same sequence, from the view on, though not all
come equally far. So of two sequences in a view one is the beginning of the other. The first member to deliver a
cast at some place decides what belongs there; everybody else is held against it.

Memory: what the slowest member has not delivered yet is kept, if all members are known; otherwise all of the view.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from octoloom.core.errors import OctoloomError, ProtocolError

AHEAD_MAX = 1_000_000
"""Casts of one view that some member may be ahead of another."""

Tag = tuple[str, int]
"""(sender, number) of a cast"""


class TooFarApart(OctoloomError):  # noqa: N818
    """One member is so far behind that what the others did cannot be kept for it."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """At this place in the view, counted from 0, the member delivered something else than another one before it."""

    member: str
    place: int
    found: Tag
    expected: Tag


class AgreementSnapshot(msgspec.Struct, frozen=True, array_like=True):
    first: int
    sequence: list[Tag]
    places: dict[str, int]


class Agreement:
    """One view of one group. `members` may be left out if nobody knows them."""

    __slots__ = ("_first", "_members", "_places", "_sequence")

    def __init__(self, members: Sequence[str] = ()) -> None:
        self._members = list(members)
        self._sequence: deque[Tag] = deque()
        self._first = 0
        """The place of the first cast that is still kept."""
        self._places: dict[str, int] = dict.fromkeys(members, 0)

    def take(self, member: str, sender: str, number: int) -> Disagreement | None:
        """A member has delivered a cast. After a disagreement its next ones are held against the next places."""
        if self._members and member not in self._places:
            raise ProtocolError("not-a-member", f"{member} delivers {sender}:{number} in a view that it is not in")
        place = self._places.get(member, 0)
        at = place - self._first
        if at == len(self._sequence):
            if at >= AHEAD_MAX:
                raise TooFarApart(f"{member} is {AHEAD_MAX} casts ahead of others: audit shorter pieces")
            self._sequence.append((sender, number))
        self._places[member] = place + 1
        expected = self._sequence[at]
        if self._members and at == 0:
            self._trim()
        return Disagreement(member, place, (sender, number), expected) if expected != (sender, number) else None

    def _trim(self) -> None:
        slowest = min(self._places.values())
        while self._first < slowest:
            self._sequence.popleft()
            self._first += 1

    def snapshot(self) -> AgreementSnapshot:
        return AgreementSnapshot(self._first, list(self._sequence), dict(self._places))

    def restore(self, snapshot: AgreementSnapshot) -> None:
        self._first, self._sequence = snapshot.first, deque(snapshot.sequence)
        self._places = dict(snapshot.places)
