"""What a group member's core asks its driver to do. A driver obeys effects in order."""

from __future__ import annotations

from dataclasses import dataclass

from octoloom.core.group_messages import Bundle, GroupView, Part, SuspectMember
from octoloom.core.steps import Step


@dataclass(frozen=True, slots=True)
class ToMembers:
    """Send to each of these. It may be lost: the core sends again what matters."""

    members: list[str]
    part: Part


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand a bundle to the app. `concurrent` names what was delivered before without being among its causes."""

    bundle: Bundle
    concurrent: tuple[tuple[str, int, int], ...] = ()
    path: int = 0


@dataclass(frozen=True, slots=True)
class DeliverDirect:
    """Hand over what a member sent to this one alone."""

    sender: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class InstallView:
    """From here on the group is this one. All members have had the same before it."""

    view: GroupView
    joined: list[str]
    left: list[str]


@dataclass(frozen=True, slots=True)
class NeedState:
    """Call `give_state` with the app's state at this place in what it was handed."""

    epoch: int
    members: list[str]


@dataclass(frozen=True, slots=True)
class TakeState:
    """The app's state, before anything else is handed to it. None: nobody has one, begin with nothing."""

    payload: bytes | None


@dataclass(frozen=True, slots=True)
class Dropped:
    """These bundles of one's own were not ordered before the coordinator was lost, and were not to be sent again."""

    bundles: list[Bundle]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two casts are concurrent although the app wants none to be: (member, number) of each."""

    later: tuple[str, int]
    earlier: tuple[str, int]


@dataclass(frozen=True, slots=True)
class Expelled:
    """The group has gone on without this member; it can only come back as somebody new."""

    epoch: int
    unsure: list[Bundle]
    """Bundles of one's own of which it is not known whether the others have them; those without a number never left."""
    reason: str = "the group has gone on without this member"


@dataclass(frozen=True, slots=True)
class Complain:
    """Tell the register."""

    message: SuspectMember


Effect = (
    ToMembers
    | Deliver
    | DeliverDirect
    | InstallView
    | NeedState
    | TakeState
    | Dropped
    | Conflict
    | Expelled
    | Complain
    | Step
)
