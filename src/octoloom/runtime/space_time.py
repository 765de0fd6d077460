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
Key = tuple[str, int, int]
"""(sender, number, epoch): each order counts by itself, so a number alone may be used twice."""
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
TELLING = (names.SENT, names.FORWARDED, names.ORDERED, names.DELIVERED)
"""Steps whose text is what was said."""
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

    @property
    def key(self) -> Key:
        return _key(self.step)


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
        self._stamps: dict[Key, dict[str, int]] = {}
        self._texts: dict[Key, str] = {}
        self._forwarded: dict[Message, str] = {}
        """Texts of what was forwarded last: it may be ordered in another epoch."""
        self._held: dict[tuple[str, Key], int] = {}
        self._concurrent: dict[tuple[str, Key], tuple[Range, ...]] = {}
        for step in steps:
            if step.name == names.SENT:
                self._stamps[_key(step)] = step.vector
            if step.text and step.name in TELLING:
                self._texts.setdefault(_key(step), step.text)

    def marks(self, ordered: Sequence[Sequence[Step]]) -> Iterator[Mark]:
        for node in ordered:
            yield self._mark(min(node, key=lambda step: (-len(step.members), step.at_ms)))

    def _mark(self, step: Step) -> Mark:
        kind, here = _KINDS.get(step.name, Kind.OTHER), (step.member, _key(step))
        mark = Mark(kind, step, readable(self._text(step)))
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

    def _text(self, step: Step) -> str:
        if not step.number:
            return step.text
        message = step.sender, step.number
        if step.name == names.SENT:
            self._forwarded.pop(message, None)
        text = self._texts.get(_key(step)) or self._forwarded.get(message, "")
        if step.name == names.FORWARDED:
            self._forwarded[message] = text
        return text

    def _unseen(self, step: Step) -> tuple[Range, ...]:
        stamp = self._stamps.get(_key(step), {})
        return tuple(
            (user, stamp[user] + 1, count)
            for user, count in step.vector.items()
            if user in stamp and user != step.sender and stamp[user] < count
        )

    def _overtaken(self, step: Step) -> Message | None:
        for user, count in self._stamps.get(_key(step), {}).items():
            if user in step.vector and user != step.member and step.vector[user] < count:
                return user, step.vector[user] + 1
        return None


def _with_flights(marks: Sequence[Mark]) -> list[Mark]:
    """Each message arrives once at each member: at its first mark there."""
    left: dict[Message, int] = {}
    arrived: set[tuple[str, Key]] = set()
    found = []
    for place, mark in enumerate(marks):
        here = mark.member, mark.key
        arrives = mark.kind in ARRIVALS or (mark.kind is Kind.ORDERED and mark.member != mark.step.sender)
        if arrives and here not in arrived:
            origin = left.get(mark.message)
            source = mark.step.sender if origin is None else marks[origin].member
            if source != mark.member:
                mark = replace(mark, source=source, origin=origin)
        if mark.kind in ARRIVALS:
            arrived.add(here)
        if mark.kind in (Kind.SENT, Kind.ORDERED) or (
            mark.kind is Kind.FORWARDED and not _is_ordered(marks, left, mark)
        ):
            left[mark.message] = place
        found.append(mark)
    return found


def _is_ordered(marks: Sequence[Mark], left: dict[Message, int], mark: Mark) -> bool:
    """Whether it has been ordered in this epoch: then it comes from the coordinator, however often it is forwarded."""
    origin = left.get(mark.message)
    return origin is not None and marks[origin].kind is Kind.ORDERED and marks[origin].key == mark.key


def _key(step: Step) -> Key:
    return step.sender, step.number, step.epoch


def readable(text: str) -> str:
    """Texts are other people's: whatever would move a cursor or break a picture is shown as a sign."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _moved(mark: Mark, by: int) -> Mark:
    """For a list without its first `by` marks."""
    if not by or mark.origin is None:
        return mark
    return replace(mark, origin=mark.origin - by if mark.origin >= by else None)


def _members(ordered: Sequence[Sequence[Step]]) -> list[str]:
    """In the order of the views, and then those of whom no view tells."""
    found: dict[str, None] = {}
    for [step, *_] in ordered:
        found.update(dict.fromkeys(step.members))
    for node in ordered:
        for step in node:
            found.update(dict.fromkeys(user for user in (step.sender, step.member, *step.vector) if user))
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
