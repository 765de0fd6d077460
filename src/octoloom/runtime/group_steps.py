"""Where the steps of a member's algorithms go: a file, or whoever wants to hear of them.

The core knows payloads as bytes only. What was said is put into the steps here, so that a diagram can show it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from octoloom.core.errors import ProtocolError
from octoloom.core.group_effects import Effect, ToMembers
from octoloom.core.group_messages import Bundle, Cast, Forward, Numbered
from octoloom.core.steps import FORWARDED, ORDERED, SENT, Step
from octoloom.runtime.step_file import StepWriter
from octoloom.wire.group import decode_bodies

TEXT_MAX = 60

Trace = str | Path | StepWriter | Callable[[Step], None]


class StepSink:
    def __init__(self, trace: Trace) -> None:
        self._own = StepWriter(Path(trace)) if isinstance(trace, str | Path) else None
        self._to = self._own or trace

    def write(self, effects: Sequence[Effect]) -> None:
        """Writes the steps among a turn's effects."""
        steps = [effect for effect in effects if isinstance(effect, Step)]
        if not steps:
            return
        now, said = time.time_ns() // 1_000_000, _said(effects)
        timed = [msgspec.structs.replace(step, at_ms=now, text=step.text or said.get(_key(step), "")) for step in steps]
        if isinstance(self._to, StepWriter):
            self._to.write(timed)
        elif callable(self._to):
            for step in timed:
                self._to(step)

    def close(self) -> None:
        """Closes what was opened here."""
        if self._own is not None:
            self._own.close()


_Key = tuple[str, str, int]


def _key(step: Step) -> _Key:
    kind = {SENT: "cast", FORWARDED: "bundle", ORDERED: "bundle"}.get(step.name, "")
    return kind, step.sender, step.number


def _said(effects: Sequence[Effect]) -> dict[_Key, str]:
    """What the casts and bundles of this turn say: a step and its cast leave in one turn."""
    said: dict[_Key, str] = {}
    for effect in effects:
        part = effect.part if isinstance(effect, ToMembers) else None
        bundles: list[Bundle] = []
        if isinstance(part, Cast):
            bundles = part.bundles
            said["cast", part.sender, part.number] = _text(bundles)
        elif isinstance(part, Numbered) and isinstance(part.part, Forward):
            bundles = part.part.bundles
        said.update({("bundle", bundle.origin, bundle.number): _text([bundle]) for bundle in bundles})
    return said


def _text(bundles: Sequence[Bundle]) -> str:
    words: list[str] = []
    for bundle in bundles:
        try:
            bodies = decode_bodies(bundle.payload, bundle.count)
        except ProtocolError:
            continue
        words += [body if isinstance(body, str) else repr(body) for body in bodies[:TEXT_MAX]]
    text = ", ".join(words)
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
