"""The journal's part of the proof: its records alone must tell what the replicas hold and what the players were told.

A head that takes over publishes what it does not know to be in the journal, so some records come twice. A reader drops
the second of each tag (`core/journal.py`); what is left must be every version, in order. A duplicate must also say what
the first one said: otherwise two heads went different ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from octoloom.core.event import SYSTEM, JournalEntry
from octoloom.core.journal import JournalGap, JournalReader


class Line(msgspec.Struct, frozen=True):
    """A record of the journal, in its place in the log."""

    offset: int
    generation: int
    entry: JournalEntry


class JournalCopy(msgspec.Struct):
    """All records of one space, as a consumer read them; and how far it could have read, as it was told afterwards."""

    place: str
    space: str
    high: int
    lines: list[Line]
    strays: list[str] = []
    """What was found where it does not belong, or could not be read."""


class Made(NamedTuple):
    """A player's move, and what became of it."""

    sequencer: int
    number: int
    status: str


class Reading:
    """What the records up to a version say, duplicates dropped."""

    def __init__(self, copy: JournalCopy, version_wanted: int) -> None:
        self.dropped = 0
        self.doubts: list[str] = list(copy.strays)
        self._wanted = version_wanted
        self._reader = JournalReader(copy.space)
        self._taken: dict[tuple[int, int], JournalEntry] = {}
        self._read(copy)

    @property
    def version(self) -> int:
        return self._reader.space.version

    @property
    def state(self) -> dict[str, Any]:
        return self._reader.space.state

    def _read(self, copy: JournalCopy) -> None:
        for before, after in pairwise(copy.lines):
            if after.offset <= before.offset:
                self.doubts.append(f"the record at {after.offset} was read after the one at {before.offset}")
        for line in copy.lines:
            if line.offset >= copy.high:
                self.doubts.append(f"the record at {line.offset} is not below the high watermark {copy.high}")
            if line.entry.version <= self._wanted:
                try:
                    self._take(line)
                except JournalGap as gap:
                    self.doubts.append(f"{gap} (the record at {line.offset})")
                    break

    def _take(self, line: Line) -> None:
        tag = line.generation, line.entry.version
        if self._reader.read(line.generation, line.entry):
            self._taken[tag] = line.entry
            return
        self.dropped += 1
        first = self._taken.get(tag)
        if first is not None and (first.change, first.start) != (line.entry.change, line.entry.start):
            self.doubts.append(f"version {line.entry.version} comes again at {line.offset}, and says something else")

    def differences(self, is_same_state: bool, told: Mapping[str, list[Made]]) -> Iterator[str]:
        """Where the records do not lead to what the others say."""
        versions = [entry.version for entry in self._taken.values()]
        if versions != list(range(1, self._wanted + 1)):
            ends = f"from {versions[0]} to {versions[-1]}" if versions else "none"
            yield f"there are {len(versions)} versions, {ends}, and the replicas hold version {self._wanted}"
        if not is_same_state:
            yield "its changes, one after the other, do not lead to the state that the replicas hold"
        consumed = self._consumed()
        for name, moves in told.items():
            found = consumed.get(name, [])
            if found != moves:
                at = next(
                    (at for at, pair in enumerate(zip(found, moves, strict=False)) if pair[0] != pair[1]), len(moves)
                )
                counts = f"{len(found)} moves of {name} are in it, {name} made {len(moves)}"
                yield f"{counts}; they differ from move {at + 1} on"

    def _consumed(self) -> dict[str, list[Made]]:
        """The moves of each player, in the order in which the changes consumed them."""
        moves: dict[str, list[Made]] = {}
        for entry in self._taken.values():
            kills = entry.change.kills if entry.change is not None else []
            outcomes = {kill.chain_sequencer: kill.outcome.word for kill in kills}
            for event in entry.events:
                if not event.device.startswith(SYSTEM):
                    number = msgspec.json.decode(event.payload).get("number", 0)
                    status = outcomes.get(event.chain_sequencer, "")
                    moves.setdefault(event.device, []).append(Made(event.sequencer, number, status))
        return moves
