"""What is asked of every ordered group alike: the cases, what they answer, and what a member can be told to do.

A group has `MEMBERS` members, each a process, and one total order. The oldest member is the coordinator. It only
orders: the senders are the members after it, so every message goes to the coordinator and from there to all.

  throughput   the senders send as fast as the group lets them for some seconds; a member's rate is all messages over
               the time from the first send to its last delivery; the figure is that of the slowest member
  latency      one message at a time: from a send to the sender's own delivery, with nothing held back to be bundled
  failover     three senders at a steady rate, open loop; the coordinator is ended with `kill -9`; blackout is the
               longest time in which a survivor was delivered nothing, and what was delivered is compared

A throughput or latency run counts only if every member was delivered every message once, all in one order, each
sender's in the order of their sending. A failover is not refused for that: it is what the failover measures.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

MEMBERS = 4
SENDERS = (1, 3)
SIZES = (100, 1_000)
HEADER_SIZE = 20
"""Of a body: run, sender and number of four bytes each, and the time of sending of eight, all big-endian."""
DRAIN_S_MAX = 30.0
"""How long the last deliveries may take before a run counts as failed."""


class GroupError(RuntimeError):
    """A group could not be started, or did not do what a run asked for."""


class GroupCase(msgspec.Struct, frozen=True, kw_only=True):
    """One run: by time, or by count if there is one."""

    senders: int
    size: int
    members: int = MEMBERS
    seconds: float = 0.0
    count: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.senders < self.members:
            raise GroupError(f"of {self.members} members at most {self.members - 1} send, so not {self.senders}")
        if self.size < HEADER_SIZE:
            raise GroupError(f"a body has at least {HEADER_SIZE} bytes, so not {self.size}")
        if self.seconds <= 0 and self.count <= 0:
            raise GroupError("a run needs a time or a count")

    def __str__(self) -> str:
        size = f"{self.size // 1000} KB" if self.size % 1000 == 0 else f"{self.size} B"
        return f"{self.senders} sender{'s' if self.senders > 1 else ''}, {size}"


class FailoverCase(msgspec.Struct, frozen=True, kw_only=True):
    """Senders that go on at their pace before and after the coordinator's end."""

    members: int = MEMBERS
    senders: int = 3
    size: int = 100
    per_second: int = 1_000
    """Of each sender."""
    before_s: float = 3.0
    after_s: float = 8.0
    drain_s_max: float = 20.0
    stuck_s_max: float = 10.0
    """How late a sender may be that goes on after the failover before it counts as stuck."""

    @property
    def count(self) -> int:
        return int((self.before_s + self.after_s) * self.per_second)


class Throughput(msgspec.Struct, frozen=True):
    messages: int
    rates: list[float]
    """Messages per second of each member."""

    @property
    def slowest(self) -> float:
        return min(self.rates)


class Latency(msgspec.Struct, frozen=True):
    messages: int
    p50_ms: float
    p99_ms: float


class Failover(msgspec.Struct, frozen=True, kw_only=True):
    """What the survivors were delivered. Counts are those of the survivor that is worst off."""

    sent: int
    blackouts_ms: list[float]
    """Of each survivor."""
    agree: bool
    """Whether the survivors' sequences are equal, as far as each of them goes."""
    differ_at: int | None
    """The first place at which they are not."""
    duplicates: int
    inversions: int
    """Deliveries after a later message of the same sender."""
    missing: int
    unsent: int
    """Deliveries of messages that nobody had sent."""
    stuck: int
    """Senders that could not go on sending."""

    @property
    def blackout_ms(self) -> float:
        return max(self.blackouts_ms)

    @property
    def clean(self) -> bool:
        return self.agree and not (self.duplicates or self.inversions or self.missing or self.unsent or self.stuck)


class GroupUnderTest(Protocol):
    """What can be measured. Only one run is under way at a time; after a failover or a close it is started anew."""

    name: str

    def start(self, members: int, bundled: bool) -> None:
        """Starts the members, and returns when all of them see all of them.

        `bundled` allows messages to be held back for a moment to go together; it is off for latency and failover.
        """

    def throughput(self, case: GroupCase) -> Throughput: ...
    def latency(self, case: GroupCase) -> Latency: ...
    def failover(self, case: FailoverCase) -> Failover: ...

    def close(self) -> None:
        """Ends all processes. May be called at any time, and more than once."""
