"""The proof that a group kept its order: what each member wrote down of what it was handed, against all the others.

A *life* is one member from its join to its end, and all that it noted: each message in its place, and each change of
the group in its place among them. One that founded the group and lived to the end is the *reference*. In total order:

1. of a sender that lived, the reference has all messages; of any sender those from the first on, in order, once each;
2. who lived has what the reference has, from its own place on: changes of the group in the same places, too;
3. who died has a piece of that. Only in its last view it may have more than the others ever got: what follows for these
   is then a change of the group.

In causal order there is no reference: messages say what their senders had seen, so every life is judged by itself,
and besides all must have the same messages between the same two changes of the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from octoloom.core.roster import name_of


class Heard(msgspec.Struct, array_like=True, frozen=True, tag="heard"):
    """A message: the `number`-th of this member. `seen` counts what its sender had seen of the others by then."""

    at_ms: float
    sender: str
    number: int
    seen: dict[str, int] = {}


class Moved(msgspec.Struct, array_like=True, frozen=True, tag="moved"):
    """Somebody joined or left, and who is there now."""

    at_ms: float
    word: str
    name: str
    names: list[str]


class Ended(msgspec.Struct, array_like=True, frozen=True, tag="ended"):
    """The group went on without this member, which has sent so many; of these numbers it is not sure."""

    at_ms: float
    sent: int
    unsure: list[int]
    why: str


Line = Heard | Moved | Ended


class Life(msgspec.Struct):
    member: str
    founded: bool
    """Was in the first view that counts, with all other founders."""
    lived: bool = True
    to_send: int = 0
    lines: list[Line] = []

    @property
    def heard(self) -> list[Heard]:
        return [line for line in self.lines if isinstance(line, Heard)]

    def stream(self) -> list[object]:
        """All that must be the same for others, in order."""
        return [_key(line) for line in self.lines if not isinstance(line, Ended)]


def _key(line: Heard | Moved) -> tuple[object, ...]:
    return (line.sender, line.number) if isinstance(line, Heard) else (line.word, line.name, *line.names)


def longest_pause_ms(lives: Sequence[Life], since_ms: float, until_ms: float) -> float:
    """The longest time without a message, at any of these, whose middle lies in this stretch of time."""
    pauses = [0.0]
    for life in lives:
        times = [heard.at_ms for heard in life.heard]
        pauses += [after - at for at, after in pairwise(times) if since_ms <= (at + after) / 2 < until_ms]
    return max(pauses)


# Total order.


def one_order_doubts(lives: Sequence[Life]) -> Iterator[str]:
    reference = next((life for life in lives if life.founded and life.lived), None)
    if reference is None or not reference.heard:
        yield "nobody who founded the group lived and heard anything, so nothing is proved"
        return
    yield from _sender_doubts(lives, reference)
    stream, lives_of = reference.stream(), Counter[str]()
    for life in lives:
        name = name_of(life.member)
        start = 0 if life.founded else _join(reference, name, lives_of[name])
        lives_of[name] += not life.founded
        if start is None:
            if life.lived or life.heard:
                yield f"{life.member} was there, and {reference.member} did not see it come"
            continue
        yield from _piece_doubts(life, stream[start:], reference.member)


def _sender_doubts(lives: Sequence[Life], reference: Life) -> Iterator[str]:
    numbers: dict[str, list[int]] = {}
    for heard in reference.heard:
        numbers.setdefault(heard.sender, []).append(heard.number)
    for sender, found in numbers.items():
        if found != list(range(1, len(found) + 1)):
            at = next(at for at, number in enumerate(found, start=1) if number != at)
            yield f"number {found[at - 1]} of {sender} came as the {at}. to {reference.member}"
    for life in lives:
        count = len(numbers.get(life.member, []))
        if life.lived and count != life.to_send:
            yield f"{life.member} sent {life.to_send} messages, and {reference.member} has {count}"


def unsure_doubts(lives: Sequence[Life]) -> Iterator[str]:
    """Who was expelled must have been told of each message that nobody else has, and may be told of more."""
    had = {(heard.sender, heard.number) for life in lives if life.lived for heard in life.heard}
    for life in lives:
        for ended in [line for line in life.lines if isinstance(line, Ended)]:
            lost = [number for number in range(1, ended.sent + 1) if (life.member, number) not in had]
            if missing := [number for number in lost if number not in ended.unsure]:
                yield f"{life.member} is not told that number {missing[0]} of its {ended.sent} is in doubt"


def _join(reference: Life, name: str, nth: int) -> int | None:
    """Where in the reference's stream the nth newcomer of this name begins."""
    lines = [line for line in reference.lines if not isinstance(line, Ended)]
    joins = [
        at for at, line in enumerate(lines) if isinstance(line, Moved) and (line.word, line.name) == ("join", name)
    ]
    if nth >= len(joins):
        return None
    at = joins[nth]
    names = lines[at].names if isinstance(lines[at], Moved) else []  # type: ignore[union-attr]
    # Those who came with it are noted one by one, and are all before its first message.
    while at + 1 < len(lines) and isinstance(after := lines[at + 1], Moved) and after.names == names:
        at += 1
    return at + 1


