"""What the register keeps about ordered groups, and what its core asks its driver to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from octoloom.core.group_messages import GroupView


class SavedGroup(msgspec.Struct, frozen=True):
    """One group: its newest view, and the newest incarnation of each name that is out of it."""

    view: GroupView
    departed: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Persist:
    """Make these durable, all or nothing, over what was there. None deletes. `epoch` is the last that was used."""

    epoch: int
    groups: dict[str, SavedGroup | None]


@dataclass(frozen=True, slots=True)
class GroupsSaved:
    """All that outlives a restart."""

    epoch: int = 0
    groups: dict[str, SavedGroup] = field(default_factory=dict)

    def after(self, persist: Persist) -> GroupsSaved:
        """What is durable once this is."""
        groups = {**self.groups, **persist.groups}
        return GroupsSaved(persist.epoch, {name: group for name, group in groups.items() if group is not None})


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell every member of the view that is connected."""

    view: GroupView


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell this one alone: it came back and nothing changed for the others, or it left and the view is without it."""

    group: str
    member: str
    view: GroupView


@dataclass(frozen=True, slots=True)
class Decline:
    """Refuse this member, if it is connected; `ends` closes its connection."""

    group: str
    member: str
    code: str
    detail: str
    ends: bool = True


GroupEffect = Persist | Announce | Tell | Decline
