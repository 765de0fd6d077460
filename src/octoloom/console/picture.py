"""One picture of everything: what the register, the links and the brokers said at about the same time.

A picture says what is known and how old that is. While the register is down it shows what the register said last, and
`register.told_ms` says when that was; the links and brokers are asked all the same. A process is *up* (it answered),
*silent* (it runs, as far as anybody knows, and did not answer in time) or *down* (it does not run).

Names and values in here are other people's texts. Whoever shows them shows them as text.
"""

from __future__ import annotations

import msgspec

from octoloom.runtime.log_groups import GroupStatus

UP, SILENT, DOWN = "up", "silent", "down"

SPACES_MAX = 1_000
TOPICS_MAX = 500
PARTITIONS_MAX = 2_000
GROUPS_MAX = 500
CONSUMERS_MAX = 100
STEPS_SUFFIX = "-steps"
"""The steps of the group `lunch` are in the topic `lunch-steps`, if anywhere."""


class RegisterSeen(msgspec.Struct, frozen=True):
    address: str
    state: str = SILENT
    pid: int = 0
    restarts: int = 0
    told_ms: int = 0
    """When it answered last; 0 if it never has."""


class PlaceSeen(msgspec.Struct, frozen=True):
    """A link's place in one chain, as the link itself sees it."""

    chain: str
    role: str
    epoch: int
    generation: int
    whole: bool
    suspended: bool
    spaces: int
    connections: int
    versions: int
    """The sum of the versions of its spaces: it rises with every change."""
    live: int
    """Events that are on their way."""


class LinkSeen(msgspec.Struct, frozen=True):
    id: str
    name: str
    state: str
    pid: int
    url: str
    restarts: int = 0
    connections: int = 0
    app: str = ""
    places: list[PlaceSeen] = []


class BrokerSeen(msgspec.Struct, frozen=True):
    id: str
    name: str
    state: str
    pid: int
    address: str
    restarts: int = 0
    leads: int = 0
    replicas: int = 0


class ChainSeen(msgspec.Struct, frozen=True):
    """One chain, as the register has ordered it. Links are incarnations, head first."""

    chain: str
    epoch: int
    generation: int
    links: list[str]
    whole: list[str]
    learner: str = ""
    replicas: int = 1

    @property
    def is_whole(self) -> bool:
        return len(self.whole) >= self.replicas and self.whole == self.links


class SpaceSeen(msgspec.Struct, frozen=True):
    """A space, as the first link of its chain that answered has it."""

    space: str
    chain: str
    version: int
    devices: int
    present: int
    live: int


class PartitionSeen(msgspec.Struct, frozen=True):
    """Brokers by name. Only those count that are alive; nobody leads if `leader` is empty."""

    partition: int
    leader: str
    epoch: int
    in_sync: list[str]
    replicas: list[str]
    start: int | None = None
    high: int | None = None


class TopicSeen(msgspec.Struct, frozen=True):
    name: str
    config: dict[str, str]
    partitions: list[PartitionSeen]


class MemberSeen(msgspec.Struct, frozen=True):
    id: str
    name: str
    peer: str
    pid: int


class GroupSeen(msgspec.Struct, frozen=True):
    """An ordered group. Its members are oldest first; the first is the coordinator."""

    group: str
    order: str
    epoch: int
    transport: str
    members: list[MemberSeen]
    steps: str = ""
    """The topic with its steps, if there is one."""


class Picture(msgspec.Struct, frozen=True):
    number: int
    at_ms: int
    took_ms: int
    register: RegisterSeen
    app: str = ""
    update: str = ""
    complaint: str = ""
    """Why the cluster itself cannot be found, if it cannot."""
    links: list[LinkSeen] = []
    brokers: list[BrokerSeen] = []
    chains: list[ChainSeen] = []
    spaces: list[SpaceSeen] = []
    spaces_left_out: int = 0
    topics: list[TopicSeen] = []
    topics_left_out: int = 0
    consumers: list[GroupStatus] = []
    """The consumer groups, as of `consumers_ms`: they are asked about less often."""
    consumers_ms: int = 0
    consumers_left_out: int = 0
    groups: list[GroupSeen] = []
    groups_left_out: int = 0
    up: int = 0
    processes: int = 0
    troubles: list[str] = []
    """What is not as it should be, the worst first; empty if everything is whole."""


def processes_of(picture: Picture) -> list[RegisterSeen | BrokerSeen | LinkSeen]:
    return [picture.register, *picture.brokers, *picture.links]
