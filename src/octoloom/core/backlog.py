"""What a link keeps for the journal (see `journal.py`): the changes that it does not know to be there yet."""

from __future__ import annotations

from collections import deque

from octoloom.core.event import Event, JournalEntry


class Backlog:
    """What one link does not know to be in the journal of one space, oldest first; and what was given to it so far."""

    __slots__ = ("_entries", "journaled", "passed_over", "published", "size")

    def __init__(self, journaled: int = 0) -> None:
        self._entries: deque[JournalEntry] = deque()
        self.journaled = journaled
        self.published = journaled
        """As a head: the last version that was handed over for publication."""
        self.size = 0
        self.passed_over: dict[int, None] = {}
        """Deferred events that an entry has told of already, by chain sequencer."""

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, entry: JournalEntry) -> None:
        if entry.version > self.journaled:
            assert not self._entries or entry.version == self._entries[-1].version + 1
            self._entries.append(entry)
            self.size += entry.size

    def on_journaled(self, version: int) -> None:
        while self._entries and self._entries[0].version <= version:
            self.size -= self._entries.popleft().size
        self.journaled = max(self.journaled, version)
        self.published = max(self.published, self.journaled)

    def publish_anew(self) -> None:
        """A new head does not know what the old one has handed over."""
        self.published = self.journaled

    def unpublished(self) -> list[JournalEntry]:
        """What is to be handed over now; it counts as handed over from here on."""
        entries = [entry for entry in self._entries if entry.version > self.published]
        if entries:
            self.published = entries[-1].version
        return entries

    def events_since(self, version: int) -> list[Event]:
        """The events that were consumed after `version`, as far as they are not in the journal."""
        return [event for entry in self._entries if entry.version > version for event in entry.events]

    def entries(self) -> list[JournalEntry]:
        return list(self._entries)
