"""How far a member of a consumer group is in each of its partitions: what is handed out, done, committed.

What was handed out counts as done when the next delivery is asked for, or when the app commits it. Where a member
begins counts as done, too: whoever reads the partition after it does not begin elsewhere, even if nothing came.
"""

from __future__ import annotations

from collections.abc import Mapping

Place = tuple[str, int]
"""(topic, partition)"""


class Progress:
    """Offsets by partition, each of the first record that is not done."""

    def __init__(self) -> None:
        self._handed: dict[Place, int] = {}
        """After what was handed out last."""
        self._done: dict[Place, int] = {}
        self._committed: dict[Place, int] = {}
        self.has_lost = False
        """The partitions went before all that was handed out was committed, and nothing was handed out since."""

    def begin(self, starts: Mapping[Place, int], committed: Mapping[Place, int]) -> None:
        self._handed, self._done, self._committed = {}, dict(starts), dict(committed)

    def end(self) -> None:
        """The partitions may be others' now."""
        self.has_lost = self.has_lost or bool(self.not_committed(self.handed_out))
        self.begin({}, {})

    def on_handed_out(self, place: Place, offset: int) -> None:
        self._handed[place] = offset
        self.has_lost = False

    def on_next_asked(self) -> None:
        self._done |= self._handed
        self._handed = {}

    @property
    def done(self) -> dict[Place, int]:
        return dict(self._done)

    @property
    def handed_out(self) -> dict[Place, int]:
        """As if all that was handed out were done."""
        return {**self._done, **self._handed}

    @property
    def committed(self) -> dict[Place, int]:
        return dict(self._committed)

    def not_committed(self, offsets: Mapping[Place, int]) -> dict[Place, int]:
        return {place: offset for place, offset in offsets.items() if self._committed.get(place) != offset}

    def on_committed(self, offsets: Mapping[Place, int]) -> None:
        """Of partitions that are still this member's."""
        self._committed |= {place: offset for place, offset in offsets.items() if place in self._done}

    def on_chosen(self, offsets: Mapping[Place, int]) -> None:
        """The app itself has said what is done."""
        self._done |= {place: offset for place, offset in offsets.items() if place in self._done}
