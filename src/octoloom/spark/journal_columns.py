"""The journal's tables: their columns, and how records become rows of them, as Arrow.

A record is opened once, into typed structs; its parts are gathered in lists and leave as one Arrow batch per table,
many records at a time. Payloads, patches and states stay the JSON text that they are.

| table | a row is |
|---|---|
| changes | a version of a space: the patch, or with `replace` the whole state; a `start` is one, too |
| events | an event that a change consumed, with what became of it |
| outcomes | an event that a change settled (it has no content, and is there even if the event is not) |
| presence | a device came or went |
| voids | a `start` voided versions of an older generation |
| dead_letters | a record that could not be read, and why |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from octoloom.core.event import PRESENCE
from octoloom.spark.journal_rows import Dead, Taken, Void
from octoloom.wire.journal_values import ChangeValue, KillValue, StartValue

TAG = {"space": pa.string(), "generation": pa.int64(), "version": pa.int64()}
PLACE = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}

SCHEMAS: dict[str, pa.Schema] = {
    "changes": pa.schema(
        {
            **TAG,
            "kind": pa.string(),
            "chain": pa.string(),
            "epoch": pa.int64(),
            "at_ms": pa.int64(),
            "replace": pa.bool_(),
            "merge": pa.string(),
            "events": pa.int32(),
            "waiting": pa.int32(),
            "timers": pa.int32(),
            "cancelled": pa.int32(),
            **PLACE,
        }
    ),
    "events": pa.schema(
        {
            **TAG,
            "position": pa.int32(),
            "chain_sequencer": pa.int64(),
            "device": pa.string(),
            "sequencer": pa.int64(),
            "name": pa.string(),
            "payload": pa.string(),
            "time_ms": pa.int64(),
            "dice": pa.decimal128(20, 0),
            "outcome": pa.string(),
            "reason": pa.string(),
            "at_ms": pa.int64(),
        }
    ),
    "outcomes": pa.schema(
        {
            **TAG,
            "position": pa.int32(),
            "device": pa.string(),
            "sequencer": pa.int64(),
            "outcome": pa.string(),
            "reason": pa.string(),
            "chain_sequencer": pa.int64(),
            "digest": pa.int64(),
            "at_ms": pa.int64(),
        }
    ),
    "presence": pa.schema(
        {
            **TAG,
            "position": pa.int32(),
            "device": pa.string(),
            "present": pa.bool_(),
            "time_ms": pa.int64(),
            "at_ms": pa.int64(),
        }
    ),
    "voids": pa.schema({**TAG, "last": pa.int64(), **PLACE}),
    "dead_letters": pa.schema(
        {"reason": pa.string(), "detail": pa.string(), **PLACE, "key": pa.binary(), "value": pa.binary()}
    ),
}
FACTS = ("changes", "events", "outcomes", "presence")
"""The tables whose rows a `start` can void."""


class Columns:
    """Rows of the tables of `names`, gathered until they are taken away."""

    def __init__(self, names: Iterable[str] = tuple(SCHEMAS)) -> None:
        self.names = tuple(names)
        self._forget()

    def _forget(self) -> None:
        self.rows = 0
        """How many rows wait, in all tables."""
        self._records: list[Taken] = []
        self._presence: list[tuple[Any, ...]] = []
        self._voids: list[tuple[Any, ...]] = []
        self._dead: list[tuple[Any, ...]] = []

    def add(self, taken: Taken) -> None:
        self._records.append(taken)
        value = taken.value
        self.rows += 1
        if isinstance(value, ChangeValue):
            self.rows += len(value.kills) + len(value.events)
            if value.presence:
                self._presence += _presence(value)

    def add_void(self, void: Void) -> None:
        self._voids.append((*void[:4], *void.place))
        self.rows += 1

    def add_dead(self, dead: Dead) -> None:
        self._dead.append((dead.code, dead.detail, *dead.place, dead.key, dead.value))
        self.rows += 1

    def take(self) -> dict[str, pa.RecordBatch]:
        """What was gathered, by table; empty ones are left out."""
        changes = [one.value for one in self._records if isinstance(one.value, ChangeValue)]
        makers: dict[str, Callable[[], pa.RecordBatch]] = {
            "changes": lambda: _changes(self._records),
            "events": lambda: _events(changes),
            "outcomes": lambda: _outcomes(changes),
            "presence": lambda: _plain("presence", self._presence),
            "voids": lambda: _plain("voids", self._voids),
            "dead_letters": lambda: _plain("dead_letters", self._dead),
        }
        batches = {name: makers[name]() for name in self.names}
        self._forget()
        return {name: batch for name, batch in batches.items() if batch.num_rows}


def _changes(records: list[Taken]) -> pa.RecordBatch:
    values = [one.value for one in records]
    places = [one.place for one in records]
    return _batch(
        "changes",
        [
            [value.space for value in values],
            [value.generation for value in values],
            [value.version for value in values],
            [one.tag.kind for one in records],
            [value.chain for value in values],
            [value.epoch for value in values],
            [value.at_ms for value in values],
            [isinstance(value, StartValue) or value.replace for value in values],
            _text([value.state if isinstance(value, StartValue) else value.merge for value in values]),
            [0 if isinstance(value, StartValue) else len(value.events) for value in values],
            [len(value.events if isinstance(value, StartValue) else value.waiting) for value in values],
            [len(value.timers) for value in values],
            [0 if isinstance(value, StartValue) else len(value.cancelled) for value in values],
            [place.topic for place in places],
            [place.partition for place in places],
            [place.offset for place in places],
        ],
    )


def _events(changes: list[ChangeValue]) -> pa.RecordBatch:
    events = [event for change in changes for event in change.events]
    ends = [end for change in changes for end in _ends(change)]
    *tags, at_ms, positions = _spread(changes, [len(change.events) for change in changes])
    return _batch(
        "events",
        [
            *tags,
            positions,
            [event.chain_sequencer for event in events],
            [event.device for event in events],
            [event.sequencer for event in events],
            [event.name for event in events],
            _text([event.payload for event in events]),
            [event.time_ms for event in events],
            pa.array([event.dice for event in events], pa.uint64()).cast(pa.decimal128(20, 0)),
            [end and end.outcome for end in ends],
            [end and end.reason for end in ends],
            at_ms,
        ],
    )


def _ends(change: ChangeValue) -> Sequence[KillValue | None]:
    """What became of each event. Heads tell them in one order; if somebody does not, the numbers say which is which."""
    kills, events = change.kills, change.events
    if [kill.chain_sequencer for kill in kills] == [event.chain_sequencer for event in events]:
        return kills
    by_number = {kill.chain_sequencer: kill for kill in kills}
    return [by_number.get(event.chain_sequencer) for event in events]


def _outcomes(changes: list[ChangeValue]) -> pa.RecordBatch:
    kills = [kill for change in changes for kill in change.kills]
    *tags, at_ms, positions = _spread(changes, [len(change.kills) for change in changes])
    return _batch(
        "outcomes",
        [
            *tags,
            positions,
            [kill.device for kill in kills],
            [kill.sequencer for kill in kills],
            [kill.outcome for kill in kills],
            [kill.reason for kill in kills],
            [kill.chain_sequencer for kill in kills],
            [kill.digest for kill in kills],
            at_ms,
        ],
    )


def _spread(changes: list[ChangeValue], sizes: list[int]) -> list[pa.Array]:
    """Space, generation, version, at_ms and the position, for as many rows as each change has."""
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    firsts = np.cumsum([0, *sizes])[:-1]
    columns = [
        pa.array([change.space for change in changes], pa.string()),
        pa.array([change.generation for change in changes], pa.int64()),
        pa.array([change.version for change in changes], pa.int64()),
        pa.array([change.at_ms for change in changes], pa.int64()),
    ]
    rows = pa.array(numbers)
    positions = pa.array((np.arange(len(numbers)) - firsts[numbers]).astype(np.int32))
    return [*(column.take(rows) for column in columns), positions]


def _presence(value: ChangeValue) -> list[tuple[Any, ...]]:
    """Who came and went, with the time of the event that says so."""
    times = [event.time_ms for event in value.events if event.device == PRESENCE]
    times += [value.at_ms] * (len(value.presence) - len(times))
    return [
        (value.space, value.generation, value.version, number, one.device, one.present, time_ms, value.at_ms)
        for number, (one, time_ms) in enumerate(zip(value.presence, times, strict=False))
    ]


def _plain(name: str, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    return _batch(name, list(zip(*rows, strict=True)) if rows else [[] for _ in SCHEMAS[name]])


def _text(raws: list[msgspec.Raw]) -> pa.Array:
    """JSON text that was found to be UTF-8 before."""
    return pa.array([bytes(raw) for raw in raws], pa.binary()).cast(pa.string())


def _batch(name: str, columns: list[Any]) -> pa.RecordBatch:
    schema = SCHEMAS[name]
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
