"""Is one change what it says? It must agree with the events beside it, and with the space that it changes.

What can be known without the app: the events are those that the kills settle, word for word (digest); timers and who is
present follow from the events; a change that applied nothing changes nothing. A patch is the smallest one, so what it
sets was otherwise before and what it removes was there: if not, the state before is not the one it was made for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from octoloom.core import merge_patch
from octoloom.core.event import JOIN, PRESENCE, TIMER, Change, Event, Kill, Outcome
from octoloom.core.space import Space, decode_json

Wrong = tuple[str, str, Kill | None]
"""The name of what is wrong, an explanation, and the event that it is about."""
ENDS = (Outcome.APPLIED, Outcome.REJECTED, Outcome.SUPERSEDED, Outcome.QUARANTINED)


def event_wrongs(change: Change, events: list[Event]) -> Iterator[Wrong]:
    """One event for each kill, in the same order, and the same that was settled."""
    told = {event.chain_sequencer: event for event in events}
    missing = [kill for kill in change.kills if kill.chain_sequencer not in told]
    for kill in missing:
        yield "event-missing", f"event {kill.sequencer} of {kill.device} is settled, and not told", kill
    if not missing and len(events) > len(change.kills):
        yield "event-mismatch", f"{len(change.kills)} events are settled, {len(events)} told", None
    elif not missing and [e.chain_sequencer for e in events] != [k.chain_sequencer for k in change.kills]:
        yield "event-mismatch", "the events are told in another order than they were settled in", None
    for kill in change.kills:
        if kill.outcome not in ENDS:
            yield "outcome-invalid", f"event {kill.sequencer} of {kill.device} ends as {kill.outcome.word}", kill
        event = told.get(kill.chain_sequencer)
        if event is None:
            continue
        if (event.device, event.sequencer) != (kill.device, kill.sequencer):
            text = f"event {kill.sequencer} of {kill.device} is settled, {event.sequencer} of {event.device} is told"
            yield "event-mismatch", text, kill
        elif event.digest != kill.digest:
            text = f"{event.name} of {kill.device} has the digest {event.digest}, {kill.digest} was settled"
            yield "digest-differs", text, kill


def time_wrongs(events: list[Event], highest: int, time_ms: int) -> Iterator[Wrong]:
    """Time never goes back along the chain. `highest` is the last place that was settled before, at `time_ms`."""
    ahead = [event for event in events if event.chain_sequencer > highest]
    for event in sorted(ahead, key=lambda one: one.chain_sequencer):
        if event.time_ms < time_ms:
            text = f"event {event.sequencer} of {event.device} is of {event.time_ms}, one before it of {time_ms}"
            yield "time-back", text, Kill(event.chain_sequencer, event.device, event.sequencer, Outcome.APPLIED)
        time_ms = max(time_ms, event.time_ms)


def timer_wrongs(change: Change, events: list[Event], space: Space) -> Iterator[Wrong]:
    """Timers go off if they are set, once, as what they were set to be."""
    told = {event.chain_sequencer: event for event in events}
    set_now = dict(space.timers)
    for kill in change.kills:
        if kill.device != TIMER or kill.outcome is Outcome.QUARANTINED:
            continue
        timer = set_now.pop(kill.sequencer, None)
        event = told.get(kill.chain_sequencer)
        if kill.outcome is Outcome.SUPERSEDED:
            if timer is not None and kill.sequencer not in change.cancelled:
                yield "timer-dropped", f"timer {kill.sequencer} was set, and is superseded", kill
        elif timer is None:
            yield "timer-unset", f"timer {kill.sequencer} goes off, and was not set", kill
        elif event is not None and (event.name, event.payload) != (timer.name, timer.payload):
            text = (
                f"timer {kill.sequencer} was set to be {timer.name}, and goes off as {event.name} or with other words"
            )
            yield "timer-unset", text, kill
    numbers = [timer.timer for timer in change.timers]
    if numbers != list(range(space.next_timer, space.next_timer + len(numbers))):
        yield "timer-number", f"timers {numbers[:5]} are set where {space.next_timer} is next", None


def presence_wrongs(change: Change, events: list[Event]) -> Iterator[Wrong]:
    if len(events) != len(change.kills):
        return
    came: list[tuple[Any, bool]] = []
    for event in events:
        if event.device == PRESENCE:
            payload = decode_json(event.payload)
            came.append((payload.get("device") if isinstance(payload, dict) else None, event.name == JOIN))
    if came != [tuple(each) for each in change.presence]:
        yield "presence-differs", f"the events say {came[:3]}, the change {change.presence[:3]}", None


def effect_wrongs(change: Change, space: Space) -> Iterator[Wrong]:
    """The patch against the state before, and against there being a reason for it."""
    patch = decode_json(change.merge)
    is_applied = any(kill.outcome is Outcome.APPLIED for kill in change.kills)
    # The first change brings the app's initial state with it.
    if not is_applied and space.version and (patch or change.replace or change.timers or change.cancelled):
        yield "effect-without-cause", "the state or its timers change, and no event was applied", None
    if change.replace:
        return
    idle = idle_path(space.state, patch)
    if idle is not None:
        yield "patch-idle", f"the patch says of {'.'.join(idle)} what is so already", None


def idle_path(state: Any, patch: dict[str, Any]) -> tuple[str, ...] | None:
    """Where a patch says nothing new; None if every word of it does."""
    for key, value in patch.items():
        if key not in state:
            if value is None:
                return (key,)
            continue
        now = state[key]
        if isinstance(value, dict) and isinstance(now, dict):
            inner = idle_path(now, value) if value else ()
            if inner is not None:
                return (key, *inner)
        elif value is not None and merge_patch.same(now, value):
            return (key,)
    return None
