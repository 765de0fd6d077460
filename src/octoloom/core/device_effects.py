"""What a device's core works with: its pending events, its bounds, what it saves and the effects that it asks for.

Effects are obeyed in their order. Nothing that follows a `Persist` may leave the process, or be told to the
application, before that `Persist` is durable; a driver may make many of them durable with one sync.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from octoloom.core.device_messages import FromDevice
from octoloom.core.errors import UsageError
from octoloom.core.event import SYSTEM, Event, Outcome
from octoloom.core.merge_patch import nests_deeper

EVENT_NAME_MAX = 64
PAYLOAD_BYTES_MAX = 64 * 1024
DEPTH_MAX = 32
EVENT_FRAME_BYTES = 32
"""What an event costs in a message beyond its name and payload: number, brackets, commas."""


class Full(UsageError):  # noqa: N818 - a bound, named like the other refusals
    """The device's bound on unsettled events is reached: nothing was taken."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds and times of a device. A bootstrap carries all pending events in one message of at most 1 MiB."""

    pending_max: int = 256
    pending_bytes_max: int = 960 * 1024
    send_max: int = 256
    ping_ms: int = 500
    dead_ms: int = 1_500
    welcome_ms: int = 5_000
    retry_ms_max: int = 30_000
    redirects_max: int = 8


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """An event that is not settled. `sequencer` is 0 while it has no number, `ticket` if an earlier life sent it."""

    sequencer: int
    name: str
    payload: bytes
    ticket: int = 0
    device: str = ""

    @property
    def size(self) -> int:
        return len(self.payload) + len(msgspec.json.encode(self.name)) + EVENT_FRAME_BYTES


class Previewer(Protocol):
    """Folds pending events over a state that it may change: what the application shows before the chain answers."""

    def preview(self, state: dict[str, Any], events: list[Event]) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Saved:
    """All that a device keeps between two lives. It is read and written as one."""

    next_sequencer: int = 1
    version: int = 0
    generation: int = 0
    state: Any = field(default_factory=dict)
    pending: tuple[PendingEvent, ...] = ()
    queue: tuple[PendingEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Persist:
    """One atomic step of what is saved: removals first, then additions; `state` first, then `patches`."""

    next_sequencer: int
    version: int
    generation: int
    removed: tuple[int, ...] = ()
    numbered: tuple[PendingEvent, ...] = ()
    unqueued: tuple[int, ...] = ()
    queued: tuple[PendingEvent, ...] = ()
    state: bytes | None = None
    patches: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Send:
    """Say this on the current connection; it is void once that connection has ended."""

    message: FromDevice


@dataclass(frozen=True, slots=True)
class Settled:
    """An event of this device has ended. `ticket` is 0 if this life did not send it."""

    ticket: int
    sequencer: int
    outcome: Outcome
    reason: str
    version: int


@dataclass(frozen=True, slots=True)
class Advanced:
    """The state is now that of `version`."""

    version: int


@dataclass(frozen=True, slots=True)
class Dial:
    """Leave this connection and call `url` at once."""

    url: str


@dataclass(frozen=True, slots=True)
class Hangup:
    """Leave this connection and try another link after a pause."""

    detail: str


@dataclass(frozen=True, slots=True)
class Reset:
    """The chain began a new history: what the device knew of the old one is gone."""

    generation: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """The chain refuses this device for good: connecting again would not help."""

    code: str
    detail: str


Effect = Persist | Send | Settled | Advanced | Dial | Hangup | Reset | Stopped


def check_event(name: str, payload: bytes) -> None:
    """Raises UsageError unless this name and payload could be an event of a device."""
    if not name or len(name) > EVENT_NAME_MAX:
        raise UsageError(f"an event's name has 1 to {EVENT_NAME_MAX} characters, this one has {len(name)}: shorten it")
    if name.startswith(SYSTEM):
        raise UsageError(f"event names that start with {SYSTEM!r} are the chain's own: rename {name!r}")
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise UsageError(
            f"the payload of {name!r} has {len(payload)} bytes, {PAYLOAD_BYTES_MAX} are allowed: "
            "split it, or send a reference to it"
        )
    if nests_deeper(payload, DEPTH_MAX):
        raise UsageError(f"the payload of {name!r} is nested deeper than {DEPTH_MAX}: flatten it")
    try:
        msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        raise UsageError(f"the payload of {name!r} is not JSON ({error}): encode it first") from None
