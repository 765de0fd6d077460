"""The limits and times of consumer groups, with Kafka's defaults unless a comment says why not.

Every table has a maximum here. A group's record in the log is at most about twice `group_bytes_max`: the members'
metadata and their assignments.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from octoloom.core.errors import UsageError

GROUP_ID_MAX = 1_000
NAME_MAX = 249
"""For instances and protocol types; Kafka's own limit for the names of instances and topics."""
PROTOCOLS_MAX = 64
"""How many protocols a member may offer; consumers offer one to four."""
STORE_RETRY_MS = 500
"""How long a round waits after its record was refused by the log."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    session_timeout_min_ms: int = 6_000
    session_timeout_max_ms: int = 1_800_000
    initial_delay_ms: int = 100
    """How long an empty group waits for more members before its first round. Kafka waits 3 s, so that a fleet that is
    started machine by machine needs one round only. Each newcomer begins the wait anew, so 100 ms is enough for
    members that start together; for others a second round costs less than 3 s at every start."""
    new_member_ms: int = 300_000
    """How long the join of a newcomer may stay open. It cannot send heartbeats yet, so nothing else ends it."""
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    empty_group_ms: int = 600_000
    """When an empty group without offsets is forgotten."""
    groups_max: int = 10_000
    members_max: int = 2_000
    """Per group, together with the ids that were given out and have not come back."""
    member_bytes_max: int = 256 * 1024
    group_bytes_max: int = 4 * 1024 * 1024
    offsets_max: int = 100_000
    """Partitions per group."""
    metadata_max: int = 4_096
    """Characters of text with one commit."""
    stores_max: int = 100_000
    """Commits that wait to be stored; beyond it clients are asked to try again."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 0:
                raise UsageError(f"{field.name} is {getattr(self, field.name)}: set it to 0 or more")
        if self.session_timeout_min_ms > self.session_timeout_max_ms:
            raise UsageError("session_timeout_min_ms is above session_timeout_max_ms: lower it")
