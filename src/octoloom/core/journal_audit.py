"""The audit of one space's journal: is this the record of a history that can have happened?

Records are read by the rules of `journal.py`, and more is asked of them than a reader asks:

1. every version is there, once; a record that comes again says what the first one said;
2. a generation begins with a `start` that is exactly what the one before it left;
3. each event is settled once, in the order of its device (`device_audit.py`);
4. each change agrees with its events and with the space that it changes (`change_audit.py`);
5. whatever a device was told is so (`acknowledged.py`).

A record whose number is not the next one is held until the one after it tells whether something is missing or the
number is wrong. After a gap the state is not known until the next `start`; what does not need it is still checked.

An audit can be saved between two records and go on elsewhere. All that it needs is kept: the space, and for each device
which of its numbers were settled. Records that come again are compared with the last `DIGESTS_MAX` versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from octoloom.core.acknowledged import Promises, Settled
from octoloom.core.change_audit import (
    Wrong,
    effect_wrongs,
    event_wrongs,
    presence_wrongs,
    time_wrongs,
    timer_wrongs,
)
from octoloom.core.device_audit import DeviceAudit, SavedDevices
from octoloom.core.event import Change, Event, JournalEntry, SpaceSnapshot
from octoloom.core.findings import Finding, Findings
from octoloom.core.journal import JournalReader
from octoloom.core.merge_patch import same
from octoloom.core.space import decode_json

DIGESTS_MAX = 256
_encode = msgspec.msgpack.Encoder().encode
Place = tuple[int, int]
"""(partition, offset)"""
NOWHERE: Place = (-1, -1)
Held = tuple[int, JournalEntry, Place]
"""(generation, entry, place)"""


class SpaceVerdict(msgspec.Struct):
    """What is known of one space."""

    space: str
    generation: int = 0
    version: int = 0
    records: int = 0
    changes: int = 0
    events: int = 0
    again: int = 0
    """Records that came again, as they may."""
    undone: int = 0
    """Versions that a later generation did not take over."""
    counts: dict[str, int] = {}
    findings: list[Finding] = []

    @property
    def clean(self) -> bool:
        return not self.counts


class _Saved(msgspec.Struct, array_like=True):
    snapshot: SpaceSnapshot
    generation: int
    epoch: int
    doubtful: bool
    digests: dict[int, bytes]
    held: Held | None
    devices: SavedDevices
    verdict: SpaceVerdict


_decode = msgspec.msgpack.Decoder(_Saved).decode


class SpaceAudit:
    """One space: `read` its records in the order of the log, then ask for the `verdict`."""

    def __init__(self, space: str, told: Iterable[Settled] = ()) -> None:
        self._reader = JournalReader(space)
        self._epoch = 0
        self._doubtful = False
        """The state is not known: something before is missing."""
        self._digests: dict[int, bytes] = {}
        self._held: Held | None = None
        """A record whose number is not the next one. What follows it tells what it is."""
        self._devices = DeviceAudit()
        self._promises = Promises(told)
        self._verdict = SpaceVerdict(space)
        self.findings = Findings(space)

    def save(self) -> bytes:
        reader, devices = self._reader, self._devices.save()
        known = (self._epoch, self._doubtful, self._digests, self._held, devices, self.verdict())
        return _encode(_Saved(reader.space.snapshot(), reader.generation, *known))

    @classmethod
    def load(cls, saved: bytes) -> SpaceAudit:
        found = _decode(saved)
        audit = cls(found.snapshot.space)
        audit._reader.space.restore(found.snapshot)
        audit._reader.generation, audit._epoch, audit._doubtful = found.generation, found.epoch, found.doubtful
        audit._digests, audit._held, audit._devices = found.digests, found.held, DeviceAudit(found.devices)
        audit._verdict = found.verdict
        audit.findings = Findings(found.snapshot.space, found.verdict.counts, found.verdict.findings)
        return audit

    def verdict(self) -> SpaceVerdict:
        verdict = self._verdict
        verdict.generation, verdict.version = self._reader.generation, self._reader.space.version
        verdict.counts, verdict.findings = self.findings.counts, self.findings.kept
        return verdict

    def finish(self) -> SpaceVerdict:
        """There are no more records: what was told and is not there is lost."""
        self._give_up_held()
        self._promises.finish(self.findings)
        return self.verdict()

    # Records.

    def read(self, generation: int, entry: JournalEntry, place: Place = NOWHERE) -> None:
        self._verdict.records += 1
        reader = self._reader
        if generation < reader.generation:
            self._verdict.again += 1
            return
        next_version = reader.space.version + 1
        if generation == reader.generation and entry.version < next_version:
            self._verdict.again += 1
            known = self._digests.get(entry.version)
            if known is not None and known != _digest(entry):
                self._hold(generation, entry, place)
            return
        late = self._place_held(generation, entry) if self._held is not None else None
        next_version = reader.space.version + 1
        if entry.start is not None:
            self._begin(generation, entry.start, place)
            self._take(generation, entry)
        elif entry.version == next_version:
            self._read_change(generation, entry, place)
            if late is not None:
                self._read_change(*late)
        elif entry.version > next_version:
            self._hold(generation, entry, place)

    def unreadable(self, text: str, place: Place) -> None:
        """A record that has this space's key, and cannot be read."""
        self._verdict.records += 1
        self.findings.add("unreadable", text, partition=place[0], offset=place[1])

    def _hold(self, generation: int, entry: JournalEntry, place: Place) -> None:
        self._give_up_held()
        self._held = generation, entry, place

    def _place_held(self, generation: int, entry: JournalEntry) -> Held | None:
        """The next record tells what the one before it, which has a strange number, was meant to be.

        It is read here, or answered if it comes after the next record.
        """
        assert self._held is not None
        next_version = self._reader.space.version + 1
        held_generation, held, place = self._held
        is_change = held.change is not None and held_generation == generation and entry.start is None
        if is_change and entry.version == next_version + 1:
            text = f"this is version {next_version}, by its place, and calls itself {held.version}"
            self._add("version-forged", text, generation, held.version, place)
            self._held = None
            self._read_change(generation, _numbered(held, next_version), place)
        elif is_change and entry.version == next_version and held.version == next_version + 1:
            text = f"version {held.version} stands in the log before version {next_version}"
            self._add("version-misplaced", text, generation, held.version, place)
            late, self._held = self._held, None
            return late
        else:
            self._give_up_held()
        return None

    def _give_up_held(self) -> None:
        """Nothing explains it: it says something else than is known, or what lies before it is missing."""
        if self._held is None:
            return
        (generation, entry, place), self._held = self._held, None
        space = self._reader.space
        if entry.version <= space.version:
            text = f"version {entry.version} comes again, and says something else than the first time"
            self._add("version-forked", text, generation, entry.version, place)
            return
        text = f"version {entry.version} follows {space.version}"
        self._add("version-missing", text, generation, entry.version, place)
        self._doubtful = True
        space.version = entry.version - 1
        self._read_change(generation, entry, place)

    def _read_change(self, generation: int, entry: JournalEntry, place: Place) -> None:
        assert entry.change is not None
        if generation > self._reader.generation and self._reader.generation:
            text = f"generation {generation} goes on behind generation {self._reader.generation} without a start"
            self._add("start-missing", text, generation, entry.version, place)
        self._check_change(generation, entry.version, entry.change, entry, place)
        self._take(generation, entry)
        self._verdict.changes += 1
        self._verdict.events += len(entry.events)

    def _take(self, generation: int, entry: JournalEntry) -> None:
        if generation != self._reader.generation:
            self._digests.clear()
        self._reader.read(generation, entry)
        self._reader.space.ring.clear()
        self._digests[entry.version] = _digest(entry)
        if len(self._digests) > DIGESTS_MAX:
            del self._digests[next(iter(self._digests))]

    # Generations.

    def _begin(self, generation: int, start: SpaceSnapshot, place: Place) -> None:
        space, at = self._reader.space, (generation, start.version, place)
        if start.version > space.version and self._reader.generation:
            text = f"generation {generation} begins with version {start.version}, the journal has {space.version}"
            self._add("version-missing", text, *at)
        elif start.version == space.version and space.version and not self._doubtful:
            for field in _differences(space.snapshot(), start):
                text = f"generation {generation} begins with other {field} than version {space.version} left"
                self._add("start-differs", text, *at)
        self._verdict.undone += max(space.version - start.version, 0) if self._reader.generation else 0
        self._promises.on_undone(start.version)
        self._devices.restart(start)
        self._doubtful, self._epoch = False, 0

    # Changes.

    def _check_change(self, generation: int, version: int, change: Change, entry: JournalEntry, place: Place) -> None:
        at = generation, version, place
        if change.epoch < self._epoch and generation == self._reader.generation:
            self._add("epoch-back", f"it is of epoch {change.epoch}, the one before of {self._epoch}", *at)
        self._epoch = change.epoch
        for event in entry.waiting:
            if self._devices.is_settled(event):
                text = f"event {event.sequencer} of {event.device} is said to wait, and was settled"
                self._add("waiting-settled", text, *at, event.device, event.sequencer)
        for name, text, kill in self._wrongs(change, entry.events):
            device, sequencer = (kill.device, kill.sequencer) if kill is not None else ("", 0)
            self._add(name, text, *at, device, sequencer)
        self._devices.begin()
        for kill in change.kills:
            wrong = self._devices.settle(kill, self._reader.space.events)
            if wrong is not None:
                name, text = wrong
                self._add(name, text, *at, kill.device, kill.sequencer)
            self._promises.on_kill(generation, version, kill)

    def _wrongs(self, change: Change, events: list[Event]) -> Iterator[Wrong]:
        space = self._reader.space
        yield from event_wrongs(change, events)
        yield from presence_wrongs(change, events)
        yield from time_wrongs(events, self._devices.highest_place, space.time_ms)
        if not self._doubtful:
            yield from timer_wrongs(change, events, space)
            yield from effect_wrongs(change, space)

    def _add(
        self, name: str, text: str, generation: int, version: int, place: Place, device: str = "", sequencer: int = 0
    ) -> None:
        self.findings.add(
            name,
            text,
            generation=generation,
            version=version,
            device=device,
            sequencer=sequencer,
            partition=place[0],
            offset=place[1],
        )


def _numbered(entry: JournalEntry, version: int) -> JournalEntry:
    """The entry in its true place."""
    if entry.version == version or entry.change is None:
        return entry
    change = msgspec.structs.replace(entry.change, version=version)
    return msgspec.structs.replace(entry, version=version, change=change)


def _digest(entry: JournalEntry) -> bytes:
    return blake2b(_encode((entry.change, entry.start)), digest_size=8).digest()


def _differences(left: SpaceSnapshot, start: SpaceSnapshot) -> Iterator[str]:
    names: dict[str, Any] = {"events": "live events", "present": "devices that are present", "time_ms": "time"}
    if not same(decode_json(left.state), decode_json(start.state)):
        yield "state"
    for field in ("next_chain_sequencer", "events", "devices", "timers", "next_timer", "present", "time_ms"):
        if getattr(left, field) != getattr(start, field):
            yield names.get(field, field.replace("_", " "))
