"""The register's memory of ordered groups: one row for each group, and one with the counter of their epochs.

The counter's row also says how many groups there are, so that a row that is missing is found.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from octoloom.core.errors import StoreError
from octoloom.core.group_saved import GroupsSaved, Persist, SavedGroup
from octoloom.storage.checked_tables import CheckedTables


class GroupCounters(msgspec.Struct, frozen=True):
    epoch: int = 0
    groups: int = 0


class GroupTables(CheckedTables):
    TABLES = ("group_counters", "group_views")

    def save(self, steps: Sequence[Persist]) -> None:
        """Applies these, in order."""
        for step in steps:
            self._put("group_views", (((name, 0), body) for name, body in step.groups.items()))
        if steps:
            (count,) = self._database.execute("SELECT count(*) FROM group_views").fetchone()
            self._put("group_counters", [(("", 0), GroupCounters(steps[-1].epoch, count))])

    def load(self) -> GroupsSaved | None:
        """All of it, or None if nothing was ever saved. Raises `StoreError` if it does not fit together."""
        counters = next((body for _, body in self._rows("group_counters", GroupCounters)), GroupCounters())
        groups = {name: body for (name, _), body in self._rows("group_views", SavedGroup)}
        if len(groups) != counters.groups or any(group.view.group != name for name, group in groups.items()):
            raise StoreError(f"there are {len(groups)} groups in place of {counters.groups}")
        if any(group.view.epoch > counters.epoch for group in groups.values()):
            raise StoreError("the counter of epochs is older than the groups")
        return GroupsSaved(counters.epoch, groups) if counters.epoch else None
