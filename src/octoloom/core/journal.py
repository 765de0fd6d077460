"""The journal: every committed change of every space, with the events that it consumed, in a topic of the log.

The head publishes; records are keyed by space and tagged (space, generation, version). Until a version is known to be
in the journal every link keeps it in its `Backlog`, and what the head knows travels down with the acknowledgements. So
a new head goes on from the last version that it knows to be there: some may come twice, none is missing.

A reader (`JournalReader`) therefore applies these rules, and has each version once, in order:

1. a record of an older generation than one that was seen is dropped: its writer was lost together with its chain;
2. of the same generation, a version that was seen is dropped, the next is taken, and any other is a gap;
3. a newer generation begins with a `start`: all of the space as it was taken over from the journal.

With `durability="journal"` a version is committed, and told to devices, only when it is in the journal; otherwise as
soon as the head has it. When all links of a chain are lost the next generation starts from what a reader makes of it.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from octoloom.core.errors import OctoloomError
from octoloom.core.event import Change, Event, JournalEntry, SpaceSnapshot
from octoloom.core.space import Space


class Durability(Enum):
    NONE = "none"
    """There is no journal."""
    CHAIN = "chain"
    """A change is committed once every link has it; the journal follows."""
    JOURNAL = "journal"
    """A change is committed once the journal has it."""


class JournalGap(OctoloomError):  # noqa: N818
    """A version is missing in the journal."""


class JournalReader:
    """One space, read from the journal: feed it the records in the order of the log."""

    def __init__(self, space: str) -> None:
        self.space = Space(space)
        self.generation = 0

    def read(self, generation: int, entry: JournalEntry) -> bool:
        """Whether the record was new; raises `JournalGap` if one before it is missing."""
        if generation < self.generation or (generation == self.generation and entry.version <= self.space.version):
            return False
        if entry.start is not None:
            self.space = Space(self.space.name)
            self.space.restore(entry.start)
        elif entry.version != self.space.version + 1:
            text = f"{self.space.name}: version {entry.version} of generation {generation} follows {self.space.version}"
            raise JournalGap(f"{text}: a record is missing")
        else:
            assert entry.change is not None
            self.space.hold(entry.waiting)
            self._apply(entry.change, entry.events)
        self.generation = generation
        return True

    def _apply(self, change: Change, events: list[Event]) -> None:
        self.space.apply(change)
        # A deferred event that is consumed at last is older than those before it.
        self.space.time_ms = max(self.space.time_ms, *(event.time_ms for event in events), 0)

    def start(self) -> SpaceSnapshot:
        """What a new generation takes over, with the record that says so still to be published."""
        snapshot = self.space.snapshot()
        version = snapshot.version
        entry = JournalEntry(version, None, [], start=snapshot)
        return msgspec.structs.replace(snapshot, journaled=version - 1, backlog=[entry])
