"""What the members of an ordered group say to each other, and what the register and they say.

A member is (name, incarnation), written ``name#incarnation``, as a link is: who comes back is somebody new. A view is
the group in one epoch: its members, oldest first, and the order that they deliver in. The first is the coordinator.

The unit of everything is the *bundle*: what one member sent at once, its payload opaque. A *cast* carries bundles to
all members of a view. Under `total` the coordinator's casts carry everybody's bundles, otherwise each member's its own.

Parts are what travels. Those up to `Numbered` may be lost, doubled and reordered on the way. `Numbered` carries the
others, which must arrive, once and in order.
"""

from __future__ import annotations

import msgspec

# Between the register and members.


class MemberAddress(msgspec.Struct, frozen=True):
    """Where a member listens (host:port). `transport` is tcp or udp, one for the whole group."""

    member: str
    peer: str
    transport: str = "tcp"
    pid: int = 0


class GroupView(msgspec.Struct, frozen=True, tag=60):
    """A group in one epoch. The epochs of all groups come from one counter, so none is ever used twice."""

    group: str
    epoch: int
    order: str
    members: list[MemberAddress]
    """Oldest first."""

    @property
    def names(self) -> list[str]:
        return [address.member for address in self.members]


class EnlistMember(msgspec.Struct, frozen=True, tag=61):
    """First on each connection of a member. `order` counts for the first member of a group; others may leave it empty.

    `epoch` is the newest view that the member knows: a register that never announced it has lost its store.
    """

    group: str
    address: MemberAddress
    order: str = ""
    epoch: int = 0


class LeaveGroup(msgspec.Struct, frozen=True, tag=62):
    """The member goes: its next view is the one without it."""


class SetOrder(msgspec.Struct, frozen=True, tag=63):
    """Have the group deliver in another order, from its next view on."""

    order: str


class SuspectMember(msgspec.Struct, frozen=True, tag=64):
    """The member cannot reach this other one in this epoch. Said again while it lasts."""

    epoch: int
    member: str


class AskGroups(msgspec.Struct, frozen=True, tag=65):
    """Which groups are there?"""


class GroupList(msgspec.Struct, frozen=True, tag=66):
    views: list[GroupView]


# Between members: what may be lost on the way.


class Bundle(msgspec.Struct, frozen=True, array_like=True):
    """`count` messages that `origin` sent at once; `number` counts its bundles, from 1, over all views."""

    origin: str
    number: int
    count: int
    payload: bytes


class Cast(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """One sender's `number`-th cast (counted on over views). `stamp` is the order's; `plain` passes by the order."""

    epoch: int
    sender: str
    number: int
    bundles: list[Bundle]
    stamp: list[int] = []
    plain: bool = False


class Resent(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Casts that somebody asked for again; any member that has them may say them."""

    casts: list[Cast]


class Nak(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Casts that are missing here: (sender, first, last)."""

    epoch: int
    missing: list[tuple[str, int, int]]


class Have(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """To the coordinator: up to where this member has each sender's casts without a hole, in the view's order."""

    epoch: int
    counts: list[int]


class Stable(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """From the coordinator: up to where all members have each sender's casts, and which is the last known."""

    epoch: int
    counts: list[int]
    last: list[int]


class Acked(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """All numbered parts up to here have arrived."""

    number: int


# Between members: what must arrive, in order.


class Forward(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """Bundles for the coordinator to cast."""

    epoch: int
    bundles: list[Bundle]


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """A forward that was not taken, and why: the sender sends it again once it is in the right view."""

    epoch: int
    code: str
    detail: str


class Direct(msgspec.Struct, frozen=True, array_like=True, tag=22):
    """A message to one member alone."""

    payload: bytes


class Delay(msgspec.Struct, frozen=True, array_like=True, tag=23):
    """Hold my casts for at least so long before you look at them: for tests and demonstrations."""

    delay_ms: int


class Report(msgspec.Struct, frozen=True, array_like=True, tag=24):
    """To the coordinator of view `epoch`: the last view that is installed here, and what is here of its casts."""

    epoch: int
    installed: Install | None
    have: dict[str, tuple[int, list[int]]]
    """By sender: (watermark, the numbers above it)."""
    wants_state: bool = False


class Fetch(msgspec.Struct, frozen=True, array_like=True, tag=25):
    """The coordinator lacks these: (sender, number)."""

    epoch: int
    wanted: list[tuple[str, int]]


class Fill(msgspec.Struct, frozen=True, array_like=True, tag=26):
    """Casts of the last view that the receiver lacks."""

    epoch: int
    casts: list[Cast]


class Cut(msgspec.Struct, frozen=True, array_like=True, tag=27):
    """All that there is of the last view. Who holds all of it says `Ready`."""

    epoch: int
    union: dict[str, tuple[int, list[int]]]


class Ready(msgspec.Struct, frozen=True, array_like=True, tag=28):
    epoch: int


class Install(msgspec.Struct, frozen=True, array_like=True, tag=29):
    """Deliver the rest of view `previous` (its union), then begin this one. Decided once all members are ready.

    `vector` says where each member's casts and bundles begin: (casts, bundles) before this view.
    """

    view: GroupView
    previous: int
    union: dict[str, tuple[int, list[int]]]
    vector: dict[str, tuple[int, int]]
    newcomers: list[str]
    """Those who need the state of somebody who was there before."""


class State(msgspec.Struct, frozen=True, array_like=True, tag=30):
    """The app's state where view `epoch` begins, for who joined in it."""

    epoch: int
    payload: bytes


Reliable = Forward | Refused | Direct | Delay | Report | Fetch | Fill | Cut | Ready | Install | State


class Numbered(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The `number`-th part that must arrive, from one member to another."""

    number: int
    part: Reliable


Part = Cast | Resent | Nak | Have | Stable | Acked | Numbered


class Packet(msgspec.Struct, frozen=True, array_like=True):
    """What one member says to another at once. A receiver with another incarnation drops it."""

    group: str
    sender: str
    to: str
    parts: list[Part]


MemberToRegister = EnlistMember | LeaveGroup | SetOrder | SuspectMember | AskGroups
RegisterToMember = GroupView | GroupList
