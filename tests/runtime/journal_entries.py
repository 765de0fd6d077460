"""Entries for journals: changes of spaces that count."""

from __future__ import annotations

from octoloom.core.event import Change, Event, JournalEntry, Kill, Outcome
from octoloom.core.journal import JournalReader
from octoloom.wire.journal import decode
from octoloom.wire.kafka.records import Record


def entry(version: int, padding: int = 0, epoch: int = 1) -> JournalEntry:
    """The change to a version, in which ada's event of that number was applied."""
    merge = b'{"n":%d,"padding":"%s"}' % (version, b"x" * padding)
    event = Event(version, "ada", version, "add", b"1", 1_000 + version, 7)
    change = Change(epoch, version, False, merge, [Kill(version, "ada", version, Outcome.APPLIED)])
    return JournalEntry(version, change, [event])


def entries(first: int, last: int) -> list[JournalEntry]:
    return [entry(version) for version in range(first, last + 1)]


def read_back(records: list[Record]) -> dict[str, JournalReader]:
    """What a reader makes of a partition's records; raises if a version is missing."""
    readers: dict[str, JournalReader] = {}
    for record in records:
        journaled = decode(record.key, record.value, record.headers)
        reader = readers.setdefault(journaled.space, JournalReader(journaled.space))
        reader.read(journaled.generation, journaled.entry)
    return readers


def versions(records: list[Record], space: str = "s") -> list[int]:
    """All versions of a space as they lie in the log, duplicates and all."""
    journaled = [decode(record.key, record.value, record.headers) for record in records]
    return [one.entry.version for one in journaled if one.space == space]
