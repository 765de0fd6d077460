"""What a device and a link say to each other: JSON text over a WebSocket, one object per message.

The field ``type`` names the message. `docs/device-protocol.md` is the reference for other languages.
A resent event must carry the same text as before: a digest of it tells a reused number from a resend.
"""

from __future__ import annotations

import msgspec

DeviceEvent = tuple[int, str, msgspec.Raw]
"""(sequencer, name, payload)"""
KillNote = tuple[int, str, str]
"""(sequencer, outcome, reason)"""


# From the device.


class Bootstrap(msgspec.Struct, frozen=True, tag="bootstrap"):
    """First on each connection, and again whenever the device has lost its place."""

    space: str
    device: str
    next: int = 1
    events: list[DeviceEvent] = []
    generation: int = 0
    version: int = 0
    token: str = ""


class Observe(msgspec.Struct, frozen=True, tag="observe"):
    """Watch a space without a name; any link of its chain serves it."""

    space: str
    generation: int = 0
    version: int = 0


class Send(msgspec.Struct, frozen=True, tag="events"):
    events: list[DeviceEvent]


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    pass


# To the device.


class Welcome(msgspec.Struct, frozen=True, tag="welcome", omit_defaults=True):
    """The answer to a bootstrap or an observe. Either `state` or `patches` (since the asked version) is set."""

    generation: int
    epoch: int
    version: int
    next: int = 0
    kills: list[KillNote] = []
    events: list[DeviceEvent] = []
    state: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    patches: list[msgspec.Raw] = []
    links: list[str] = []


class Changed(msgspec.Struct, frozen=True, tag="change", omit_defaults=True):
    """Committed changes since `since`, all at once. The kills are the receiver's own events."""

    since: int
    version: int
    state: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    patches: list[msgspec.Raw] = []
    kills: list[KillNote] = []


class Gap(msgspec.Struct, frozen=True, tag="gap"):
    """Send again from `expected`."""

    expected: int


class Busy(msgspec.Struct, frozen=True, tag="busy"):
    """A bound was reached: send again from `expected` after `retry_ms`."""

    expected: int
    retry_ms: int
    detail: str


class Redirect(msgspec.Struct, frozen=True, tag="redirect"):
    """Another link serves this space, or will once `retry_ms` has passed (`url` is then empty)."""

    url: str
    retry_ms: int = 0


class Refused(msgspec.Struct, frozen=True, tag="error"):
    """A fault of the sender. With a sequencer the event was not taken, and never will be as it is."""

    code: str
    detail: str
    sequencer: int = 0


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    pass


FromDevice = Bootstrap | Observe | Send | Ping
ToDevice = Welcome | Changed | Gap | Busy | Redirect | Refused | Pong
