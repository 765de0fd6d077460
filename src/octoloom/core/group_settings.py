"""What can be set about a group member."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from octoloom.core.errors import UsageError

FAILOVERS = ("resend", "drop")


@dataclass(frozen=True, slots=True)
class GroupSettings:
    retry_ms: int = 100
    """A part without an acknowledgement is sent again after this time."""
    nak_ms: int = 20
    """A gap is asked for after this time: casts that overtake each other are no gap."""
    gossip_ms: int = 20
    """At most so often members tell how far they have got."""
    idle_ms: int = 300
    """At least so often members give a sign of life."""
    patience_ms: int = 2000
    """Who is silent for longer is complained of to the register."""
    kept_bytes_max: int = 32 * 1024 * 1024
    """Casts that not all members have: beyond it, senders wait."""
    forward_bytes_max: int = 8 * 1024 * 1024
    """What is on its way to the coordinator and back: beyond it, senders wait."""
    cast_bytes_max: int = 512 * 1024
    """A cast or forward carries about so much; longer ones are cut between bundles."""
    payload_max: int = 16 * 1024 * 1024
    failover: str = "resend"
    """What becomes of messages that a lost coordinator had not ordered: resend or drop."""
    wants_state: bool = False
    """A newcomer waits for the app's state from somebody who was there before."""
    tracing: bool = False
    order_settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.failover not in FAILOVERS:
            raise UsageError(f"failover is resend or drop, not {self.failover!r}")
