"""Which event of a change is behind a difference?

A change may consume many events, and the journal has the state after all of them. So they are run once more, one at a
time, and what each writes is laid beside the places that differ: the first event that writes at one of them is the
suspect. It is certain if no other one writes there. If none does, the recorded code wrote where the given code does
not, and the suspect is the first event that was applied.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from octoloom.core import merge_patch
from octoloom.core.app import App
from octoloom.core.event import Event, Outcome
from octoloom.core.recorder import Recorder
from octoloom.core.space import Space, encode_json

TEXT_MAX = 200
"""How much of a value is told."""
NOTHING = "nothing"

Path = tuple[str, ...]


class Suspect(NamedTuple):
    """A difference, and the event behind it. `certain` is False if another of the same change may be meant."""

    what: str
    recorded: str
    replayed: str
    event: Event | None
    certain: bool = True


class Divergence(msgspec.Struct, frozen=True):
    """One difference, and the event that it belongs to. `certain` is False if another of the change may be meant."""

    space: str
    generation: int
    version: int
    what: str
    """`outcome`, `reason`, `state`, `timers`, `deferral`, `events` or `gap`."""
    recorded: str
    replayed: str
    device: str = ""
    sequencer: int = 0
    name: str = ""
    payload: str = ""
    certain: bool = True
    partition: int = -1
    offset: int = -1


class Difference(NamedTuple):
    """The first place at which two states differ."""

    path: Path
    recorded: str
    replayed: str

    @property
    def sides(self) -> tuple[str, str]:
        place = ".".join(self.path)
        return f"{place} = {self.recorded}", f"{place} = {self.replayed}"

    def __str__(self) -> str:
        return f"{'.'.join(self.path)} is {self.recorded}, and would be {self.replayed}"


def first_difference(recorded: Any, replayed: Any) -> Difference | None:
    """None if both are the same JSON."""
    return next(differences(recorded, replayed), None)


def differences(recorded: Any, replayed: Any, path: Path = ()) -> Iterator[Difference]:
    """All places at which two states differ, members in the order of their names."""
    if not (isinstance(recorded, dict) and isinstance(replayed, dict)):
        if not merge_patch.same(recorded, replayed):
            yield Difference(path, told(encode_json(recorded)), told(encode_json(replayed)))
        return
    for key in sorted({*recorded, *replayed}):
        if key in recorded and key in replayed:
            yield from differences(recorded[key], replayed[key], (*path, key))
        else:
            sides = [told(encode_json(side[key])) if key in side else NOTHING for side in (recorded, replayed)]
            yield Difference((*path, key), sides[0], sides[1])


def suspect(
    app: App,
    before: dict[str, Any],
    space: Space,
    events: Sequence[Event],
    applied: Container[int],
    paths: Sequence[Path],
) -> tuple[Event | None, bool, int]:
    """The first event of a change behind differences at `paths`, whether that is certain, and at which of the paths.

    Without paths it is the one behind the change's timers. `events` are those that ran, `before` is the state before
    the change and is left as it is, and `space` has the timers of that time.
    """
    writes = _writes(app, before, space, events)
    touching: list[tuple[Event, int]] = []
    for event, is_replaced, patch, has_timers in writes:
        if not paths and has_timers:
            touching.append((event, 0))
        touching += [(event, at) for at, path in enumerate(paths) if is_replaced or _touches(patch, path)]
    if touching:
        event, first = touching[0]
        return event, len([None for _, at in touching if at == first]) == 1, first
    candidates = [event for event in events if event.chain_sequencer in applied] or list(events)
    return (candidates[0] if candidates else None), len(candidates) == 1, 0


def _writes(
    app: App, before: dict[str, Any], space: Space, events: Sequence[Event]
) -> Iterator[tuple[Event, bool, Any, bool]]:
    """Of each event that is applied what it alone writes: (event, whether all is replaced, patch, whether timers)."""
    recorder = Recorder(merge_patch.copied(before))
    if not space.version:
        recorder.state.update(merge_patch.copied(app.initial))
        recorder.take()
    next_timer = space.next_timer
    for event in events:
        verdict = app.run(recorder, event, next_timer)
        next_timer += len(verdict.timers)
        is_replaced, patch = recorder.take()
        if verdict.outcome is Outcome.APPLIED:
            yield event, is_replaced, patch, bool(verdict.timers or verdict.cancelled)


def _touches(patch: Any, path: Path) -> bool:
    """Whether a patch writes at the path, above it or below it."""
    for key in path:
        if not isinstance(patch, dict):
            return True
        if key not in patch:
            return False
        patch = patch[key]
    return True


def told(text: bytes) -> str:
    """JSON text for people, cut if it is long."""
    shown = text.decode(errors="replace")
    return shown if len(shown) <= TEXT_MAX else shown[: TEXT_MAX - 1] + "…"


def told_at(at: Divergence, found: Suspect) -> Divergence:
    """The difference in full, at a place that says where."""
    what, recorded, replayed, event, certain = found
    placed = msgspec.structs.replace(at, what=what, recorded=recorded, replayed=replayed, certain=certain)
    if event is None:
        return placed
    return msgspec.structs.replace(
        placed, device=event.device, sequencer=event.sequencer, name=event.name, payload=told(event.payload)
    )
