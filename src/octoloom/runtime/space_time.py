"""A run of a group as a space-time diagram, before anybody draws it: lifelines, and marks on them, causes first.

A *mark* is what happened at one place: a message was sent, arrived too early and was held back, was delivered; or a
view began, at all members. Of the algorithm's steps those that a person asks for become marks, the others are folded
into them: what a message waited for and for how long, what it is concurrent with, what it has overtaken.

Whether a message was delivered before one of its causes is seen from two vectors: its sender's when it was sent counts
the causes, its receiver's what was there. In a causal order it never happens.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from octoloom.core import steps as names
from octoloom.core.errors import UsageError
from octoloom.core.steps import Step
from octoloom.runtime.step_order import causal_order

MARKS_MAX = 5_000
"""How many marks are drawn at most: the last ones."""

Message = tuple[str, int]
"""(sender, number)"""
Range = tuple[str, int, int]
"""(member, first number, last number)"""


class Kind(enum.Enum):
    SENT = names.SENT
    HELD = names.BUFFERED
    DELIVERED = names.DELIVERED
    FORWARDED = names.FORWARDED
    ORDERED = names.ORDERED
    VIEW = names.VIEW
    # What is only drawn if every step is asked for.
    CREATED = names.VECTOR_CREATED
    ADDED = names.USER_ADDED
    REMOVED = names.USER_REMOVED
    COUNTED = names.COUNT_INCREMENTED
    RECEIVED = names.RECEIVED
    CONCURRENT = names.CONCURRENT
    RELEASED = names.UNBUFFERED
    PATH = names.PATH_CREATED
    OTHER = ""


MESSAGE_KINDS = (Kind.SENT, Kind.HELD, Kind.DELIVERED, Kind.FORWARDED, Kind.ORDERED, Kind.VIEW)
ARRIVALS = (Kind.RECEIVED, Kind.HELD, Kind.DELIVERED)
_KINDS = {kind.value: kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class Mark:
    """What happened at one place; `step` tells it, for a view one member's."""

    kind: Kind
    step: Step
    text: str = ""
    source: str = ""
    """The lifeline from which the message arrives here, if this is where it does."""
    origin: int | None = None
    """Which mark it left from, if that is drawn."""
    held_ms: int | None = None
    """A delivery: how long the message was held back. None if it was not."""
    concurrent: tuple[Range, ...] | None = None
    """None if it is not, empty if nobody knows with what."""
    overtakes: Message | None = None
    """A delivery: the first of its causes that is not there yet."""

    @property
    def member(self) -> str:
        return "" if self.kind is Kind.VIEW else self.step.member

    @property
    def message(self) -> Message:
        return self.step.sender, self.step.number


@dataclass(frozen=True, slots=True)
class SpaceTime:
    members: list[str]
    """The lifelines, in the order of the first view that has them."""
    names: dict[str, str]
    """What each member is called, drawn or not: without its incarnation where that is clear."""
    marks: list[Mark]
    left_out: int = 0
    """How many marks stood before the first one."""
    begin_ms: int = 0
    """When the first step was made, by its member's clock."""

    @property
    def is_timed(self) -> bool:
        return any(mark.step.at_ms for mark in self.marks)

    def name(self, message: Message) -> str:
        sender, number = message
        return f"{self.names.get(sender, sender)}:{number}"


def space_time(
    steps: Sequence[Step], members: Sequence[str] = (), every_step: bool = False, last: int = MARKS_MAX
) -> SpaceTime:
    """The diagram of these steps: of these members alone if any are named, and of the last so many marks."""
    ordered = causal_order(steps)
    known = _members(ordered)
    called = _names(known)
    drawn = _chosen(known, called, members)
    marks = [
        mark
        for mark in _Teller(steps).marks(ordered)
        if (every_step or mark.kind in MESSAGE_KINDS) and (mark.kind is Kind.VIEW or mark.member in drawn)
    ]
    left_out = max(len(marks) - min(last, MARKS_MAX), 0)
    marks = _with_flights(marks)[left_out:]
    marks = [_moved(mark, left_out) for mark in marks]
    begin_ms = min((step.at_ms for step in steps), default=0)
    return SpaceTime(drawn, called, marks, left_out, begin_ms)


