"""A link's part in the journal: as a head it publishes, and knows which versions may be told to devices.

In `Durability.JOURNAL` the head has versions that are not committed yet, so what a change settles is told only when it
is committed. A link that begins a generation first takes over what the journal holds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from octoloom.core.backlog import Backlog
from octoloom.core.effects import Effect, Publish, Restore
from octoloom.core.event import Change
from octoloom.core.journal import Durability
from octoloom.core.space import Space


class Publishing:
    def __init__(self, durability: Durability) -> None:
        self.durability = durability
        self.restoring = False
        self._fresh: dict[str, None] = {}
        """Spaces that have something to publish."""
        self._unsettled: dict[str, deque[Change]] = {}
        """Changes that the head has and nobody was told of."""

    @property
    def keeps(self) -> bool:
        return self.durability is not Durability.NONE

    def keep(self, space: Space) -> None:
        if self.keeps and space.backlog is None:
            space.backlog = Backlog()

    def begin(self, generation: int) -> list[Effect]:
        """A generation begins with this link."""
        self.restoring = self.keeps
        return [Restore(generation)] if self.keeps else []

    def take_office(self, spaces: Iterable[Space]) -> None:
        """Become the head: what the last one has handed over to the journal is not known."""
        self._unsettled.clear()
        for space in spaces:
            if space.backlog is not None:
                space.backlog.publish_anew()
                self._fresh[space.name] = None

    def forget(self) -> None:
        self.restoring = False
        self._fresh.clear()
        self._unsettled.clear()

    def on_change(self, space: Space, change: Change) -> None:
        self._fresh[space.name] = None
        waiting = self._unsettled.get(space.name)
        if waiting is None:
            waiting = self._unsettled[space.name] = deque()
        waiting.append(change)

    def on_replaced(self, space: Space) -> None:
        self._fresh[space.name] = None
        self._unsettled.pop(space.name, None)

    def committable(self, space: Space) -> int:
        """The version up to which the head may commit."""
        if self.durability is Durability.JOURNAL and space.backlog is not None:
            return min(space.version, space.backlog.journaled)
        return space.version

    def settled(self, space: Space) -> list[Change]:
        """The changes that have become committed, each once."""
        waiting = self._unsettled.get(space.name)
        changes = []
        while waiting and waiting[0].version <= space.committed:
            changes.append(waiting.popleft())
        return changes

    def publish(self, generation: int, spaces: Mapping[str, Space]) -> list[Effect]:
        effects: list[Effect] = []
        if self.keeps:
            for name in self._fresh:
                space = spaces.get(name)
                entries = space.backlog.unpublished() if space is not None and space.backlog is not None else []
                if entries:
                    effects.append(Publish(name, generation, entries))
        self._fresh.clear()
        return effects
