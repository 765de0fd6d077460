"""What the register and the brokers say to each other about topics, and what brokers say to each other.

A broker is (name, incarnation), written ``name#incarnation``, as a link is. A partition's `replicas` are names: a place
outlives a process. Its leader and its in-sync set are incarnations: a process that restarts has to prove itself again.
"""

from __future__ import annotations

import msgspec

TopicPartition = tuple[str, int]


class BrokerAddress(msgspec.Struct, frozen=True):
    """Where a broker listens for Kafka clients and for other brokers. `storage` names its disk's content."""

    broker: str
    host: str
    port: int
    storage: str
    pid: int = 0
    id: int = 0
    """The number that Kafka clients know the name by; the register gives it."""


class PartitionState(msgspec.Struct, frozen=True):
    """The register's decision about one partition: one durable write, before anyone acts on it."""

    leader: str
    epoch: int
    in_sync: list[str]
    replicas: list[str]
    version: int = 0
    """Rises with every decision about the partition: what leaders compare before they set."""


class TopicInfo(msgspec.Struct, frozen=True):
    """`number` tells a topic from one of the same name that was deleted before it."""

    name: str
    number: int
    config: dict[str, str]


class LogDirectory(msgspec.Struct, frozen=True, tag=20):
    """All that the register knows of brokers and topics; first on each connection."""

    revision: int
    brokers: dict[str, BrokerAddress]
    """By incarnation; those that the register takes to be alive."""
    topics: dict[str, TopicInfo]
    partitions: list[tuple[str, int, PartitionState]]
    ids: dict[str, int] = {}
    """The number that Kafka clients know each name by, of the dead too."""


class LogNews(msgspec.Struct, frozen=True, tag=21):
    """What changed from `revision` - 1 to `revision`. `transition` is the one that this commits, if any."""

    revision: int
    brokers: dict[str, BrokerAddress] | None = None
    topics: dict[str, TopicInfo | None] = {}
    partitions: list[tuple[str, int, PartitionState]] = []
    transition: int = 0


class Announced(msgspec.Struct, frozen=True, tag=22):
    """A leadership transition begins: stop following in these partitions (with their present epochs), and answer."""

    transition: int
    partitions: list[tuple[str, int, int]]
    reason: str


class Aborted(msgspec.Struct, frozen=True, tag=23):
    """The transition is off: go on with the leaders that you had."""

    transition: int
    reason: str


class InSyncRefused(msgspec.Struct, frozen=True, tag=24):
    """The proposal that was made at `version` was not taken."""

    topic: str
    partition: int
    version: int


class Allotted(msgspec.Struct, frozen=True, tag=25):
    """`count` producer ids from `first` on, for this broker alone."""

    first: int
    count: int


class AdminDone(msgspec.Struct, frozen=True, tag=26):
    """The answer to an `Admin`: a Kafka error code, 0 when it was done."""

    ticket: int
    error: int
    detail: str


class Heard(msgspec.Struct, frozen=True, tag=40):
    """The answer to a `BrokerBeat`: the broker has a lease of so long from then on, at least."""

    sent_at: int
    lease_ms: int


# From a broker.


class EnlistBroker(msgspec.Struct, frozen=True, tag=30):
    """First on each connection. `revision` is the last it was told: a register that forgot is found out."""

    address: BrokerAddress
    revision: int = 0
    damaged: list[tuple[str, int]] = []
    """Replicas that were found damaged when this life began: they hold less than they had acknowledged."""


class Accept(msgspec.Struct, frozen=True, tag=31):
    """The broker stopped following. Per partition: last epoch, end offset, high watermark."""

    transition: int
    ends: list[tuple[str, int, int, int, int]]


class Refuse(msgspec.Struct, frozen=True, tag=32):
    """The broker will not have this transition."""

    transition: int
    reason: str


class ProposeInSync(msgspec.Struct, frozen=True, tag=33):
    """A leader wants other in-sync sets: (topic, partition, epoch, version, set). Compare and set, one by one."""

    changes: list[tuple[str, int, int, int, list[str]]]


class Allot(msgspec.Struct, frozen=True, tag=35):
    count: int


class Taken(msgspec.Struct, frozen=True, tag=41):
    """The broker has taken up everything that it was told up to `revision`: whoever asks it hears so."""

    revision: int


class BrokerBeat(msgspec.Struct, frozen=True, tag=42):
    """The broker is alive. `sent_at` is by its own clock."""

    sent_at: int


ADMIN_TIMEOUT_MS = 10_000


class MakeTopic(msgspec.Struct, frozen=True, tag=36):
    """Zero partitions or replicas mean the register's default. `dry` only checks.

    What is asked of topics is answered when all brokers know it, or after `timeout_ms`.
    """

    ticket: int
    topic: str
    partitions: int = 0
    replicas: int = 0
    config: dict[str, str] = {}
    dry: bool = False
    timeout_ms: int = ADMIN_TIMEOUT_MS


class DropTopic(msgspec.Struct, frozen=True, tag=37):
    ticket: int
    topic: str
    timeout_ms: int = ADMIN_TIMEOUT_MS


class GrowTopic(msgspec.Struct, frozen=True, tag=38):
    """Have `partitions` partitions in all."""

    ticket: int
    topic: str
    partitions: int
    dry: bool = False
    timeout_ms: int = ADMIN_TIMEOUT_MS


class ConfigureTopic(msgspec.Struct, frozen=True, tag=39):
    """Set these, and take those back to their defaults."""

    ticket: int
    topic: str
    put: dict[str, str]
    unset: list[str] = []
    dry: bool = False
    timeout_ms: int = ADMIN_TIMEOUT_MS


class AskLog(msgspec.Struct, frozen=True, tag=34):
    """From anyone: tell me the log's directory now; `follow` keeps me told of all news after it."""

    follow: bool = False


Admin = MakeTopic | DropTopic | GrowTopic | ConfigureTopic
BrokerToRegister = EnlistBroker | BrokerBeat | Accept | Refuse | ProposeInSync | Taken | Allot | Admin
RegisterToBroker = LogDirectory | LogNews | Announced | Aborted | InSyncRefused | Allotted | AdminDone | Heard


# Between brokers. A follower connects to its leader and asks; what it has on disk is its acknowledgement.


class FollowEntry(msgspec.Struct, frozen=True, array_like=True):
    """Stream this partition from `offset`. The log before it ends with `last_epoch` and is on disk up to `durable`."""

    topic: str
    partition: int
    epoch: int
    offset: int
    last_epoch: int
    durable: int


class Follow(msgspec.Struct, frozen=True, array_like=True, tag=50):
    """First on each connection, and again whenever the follower wants a stream from another place."""

    broker: str
    entries: list[FollowEntry]


class Durable(msgspec.Struct, frozen=True, array_like=True, tag=51):
    """Frames up to `frame` were taken; of the partitions in them all below these offsets is on disk."""

    frame: int
    ends: list[tuple[str, int, int, int]]
    """(topic, partition, epoch, durable)"""


class Part(msgspec.Struct, frozen=True, array_like=True):
    """One partition in a frame: `size` bytes of batches from `offset` on, and where the leader's log stands.

    `verdict` is "" for data; "diverged" with (epoch, offset) as the place where the logs still agree at most; "reset"
    with the offset to begin at; "refused" if the sender does not lead the partition in that epoch.
    """

    topic: str
    partition: int
    epoch: int
    offset: int
    size: int
    high: int
    start: int
    verdict: str = ""
    agreed_epoch: int = -1


FromFollower = Follow | Durable