class _Teller:
    """Goes through all steps once, causes first, and remembers what later marks have to tell."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._stamps: dict[Message, dict[str, int]] = {}
        self._texts: dict[Message, str] = {}
        self._held: dict[tuple[str, Message], int] = {}
        self._concurrent: dict[tuple[str, Message], tuple[Range, ...]] = {}
        for step in steps:
            if step.name == names.SENT:
                self._stamps[step.sender, step.number] = step.vector
            if step.text and _KINDS.get(step.name) in (Kind.SENT, Kind.FORWARDED, Kind.DELIVERED, Kind.ORDERED):
                self._texts.setdefault((step.sender, step.number), step.text)

    def marks(self, ordered: Sequence[Sequence[Step]]) -> Iterator[Mark]:
        for node in ordered:
            yield self._mark(max(node, key=lambda step: len(step.members)))

    def _mark(self, step: Step) -> Mark:
        message, kind = (step.sender, step.number), _KINDS.get(step.name, Kind.OTHER)
        here = step.member, message
        mark = Mark(kind, step, readable(self._texts.get(message, "") if step.number else step.text))
        if kind is Kind.HELD:
            self._held.setdefault(here, step.at_ms)
        elif kind is Kind.CONCURRENT:
            self._concurrent[here] = self._unseen(step)
            return replace(mark, concurrent=self._concurrent[here])
        elif kind is Kind.DELIVERED:
            held_at = self._held.pop(here, None)
            held_ms = None if held_at is None else max(step.at_ms - held_at, 0)
            concurrent = self._concurrent.pop(here, None)
            return replace(mark, held_ms=held_ms, concurrent=concurrent, overtakes=self._overtaken(step))
        return mark

    def _unseen(self, step: Step) -> tuple[Range, ...]:
        stamp = self._stamps.get((step.sender, step.number), {})
        return tuple(
            (user, stamp[user] + 1, count)
            for user, count in step.vector.items()
            if user in stamp and user != step.sender and stamp[user] < count
        )

    def _overtaken(self, step: Step) -> Message | None:
        for user, count in self._stamps.get((step.sender, step.number), {}).items():
            if user in step.vector and user != step.member and step.vector[user] < count:
                return user, step.vector[user] + 1
        return None


def _with_flights(marks: Sequence[Mark]) -> list[Mark]:
    """Each message arrives once at each member: at its first mark there."""
    left: dict[Message, int] = {}
    arrived: dict[tuple[str, Message], int] = {}
    found = []
    for place, mark in enumerate(marks):
        message, here = mark.message, (mark.member, mark.message)
        arrives = mark.kind in ARRIVALS or (mark.kind is Kind.ORDERED and mark.member != mark.step.sender)
        if arrives and here not in arrived:
            origin = left.get(message)
            source = mark.step.sender if origin is None else marks[origin].member
            if source != mark.member:
                mark = replace(mark, source=source, origin=origin)
        if mark.kind in ARRIVALS:
            arrived[here] = place
        if mark.kind is Kind.ORDERED or (mark.kind in (Kind.SENT, Kind.FORWARDED) and message not in left):
            left[message] = place
        found.append(mark)
    return found


def readable(text: str) -> str:
    """Texts are other people's: whatever would move a cursor or break a picture is shown as a sign."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _moved(mark: Mark, by: int) -> Mark:
    """For a list without its first `by` marks."""
    if not by or mark.origin is None:
        return mark
    return replace(mark, origin=mark.origin - by if mark.origin >= by else None)


def _members(ordered: Sequence[Sequence[Step]]) -> list[str]:
    found: dict[str, None] = {}
    for node in ordered:
        for step in node:
            found.update(dict.fromkeys(step.members))
            if step.name != names.VIEW:
                found.update(dict.fromkeys(user for user in (step.member, step.sender, *step.vector) if user))
    for node in ordered:
        found.update(dict.fromkeys(step.member for step in node))
    return list(found)


def _names(members: Sequence[str]) -> dict[str, str]:
    bare = {member: member.rpartition("#")[0] or member for member in members}
    bearers = Counter(bare.values())
    return {member: readable(name if bearers[name] == 1 else member) for member, name in bare.items()}


def _chosen(known: Sequence[str], called: dict[str, str], wanted: Sequence[str]) -> list[str]:
    for name in wanted:
        if not any(_is_called(member, name) for member in known):
            raise UsageError(f"nobody in this trace is called {name!r}: use some of {', '.join(called.values())}")
    return [member for member in known if not wanted or any(_is_called(member, name) for name in wanted)]


def _is_called(member: str, name: str) -> bool:
    return name in (member, member.rpartition("#")[0])
