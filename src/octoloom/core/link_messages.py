"""What links say to each other. Every message names the chain and the epoch of the view that it was said in.

=========  ==========  =============================================================================
message    direction   meaning
=========  ==========  =============================================================================
Hello      up          the lower neighbour (or a learner) tells where it stands in each space
Welcome    down        the upper neighbour's answer: where it stands
Snapshot   down or up  all of a space, where the changes in between are no longer in the ring
Events     down        events in the chain's order
Changes    up          changes in version order (down: to a learner, or to a new tail at its welcome)
Synced     down        all that the upper neighbour had at the welcome has now been sent
Ack        down        these versions are committed, and those are in the journal
Stale      either      the sender of the answered message is behind: the epoch here is this one
=========  ==========  =============================================================================
"""

from __future__ import annotations

import msgspec

from octoloom.core.event import Change, Event, SpaceSnapshot


class Position(msgspec.Struct, frozen=True, array_like=True, gc=False):
    space: str
    next_chain_sequencer: int
    version: int


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=1):
    chain: str
    epoch: int
    positions: list[Position]


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=2):
    chain: str
    epoch: int
    positions: list[Position]


class Snapshot(msgspec.Struct, frozen=True, array_like=True, tag=3):
    chain: str
    epoch: int
    snapshot: SpaceSnapshot


class Events(msgspec.Struct, frozen=True, array_like=True, tag=4):
    chain: str
    epoch: int
    space: str
    events: list[Event]


class Changes(msgspec.Struct, frozen=True, array_like=True, tag=5):
    chain: str
    epoch: int
    space: str
    changes: list[Change]
    consumed: list[Event] = []
    """Events that the changes consumed, where the receiver may never have held them and the journal lacks them."""


class Synced(msgspec.Struct, frozen=True, array_like=True, tag=6):
    chain: str
    epoch: int


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=7):
    chain: str
    epoch: int
    versions: list[tuple[str, int]]
    journaled: list[tuple[str, int]] = []


class Stale(msgspec.Struct, frozen=True, array_like=True, tag=8):
    chain: str
    epoch: int


LinkMessage = Hello | Welcome | Snapshot | Events | Changes | Synced | Ack | Stale
