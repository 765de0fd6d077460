"""The value of a journal record, field by field: `docs/journal.md` explains them.

Names stay as they are once they are published: other programs read them. A reader ignores fields that it does not know.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

CHANGE = "change"
START = "start"

Count = Annotated[int, msgspec.Meta(ge=0)]
Ordinal = Annotated[int, msgspec.Meta(ge=1)]


class EventValue(msgspec.Struct, frozen=True, gc=False):
    chain_sequencer: Ordinal
    device: str
    sequencer: Ordinal
    name: str
    payload: msgspec.Raw
    time_ms: Count
    dice: Count


class KillValue(msgspec.Struct, frozen=True, gc=False):
    device: str
    sequencer: Ordinal
    outcome: str
    reason: str
    chain_sequencer: Ordinal
    digest: Count


class TimerValue(msgspec.Struct, frozen=True, gc=False):
    timer: Ordinal
    due_ms: Count
    name: str
    payload: msgspec.Raw


class PresenceValue(msgspec.Struct, frozen=True, gc=False):
    device: str
    present: bool


class SettledValue(msgspec.Struct, frozen=True, gc=False):
    sequencer: Ordinal
    outcome: str
    reason: str
    digest: Count


class DeviceValue(msgspec.Struct, frozen=True):
    device: str
    watermark: Count
    done: list[Ordinal]
    recent: list[SettledValue]


class ChangeValue(msgspec.Struct, frozen=True, tag_field="kind", tag=CHANGE):
    space: str
    chain: str
    generation: Ordinal
    epoch: Count
    version: Ordinal
    at_ms: Count
    replace: bool
    merge: msgspec.Raw
    kills: list[KillValue]
    events: list[EventValue]
    waiting: list[EventValue] = []
    timers: list[TimerValue] = []
    cancelled: list[Ordinal] = []
    presence: list[PresenceValue] = []
    rule: Ordinal = 1


class StartValue(msgspec.Struct, frozen=True, tag_field="kind", tag=START):
    space: str
    chain: str
    generation: Ordinal
    epoch: Count
    version: Count
    at_ms: Count
    state: msgspec.Raw
    next_chain_sequencer: Ordinal
    events: list[EventValue]
    devices: list[DeviceValue]
    timers: list[TimerValue]
    next_timer: Ordinal
    present: list[str]
    time_ms: Count
