"""What a link's core asks its driver to do. A driver obeys effects in order."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from octoloom.core.compute import Fault
from octoloom.core.device_messages import KillNote, ToDevice
from octoloom.core.event import Event, JournalEntry
from octoloom.core.link_messages import LinkMessage
from octoloom.core.register_messages import ToRegister


@dataclass(frozen=True, slots=True)
class ToPeer:
    """Send to a neighbour, in order, on the connection that `on_peer_up` told of."""

    peer: str
    message: LinkMessage


@dataclass(frozen=True, slots=True)
class Tell:
    """Send to one device or observer; `close` ends the connection behind it."""

    connection: int
    message: ToDevice
    close: bool = False


@dataclass(frozen=True, slots=True)
class Fan:
    """Send the same change to many. `state` or `patches` is JSON text; `kills` are the receivers' own events."""

    connections: Collection[int]
    since: int
    version: int
    state: bytes | None
    patches: list[bytes]
    kills: dict[int, list[KillNote]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the register."""

    message: ToRegister


@dataclass(frozen=True, slots=True)
class Trial:
    """Compute these events where it can do no harm, and call `on_trial` with those that ended the process."""

    space: str
    events: list[Event]


@dataclass(frozen=True, slots=True)
class Publish:
    """Append these to the journal, in order, and tell `on_journaled` how far it is. Try until it is done."""

    space: str
    generation: int
    entries: list[JournalEntry]


@dataclass(frozen=True, slots=True)
class Restore:
    """Read the journal and tell `on_restored` what it holds of this chain's spaces."""

    generation: int


Effect = ToPeer | Tell | Fan | Report | Trial | Fault | Publish | Restore
