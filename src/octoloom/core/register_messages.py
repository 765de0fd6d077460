"""What the register and the links say to each other, and the directory that the register keeps.

A link is (name, incarnation), written ``name#incarnation``: a process that restarts is another link. A view is the
order of one chain in one epoch, head first, tail last. `whole` names the links that hold everything that was ever
committed; a link that just joined becomes whole once it has caught up in the view it joined.
"""

from __future__ import annotations

import msgspec


class LinkAddress(msgspec.Struct, frozen=True):
    """Where a link listens: `peer` (host:port) for links, `url` (ws://host:port) for devices."""

    link: str
    peer: str
    url: str
    pid: int = 0
    app: str = ""


class View(msgspec.Struct, frozen=True):
    """One chain in one epoch. A generation is one unbroken history: it ends only when every whole link is lost."""

    chain: str
    epoch: int
    generation: int
    links: list[str]
    whole: list[str]
    learner: str = ""
    replicas: int = 1
    """How many links the chain should have."""
    in_force: bool = True
    """A whole link has adopted the view. Until then nobody serves in it, and those it leaves out forget nothing."""
    former: list[str] = []
    """While the view is not in force: the whole links of the last one that was. The chain can go back to them."""

    @property
    def head(self) -> str:
        return self.links[0] if self.links else ""

    @property
    def tail(self) -> str:
        return self.links[-1] if self.links else ""


class Directory(msgspec.Struct, frozen=True, tag=1):
    """All that the register announces. Links drop an older `revision`."""

    revision: int
    links: dict[str, LinkAddress]
    views: dict[str, View]


# From a link.


class Enlist(msgspec.Struct, frozen=True, tag=2):
    """First on each connection. `member_of` names the chains (and epochs) that the link still serves."""

    address: LinkAddress
    member_of: dict[str, int] = {}


class Beat(msgspec.Struct, frozen=True, tag=3):
    """The link's event loop still turns."""


class Ready(msgspec.Struct, frozen=True, tag=4):
    """A learner has the snapshot of `epoch`'s tail and follows it."""

    chain: str
    epoch: int


class Whole(msgspec.Struct, frozen=True, tag=5):
    """A link that joined in `epoch` has caught up."""

    chain: str
    epoch: int


class Adopted(msgspec.Struct, frozen=True, tag=10):
    """A whole link has taken up the view of `epoch`: no older one can commit any more, so it may come into force."""

    chain: str
    epoch: int


class Suspect(msgspec.Struct, frozen=True, tag=6):
    """The link cannot reach its neighbour in this chain and epoch."""

    chain: str
    epoch: int
    peer: str


class Leave(msgspec.Struct, frozen=True, tag=7):
    """The link wants to go: take it out of every view."""


# From anyone.


class Ask(msgspec.Struct, frozen=True, tag=8):
    """Tell me the directory now; `follow` keeps me told."""

    follow: bool = False


class Declined(msgspec.Struct, frozen=True, tag=9):
    """The register's refusal, with the reason. The connection ends, unless the code is `last`."""

    code: str
    detail: str


ToRegister = Enlist | Beat | Ready | Whole | Adopted | Suspect | Leave | Ask
FromRegister = Directory | Declined
