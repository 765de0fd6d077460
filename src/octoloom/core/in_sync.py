"""A leader's book about its followers: who is in sync, and up to where everybody is.

The in-sync set is decided at the register. The leader proposes a change by compare-and-set and goes on when it sees
the decision. Until then both outcomes are possible, so the leader counts with the *larger* set:

1. the high watermark is the least durable end among the in-sync set, whatever of it was only proposed included, and
   the leader's own disk is one of them;
2. it never falls in an epoch, and a follower counts only with what it holds of the leader's own log: it has named an
   offset and an epoch that the leader found in its log;
3. a follower joins the set only with everything that may be committed: what the leader had when it began, and all
   below the watermark since;
4. a proposal stays until the register's version has passed it, or the register has refused it.

A follower is in sync while, at some moment in the last `lag_ms`, it had all that the leader had. One that is not there
blocks the watermark until the set is smaller: at the register, before anything moves on here.
"""

from __future__ import annotations

from octoloom.core.log_messages import PartitionState

REFUSED_MS = 200


class Progress:
    """How far one follower has got."""

    __slots__ = ("caught_up_at", "connected", "durable", "end_seen", "heard_at")

    def __init__(self, now: int) -> None:
        self.durable = -1
        """-1 until its log was found to agree with the leader's."""
        self.connected = False
        self.caught_up_at = now
        self.heard_at = now
        self.end_seen = 0

    def on_durable(self, now: int, durable: int, end: int) -> None:
        self.connected = True
        if durable > self.durable:
            self.durable = durable
        if durable >= end:
            self.caught_up_at = now
        elif durable >= self.end_seen:
            # It has all that there was when it was heard last.
            self.caught_up_at = self.heard_at
        self.heard_at, self.end_seen = now, end


class InSync:
    def __init__(self, now: int, node: str, state: PartitionState, end: int, lag_ms: int) -> None:
        self._node = node
        self._began_at = end
        """Everything that was committed before lies below this, though the watermark may not say so yet."""
        self._lag_ms = lag_ms
        self.state = state
        self.proposal: list[str] | None = None
        self.followers: dict[str, Progress] = {}
        for member in state.in_sync:
            if member != node:
                self.followers[member] = Progress(now)
        self._counted = list(state.in_sync)
        self._quiet_until = 0

    @property
    def size(self) -> int:
        """How many the register knows to be in sync."""
        return len(self.state.in_sync)

    def on_state(self, now: int, state: PartitionState) -> None:
        """The register decided anew, in the same epoch."""
        self.state = state
        for member in state.in_sync:
            if member != self._node and member not in self.followers:
                self.followers[member] = Progress(now)
        self._propose(None)
        self._drop_gone()

    def on_refused(self, now: int, version: int) -> None:
        """The register sees somebody otherwise than we do: ask again after a while."""
        if version == self.state.version:
            self._propose(None)
            self._drop_gone()
            self._quiet_until = now + REFUSED_MS

    def on_durable(self, now: int, follower: str, durable: int, end: int) -> None:
        progress = self.followers.get(follower)
        if progress is None:
            progress = self.followers[follower] = Progress(now)
        progress.on_durable(now, durable, end)

    def on_gone(self, follower: str) -> None:
        """The follower hung up; as a member of the set it still counts until the register took it out."""
        if follower in self.followers:
            self.followers[follower].connected = False
            self._drop_gone()

    def _drop_gone(self) -> None:
        for follower in [f for f, progress in self.followers.items() if not progress.connected]:
            if follower not in self._counted:
                del self.followers[follower]

    def watermark(self, durable: int) -> int:
        """The least durable end of all who count; -1 if somebody was not heard yet."""
        least = durable
        for member in self._counted:
            if member != self._node:
                behind = self.followers[member].durable
                if behind < least:
                    least = behind
        return least

    def weigh(self, now: int, end: int, high: int) -> list[str] | None:
        """The set that should be proposed now, if it differs from the decided one. One proposal at a time."""
        if self.proposal is not None or now < self._quiet_until:
            return None
        in_sync = self.state.in_sync
        leaving, joining = [], []
        for follower, progress in self.followers.items():
            if follower not in in_sync:
                if progress.connected and progress.durable >= max(high, self._began_at):
                    joining.append(follower)
            elif progress.durable >= end:
                # However long nothing was written: who has all is not behind when the next record comes.
                progress.caught_up_at = now
            elif now - progress.caught_up_at >= self._lag_ms:
                leaving.append(follower)
        if not leaving and not joining:
            return None
        wanted = [member for member in in_sync if member not in leaving] + joining
        self._propose(wanted)
        return wanted

    def _propose(self, wanted: list[str] | None) -> None:
        self.proposal = wanted
        self._counted = list(dict.fromkeys([*self.state.in_sync, *(wanted or ())]))
