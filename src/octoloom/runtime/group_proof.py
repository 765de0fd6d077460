"""The proof that a group kept one order: what each member wrote down (`group_lives.py`), against all the others.

One that founded the group and lived to the end is the *reference*.

1. Of a sender that lived, the reference has all messages; of any sender those from the first on, in order, once each.
2. Who lived has what the reference has, from its own place on: changes of the group in the same places, too.
3. Who died has a piece of that. Only in its last view it may have more than the others ever got: what follows for these
   is then a change of the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from octoloom.core.roster import name_of
from octoloom.runtime.causal_proof import Chat
from octoloom.runtime.group_lives import Ended, Life, Moved


class GroupEvidence(msgspec.Struct):
    """What the groups of a story leave behind."""

    chats: list[Chat]
    lives: list[Life]
    """Of a group in total order."""
    pause_ms: float
    """The longest time in which one who lived was handed nothing."""


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
