"""Which event of a change is behind a difference?

A change may consume many events, and the journal has the state after all of them. So they are run once more, one at a
time, and what each writes is laid beside the place that differs: the first that writes there is the suspect. It is
certain if no other one does. If none does, the recorded code wrote where the given code does not, and the suspect is
the first event that was applied.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
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


def first_difference(recorded: Any, replayed: Any, path: Path = ()) -> Difference | None:
    """Members in the order of their names; None if both are the same JSON."""
    if isinstance(recorded, dict) and isinstance(replayed, dict):
        for key in sorted({*recorded, *replayed}):
            if key not in recorded or key not in replayed:
                sides = [told(encode_json(side[key])) if key in side else NOTHING for side in (recorded, replayed)]
                return Difference((*path, key), sides[0], sides[1])
            found = first_difference(recorded[key], replayed[key], (*path, key))
            if found is not None:
                return found
        return None
    if merge_patch.same(recorded, replayed):
        return None
    return Difference(path, told(encode_json(recorded)), told(encode_json(replayed)))


def suspect(
    app: App, before: dict[str, Any], space: Space, events: Sequence[Event], applied: Container[int], path: Path
) -> tuple[Event | None, bool]:
    """The event of a change behind a difference at `path`; without one, behind its timers. `events` are those that ran.

    `before` is the state before the change and is left as it is; `space` has the timers of that time.
    """
    recorder = Recorder(merge_patch.copied(before))
    if not space.version:
        recorder.state.update(merge_patch.copied(app.initial))
        recorder.take()
    next_timer, touching = space.next_timer, []
    for event in events:
        verdict = app.run(recorder, event, next_timer)
        next_timer += len(verdict.timers)
        replaced, patch = recorder.take()
        if verdict.outcome is not Outcome.APPLIED:
            continue
        is_touching = (replaced or _touches(patch, path)) if path else bool(verdict.timers or verdict.cancelled)
        if is_touching:
            touching.append(event)
    if not touching:
        touching = [event for event in events if event.chain_sequencer in applied] or list(events)
    return (touching[0] if touching else None), len(touching) == 1


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
