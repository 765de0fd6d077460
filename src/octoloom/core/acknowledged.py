"""What somebody was told, held against what is there: every acknowledged record and outcome must be found.

An acknowledgement of a device names its event and what it was told of it. Of an event that was told `superseded` the
journal need not know: another one has its number. Of one that is `forgotten` it must know that it was settled.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from octoloom.core.event import Kill, Outcome
from octoloom.core.findings import Findings

LINES_MAX = 5_000_000
"""How many acknowledgements one audit takes: they are held in memory."""
_OUTCOMES = {outcome.word: outcome for outcome in Outcome}


class Settled(msgspec.Struct, frozen=True):
    """A device was told how its event ended, in which version if that is known."""

    space: str
    device: str
    sequencer: int
    outcome: str
    version: int = 0


class Written(msgspec.Struct, frozen=True):
    """A producer was told where its record is. `key` is text; without one it is not compared."""

    topic: str
    partition: int
    offset: int
    key: str | None = None


class Promises:
    """The acknowledgements of one space: `on_kill` for each settled event, `on_undone` when history goes back."""

    def __init__(self, told: Iterable[Settled] = ()) -> None:
        self._open: dict[tuple[str, int], Settled] = {
            (each.device, each.sequencer): each for each in told if each.outcome != Outcome.SUPERSEDED.word
        }
        self._found: dict[tuple[str, int], tuple[int, int, Kill, Settled]] = {}
        """(generation, version, kill, what was told)"""

    def __len__(self) -> int:
        return len(self._open)

    def on_kill(self, generation: int, version: int, kill: Kill) -> None:
        key = kill.device, kill.sequencer
        told = self._open.pop(key, None)
        if told is not None:
            self._found[key] = generation, version, kill, told

    def on_undone(self, version: int) -> None:
        """A generation begins at this version: what was told of later ones has to come again."""
        for key, (_, found_at, _, told) in list(self._found.items()):
            if found_at > version:
                self._open[key] = told
                del self._found[key]

    def finish(self, findings: Findings) -> None:
        """What counts is what is so in the end."""
        for generation, version, kill, told in self._found.values():
            if told.outcome not in (kill.outcome.word, Outcome.FORGOTTEN.word):
                text = f"was told that its event {kill.sequencer} is {told.outcome}: it is {kill.outcome.word}"
            elif told.version and told.version != version:
                text = f"was told that its event {kill.sequencer} is in version {told.version}"
            else:
                continue
            findings.add(
                "acknowledged-otherwise",
                f"{kill.device} {text}",
                generation=generation,
                version=version,
                device=kill.device,
                sequencer=kill.sequencer,
            )
        for told in self._open.values():
            known = told.outcome if told.outcome in _OUTCOMES else f"{told.outcome!r}, which is no outcome"
            text = f"{told.device} was told that its event {told.sequencer} is {known}, and no change settles it"
            findings.add("acknowledged-lost", text, version=told.version, device=told.device, sequencer=told.sequencer)
