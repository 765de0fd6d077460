"""What an operator may choose about one broker."""

from __future__ import annotations

from dataclasses import dataclass

from octoloom.core.errors import UsageError

SYNC_ALWAYS = "always"
SYNC_OS = "os"


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    sync: str = SYNC_ALWAYS
    """`always`: nothing is acknowledged before it is on disk. `os`: the operating system writes when it likes, and the
    other replicas are what a loss of power is survived by."""
    sync_ms: int = 1_000
    """With `os`: how often everything is synced nevertheless."""
    token: str = ""
    """What the brokers of one cluster show each other."""
    auto_create: bool = True
    """Topics are made when a client asks for one that is not there and allows it."""
    request_bytes_max: int = 100 * 1024 * 1024
    message_bytes_max: int = 1_048_588
    """The largest batch, unless the topic's max.message.bytes says otherwise; Kafka's default."""
    connections_max: int = 10_000
    lag_ms: int = 10_000
    """A follower that had not all for so long is taken out of the in-sync set."""
    retention_check_ms: int = 30_000
    snapshot_ms: int = 5_000
    """How often watermarks and producer tables are saved."""
    cluster_id: str = "octoloom"

    def __post_init__(self) -> None:
        if self.sync not in (SYNC_ALWAYS, SYNC_OS):
            raise UsageError(f"{self.sync!r} is no way to sync: choose {SYNC_ALWAYS} or {SYNC_OS}")
        if min(self.sync_ms, self.request_bytes_max, self.message_bytes_max, self.connections_max) < 1:
            raise UsageError("a broker's sizes and times are numbers above 0")
