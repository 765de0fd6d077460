"""A new view's coordinator makes the old one whole, before anything is said in the new.

Every member of the new view reports which view it has installed and what it has of it. When all have:

- Who missed the last installation that somebody carried out, though it is of that view, is brought to it first. It was
  decided only when everybody was ready for it, so one step is always enough. And since the oldest come first, the
  coordinator is of that view if anybody is.
- What the survivors have of the last view, taken together, is its *union*. The coordinator fetches what it lacks, fills
  in what the others lack, and waits until each has said that it holds all of it.
- Then it decides: the new view begins, behind the union.

If anybody dies on the way the register makes another view, and everything begins anew with that one's coordinator. A
decision that no survivor has heard of is void: none of them has done anything by it.
"""

from __future__ import annotations

from octoloom.core.group_messages import Cast, GroupView, Install, Report
from octoloom.core.tags import Seen

Holdings = dict[str, tuple[int, list[int]]]
FILL_BYTES_MAX = 32 * 1024
"""Casts travel in fills of about this size, so that one fits a datagram."""


class Gathering:
    """The reports for one view."""

    def __init__(self, view: GroupView) -> None:
        self.view = view
        self.reports: dict[str, Report] = {}
        self.ready: dict[str, None] = {}
        self.union: Holdings | None = None
        """Once all have reported and none is behind."""
        self._holdings: dict[tuple[str, str], Seen] = {}

    def silent(self) -> list[str]:
        """Whom the coordinator waits for."""
        if self.union is None:
            return [member for member in self.view.names if member not in self.reports]
        return [member for member in self.elders() if member not in self.ready]

    def is_sound(self, member: str, report: Report) -> bool:
        """Whether a report can be true: of an earlier view with this member, and what is there of that one's casts."""
        install = report.installed
        if install is None:
            return not report.have
        names = install.view.names
        if install.view.epoch >= self.view.epoch or member not in names or not is_whole(install):
            return False
        if list(report.have) != names or report.have[member][1]:
            return False  # nobody lacks casts of its own
        return all(
            watermark >= install.vector[sender][0] and all(number > watermark + 1 for number in above)
            for sender, (watermark, above) in report.have.items()
        )

    def newest(self) -> Install | None:
        """The last installation that anybody carried out; None in a group of newcomers."""
        installs = [report.installed for report in self.reports.values() if report.installed is not None]
        return max(installs, key=lambda install: install.view.epoch, default=None)

    def behind(self) -> list[str]:
        """Members of the newest view that is installed anywhere who have not installed it."""
        newest = self.newest()
        if newest is None:
            return []
        return [
            member
            for member, report in self.reports.items()
            if member in newest.view.names
            and (report.installed is None or report.installed.view.epoch < newest.view.epoch)
        ]

    def elders(self) -> list[str]:
        """Those who have been in a view before, in the new view's order."""
        return [member for member in self.view.names if self.reports[member].installed is not None]

    def unite(self) -> Holdings:
        union: dict[str, Seen] = {}
        for member in self.elders():
            for sender, (watermark, above) in self.reports[member].have.items():
                seen = union.setdefault(sender, Seen())
                seen.advance(watermark)
                for number in above:
                    seen.add(number)
        self.union = {sender: seen.snapshot() for sender, seen in union.items()}
        for member in self.elders():  # nobody can have more of its casts than it has sent
            self.union[member] = self.reports[member].have[member]
        return self.union

    def lacks(self, have: Holdings) -> list[tuple[str, int]]:
        """What a member that has so much lacks of the union."""
        assert self.union is not None
        lacking: list[tuple[str, int]] = []
        for sender, (watermark, above) in self.union.items():
            mine = Seen.restore(have[sender]) if sender in have else Seen()
            numbers = [*range(mine.watermark + 1, watermark + 1), *above]
            lacking.extend((sender, number) for number in numbers if not mine.has(number))
        return lacking

    def holder(self, sender: str, number: int) -> str:
        for member in self.elders():
            if self._seen(member, sender).has(number):
                return member
        raise AssertionError(f"nobody holds {sender}:{number} of the union")

    def _seen(self, member: str, sender: str) -> Seen:
        if (member, sender) not in self._holdings:
            self._holdings[member, sender] = Seen.restore(self.reports[member].have[sender])
        return self._holdings[member, sender]

    def newcomers(self) -> list[str]:
        """Those who need a state, if somebody has one."""
        wanting = [member for member in self.view.names if self.reports[member].wants_state]
        return wanting if self.giver() else []

    def giver(self) -> str:
        return next((member for member in self.elders() if not self.reports[member].wants_state), "")


def is_whole(install: Install) -> bool:
    """Whether it says where each member's casts and bundles begin."""
    return all(min(install.vector.get(name, (-1, -1))) >= 0 for name in install.view.names)


def in_fills(casts: list[Cast]) -> list[list[Cast]]:
    """Casts, cut to pieces that fit a datagram."""
    fills: list[list[Cast]] = []
    size = FILL_BYTES_MAX
    for cast in casts:
        length = sum(len(bundle.payload) for bundle in cast.bundles) + 64
        if size + length > FILL_BYTES_MAX:
            fills.append([])
            size = 0
        fills[-1].append(cast)
        size += length
    return fills
