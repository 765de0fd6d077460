"""One member in one view: did it get each message once, in its turn, and after its causes?

The counts are made anew from the member's own steps; nothing is believed because a vector says so. Because one sender's
messages come in sequence, a count of each sender is the set of all that was had: so the counts at the moment of a send
are exactly the causes of the message, and those at a delivery are exactly what was there.

- `fifo`, `causal`, `history` and `total` keep each sender's sequence;
- `causal` and `history` also deliver nothing before its causes;
- what was sent stands in the sender's own trace, or, under `total`, in the coordinator's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from octoloom.core import steps as names
from octoloom.core.traces import CAUSAL, HISTORY, NONE, MemberTrace, Message, Stay

Wrong = tuple[str, str, Message]
"""The name of what is wrong, an explanation, and the message that it is about."""
VECTORED = ("fifo", CAUSAL)
"""Orders in which a step's vector is the counts after it."""
Pasts = dict[Message, dict[str, int]]
"""What the sender of each message had when it sent it."""


def pasts_of(stay: Stay) -> Pasts:
    counts, pasts = dict(stay.begin), Pasts()
    for step in stay.steps:
        if step.name == names.SENT:
            pasts[step.sender, step.number] = {k: n for k, n in counts.items() if k != step.sender}
        counts[step.sender] = step.number
    return pasts


def sequence_wrongs(stay: Stay) -> Iterator[Wrong]:
    """Each sender's messages in sequence, and vectors that add up."""
    counts = dict(stay.begin)
    later = set(stay.delivered())
    for step in stay.steps:
        sender, number, message = step.sender, step.number, (step.sender, step.number)
        if stay.members and sender not in stay.members:
            yield "not-a-member", f"{sender} is not in view {stay.epoch}", message
        if stay.order == NONE or not stay.order:
            continue
        last = counts.get(sender)
        if last is not None and number != last + 1:
            missing = (sender, last + 1)
            if number <= last or missing in later:
                text = f"{_told(message)} comes after {_told((sender, last))}, in view {stay.epoch}"
                yield "fifo-broken", text, message
            elif step.name == names.DELIVERED:
                yield "lost-at-member", f"{_told(missing)} is left out before {_told(message)}", missing
        counts[sender] = number if last is None else max(number, last)
        if stay.order in VECTORED and step.vector and stay.begin:
            wrong = next((k for k, n in step.vector.items() if n != counts.get(k, 0)), None)
            if wrong is not None:
                text = f"after {_told(message)} it counts {step.vector[wrong]} of {wrong}"
                text = f"{text}, and its steps say {counts.get(wrong, 0)}"
                yield "vector-differs", text, message


def cause_wrongs(stay: Stay, pasts: Mapping[Message, dict[str, int]]) -> Iterator[Wrong]:
    """Nothing before its causes."""
    if stay.order not in (CAUSAL, HISTORY):
        return
    counts = dict(stay.begin)
    for step in stay.steps:
        message = step.sender, step.number
        if step.name == names.DELIVERED:
            past = pasts.get(message, {})
            lacks = next(((k, n) for k, n in past.items() if n > counts.get(k, 0)), None)
            if lacks is not None:
                yield "cause-missing", f"{_told(message)} comes before its cause {_told(lacks)}", message
        counts[step.sender] = max(step.number, counts.get(step.sender, 0))


def origin_wrongs(stay: Stay, sends: Mapping[tuple[int, str], Mapping[Message, None]]) -> Iterator[Wrong]:
    """Whatever was delivered was sent. `sends` has what each member sent or ordered in each view, if it is known."""
    for step in stay.steps:
        # Under `total` the coordinator casts: what it has not ordered was not cast.
        caster = stay.members[0] if stay.is_total and stay.members else step.sender
        sent = sends.get((stay.epoch, caster))
        message = step.sender, step.number
        if step.name != names.DELIVERED or sent is None or message in sent:
            continue
        views = [epoch for (epoch, member), others in sends.items() if member == caster and message in others]
        if views:
            yield "view-misplaced", f"{_told(message)} is of view {views[0]}, and comes in view {stay.epoch}", message
        else:
            yield "never-sent", f"nobody sent {_told(message)} in view {stay.epoch}", message


def own_wrongs(stay: Stay) -> Iterator[Wrong]:
    """A coordinator that has gone on has had all that it has ordered."""
    if stay.is_total and stay.whole and stay.then and stay.members[:1] == [stay.member]:
        had = stay.had()
        for message in [each for each in stay.ordered if each not in had]:
            yield "lost-at-member", f"{_told(message)} was ordered here in view {stay.epoch}, and did not come", message


def double_wrongs(trace: MemberTrace) -> Iterator[tuple[int, Wrong]]:
    """Each message once, in all views: casts and what a coordinator orders are numbered each by themselves."""
    seen: dict[tuple[bool, Message], int] = {}
    for stay in trace.stays.values():
        for message in stay.delivered():
            key = stay.is_total, message
            if key in seen:
                text = f"{_told(message)} came in view {seen[key]}, and again in view {stay.epoch}"
                yield stay.epoch, ("delivered-twice", text, message)
            seen[key] = stay.epoch


def _told(message: Message) -> str:
    return f"{message[0]}:{message[1]}"
