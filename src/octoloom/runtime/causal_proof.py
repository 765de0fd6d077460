"""The proof that a group kept its causal order, from what each member wrote down (`group_lives.py`).

Nobody's order is everybody's here. But messages say what their senders had seen, so every life is judged by itself: it
was handed each sender's messages in sequence, and none before what its sender had seen. Besides, all who lived must
have the same messages between the same two changes of the group.

A chat is judged by its words: each is said in answer to the one before it, so there is one right order to read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from octoloom.core.roster import name_of
from octoloom.runtime.group_lives import Heard, Life, Moved, key_of


class Chat(msgspec.Struct, frozen=True):
    """What was said, each in answer to the one before, and in which order one who was slow to hear `late` read it."""

    order: str
    slow: str
    late: str
    late_ms: int
    said: list[str]
    read: list[str]

    @property
    def too_early(self) -> list[str]:
        """What was read before something that it answers."""
        return [text for at, text in enumerate(self.read) if set(self._before(text)) - set(self.read[:at])]

    def _before(self, text: str) -> list[str]:
        return self.said[: self.said.index(text)] if text in self.said else []


def chat_doubts(ordered: Chat, unordered: Chat) -> Iterator[str]:
    """The order must have done what nothing else did."""
    for chat in (ordered, unordered):
        if sorted(chat.read) != sorted(chat.said):
            yield f"{chat.slow} read {len(chat.read)} words of {len(chat.said)} with {chat.order}"
    for text in ordered.too_early:
        yield f"{ordered.slow} read {text!r} before what it answers, with {ordered.order}"
    if not unordered.too_early:
        yield f"{unordered.slow} was not slow, so nothing is proved"


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
            chapters.append((key_of(line), Counter(counts)))
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
