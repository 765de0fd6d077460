"""One space, folded from its events alone: what a chain's tail would make of them, without a chain.

The history of a space is a sequence of events, each with the time and the dice that the head gave it. Fed to the same
app in the same order they give the same state, wherever that happens: in a tail, in a test, in Spark. The rule is that
of a tail (`rule`); a fold counts what became of the events, and keeps no record of them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from octoloom.core.app import DEFERRED, App, Verdict
from octoloom.core.errors import OctoloomError
from octoloom.core.event import Event, Outcome
from octoloom.core.recorder import Recorder
from octoloom.core.rule import Rule
from octoloom.core.space import decode_json, encode_json

DEFERRED_MAX = 65_536
"""Events of one space that may wait. A live chain holds back far fewer before it is `busy`."""


class TooManyDeferred(OctoloomError):  # noqa: N818
    """An app defers more and more, and nothing that comes makes any of it go on."""


class FoldSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """All of a fold."""

    state: bytes
    applied: int
    rejected: int
    next_timer: int
    timers: list[int]
    deferred: list[Event]


class Fold:
    """Feed it events with `take`."""

    __slots__ = ("_rule", "applied", "rejected")

    def __init__(self, app: App, state: dict[str, Any] | None = None) -> None:
        self._rule = Rule(app, Recorder(dict(app.initial) if state is None else state))
        self.applied = 0
        self.rejected = 0

    @property
    def state(self) -> dict[str, Any]:
        return self._rule.recorder.state

    @property
    def timers(self) -> list[int]:
        """The timers that are set."""
        return list(self._rule.timers)

    @property
    def next_timer(self) -> int:
        return self._rule.next_timer

    @property
    def deferred(self) -> list[Event]:
        return self._rule.waiting

    def take(self, event: Event) -> Verdict:
        """What becomes of the event now. Deferred ones that it frees are counted with it."""
        rule = self._rule
        rule.take(event)
        if not rule.settled:
            if len(rule.waiting) > DEFERRED_MAX:
                rule.waiting.pop()
                raise TooManyDeferred(f"{DEFERRED_MAX} events wait: the app defers what nothing makes go on")
            return DEFERRED
        verdict = rule.settled[0][1]
        for _, each in rule.settled:
            if each.outcome is Outcome.APPLIED:
                self.applied += 1
            else:
                self.rejected += 1
        rule.settled.clear()
        if rule.set_timers or rule.cancelled:
            rule.set_timers.clear()
            rule.cancelled.clear()
        return verdict

    def settle(self) -> None:
        """Forget what changed: between batches, so that the memory of a fold is its state."""
        self._rule.recorder.forget()

    def snapshot(self) -> FoldSnapshot:
        return FoldSnapshot(
            encode_json(self.state), self.applied, self.rejected, self.next_timer, self.timers, list(self.deferred)
        )

    @classmethod
    def restore(cls, app: App, snapshot: FoldSnapshot) -> Fold:
        fold = cls(app, decode_json(snapshot.state))
        fold.applied, fold.rejected = snapshot.applied, snapshot.rejected
        rule = fold._rule
        rule.timers, rule.next_timer = dict.fromkeys(snapshot.timers), snapshot.next_timer
        rule.waiting = list(snapshot.deferred)
        return fold