def _piece_doubts(life: Life, right: list[object], reference: str) -> Iterator[str]:
    stream = life.stream()
    same = next((at for at, (a, b) in enumerate(zip(stream, right, strict=False)) if a != b), None)
    if same is None:
        same = min(len(stream), len(right))
    if life.lived and len(stream) != len(right):
        yield f"{life.member} was handed {len(stream)} things, {reference} {len(right)} since it came"
    elif life.lived and same < len(right):
        yield f"{life.member} has {stream[same]} where {reference} has {right[same]}"
    elif not life.lived and same < len(stream) and not _is_move(right[same : same + 1]):
        there = right[same] if same < len(right) else "nothing"
        yield f"{life.member}, which died, had {stream[same]} where {reference} has {there}"


def _is_move(found: list[object]) -> bool:
    return bool(found) and isinstance(found[0], tuple) and found[0][0] in ("join", "leave")


# Causal order.


def causal_doubts(lives: Sequence[Life]) -> Iterator[str]:
    """Each life was handed nothing before its causes; and all who lived the same between two changes."""
    founders = [life for life in lives if life.founded and life.lived]
    if len(founders) < 2:
        yield "fewer than two founders lived, so nothing is proved"
        return
    yield from _same_between_changes(founders)
    lives_of = Counter[str]()
    for life in lives:
        name = name_of(life.member)
        before: dict[str, int] | None = {} if life.founded else _seen_before(founders, name, lives_of[name])
        lives_of[name] += not life.founded
        if before is None:
            if life.heard:
                yield f"{life.member} was there, and nobody saw it come"
            continue
        yield from _cause_doubts(life, before)
        if life.lived:
            yield from _whole_doubts(life, lives, before)


def _cause_doubts(life: Life, before: dict[str, int]) -> Iterator[str]:
    seen = dict(before)
    for heard in life.heard:
        if heard.number != seen.get(heard.sender, 0) + 1:
            yield f"{life.member} has number {heard.number} of {heard.sender} after {seen.get(heard.sender, 0)}"
            return
        for other, count in heard.seen.items():
            if other not in (life.member, heard.sender) and seen.get(other, 0) < count:
                yield f"{life.member} has number {heard.number} of {heard.sender} before number {count} of {other}"
                return
        seen[heard.sender] = heard.number


def _whole_doubts(life: Life, lives: Sequence[Life], before: dict[str, int]) -> Iterator[str]:
    counts = Counter(heard.sender for heard in life.heard)
    for other in lives:
        if other.lived and other is not life and counts[other.member] != other.to_send - before.get(other.member, 0):
            yield f"{life.member} has {counts[other.member]} messages of {other.member}, which sent {other.to_send}"


def _chapters(life: Life) -> list[tuple[tuple[object, ...], Counter[str]]]:
    """How many of each sender came up to each change of the group."""
    chapters, counts = [], Counter[str]()
    for line in life.lines:
        if isinstance(line, Heard):
            counts[line.sender] += 1
        elif isinstance(line, Moved):
            chapters.append((_key(line), Counter(counts)))
    return chapters


def _same_between_changes(founders: list[Life]) -> Iterator[str]:
    first, *others = founders
    for other in others:
        here, there = _chapters(first), _chapters(other)
        if [key for key, _ in here] != [key for key, _ in there]:
            yield f"{first.member} and {other.member} saw different changes of the group"
        for (key, ours), (_, theirs) in zip(here, there, strict=False):
            own = (first.member, other.member)
            if {s: n for s, n in ours.items() if s not in own} != {s: n for s, n in theirs.items() if s not in own}:
                yield f"{first.member} and {other.member} had not the same messages before {key}"
                break


def _seen_before(founders: list[Life], name: str, nth: int) -> dict[str, int] | None:
    """What everybody had been handed where this newcomer began: own messages are known by the others."""
    before: dict[str, int] = {}
    for founder in founders:
        joins = [counts for key, counts in _chapters(founder) if key[:2] == ("join", name)]
        if nth >= len(joins):
            return None
        before |= {sender: max(count, before.get(sender, 0)) for sender, count in joins[nth].items()}
    return before
