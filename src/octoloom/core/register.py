"""The register: it orders the links of every chain, and is the only one to decide who serves.

Theory. A chain's view names its links, head first, and which of them are *whole*: hold all that was ever committed.
A view with a new order has a new epoch, and links refuse what was said in an older one. So it does not matter whether
a link that was taken out is really gone: it cannot commit any more, since its neighbours no longer listen.

Growth goes through a *learner*. It copies the tail beside the chain, says `Ready` in the current epoch, becomes the new
tail, and says `Whole` once it has caught up with what was under way. Only then may the chain come to rest on it.

A chain that lost all of its whole links *stalls*: a lone link that is merely cut off from the register may still be
committing, and another one beside it would make two histories of one. It goes on when a whole link comes back, or when
every one of them was superseded by a newer incarnation and is lost for certain: then a new generation begins, empty.

Invariants:
1. a chain's epoch never falls, and each order of links has an epoch of its own;
2. a view is made only with a whole link in it that is present; `whole` is part of `links`; links are distinct;
3. `Persist` comes before the `Announce` of the same directory, and every announced revision is a new one;
4. nobody is given up for the time in which the register itself did not run;
5. a view comes into force when a whole link of it has adopted it, and not before. Until then nobody serves in it and
   nobody forgets anything, so the register can still go back to the links that it left out: those it counted on may
   be dead too, and their last beats only late.

What a driver owes: it obeys effects in order, lets nothing that follows a `Persist` leave before it is durable, calls
`on_time` at `deadline()`, and reports a closed connection only if it was the link's newest. All times are monotonic ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from octoloom.core.chain_order import ChainOrder
from octoloom.core.errors import UsageError
from octoloom.core.register_messages import Adopted, Directory, Enlist, LinkAddress, Ready, Suspect, Whole
from octoloom.core.roster import Roster

LATE_MS = 50
"""A timer that is later than this means that the register did not run: the delay is given back to everybody."""


@dataclass(frozen=True, slots=True)
class RegisterConfig:
    chains: Sequence[str]
    replicas: int
    beat_ms: int = 50
    lease_ms: int = 2000
    closed_grace_ms: int = 150
    suspect_ms: int = 400
    rejoin_ms: int = 1000
    learner_ms: int = 30_000
    form_ms: int = 300
    """How long several chains wait for links before their first views, so that not one link heads them all."""
    links_max: int = 1000

    def __post_init__(self) -> None:
        if self.replicas < 1 or not self.chains or len(dict.fromkeys(self.chains)) != len(self.chains):
            raise UsageError("a register needs at least one chain, no two of the same name, and one replica or more")


@dataclass(frozen=True, slots=True)
class Persist:
    """Make this durable, in place of what was saved before."""

    directory: Directory


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell everybody who is connected."""

    directory: Directory


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell this one link: it came back, and nothing changed for the others."""

    link: str
    directory: Directory


@dataclass(frozen=True, slots=True)
class Decline:
    """Refuse this link, if it is connected; `ends` closes its connection."""

    link: str
    code: str
    detail: str
    ends: bool = True


Effect = Persist | Announce | Tell | Decline
Saved = Directory


class Register:
    def __init__(self, config: RegisterConfig, saved: Saved | None, now: int) -> None:
        self._config = config
        self._directory = saved or Directory(0, {}, {})
        self._roster: Roster[LinkAddress] = Roster(config.lease_ms, config.closed_grace_ms, config.links_max)
        self._roster.restore(now, self._directory.links)
        # A chain that is no longer configured still has its spaces: it is kept until somebody moves them.
        names = dict.fromkeys([*config.chains, *self._directory.views])
        self._orders = [ChainOrder(name, self._directory.views.get(name), config, self._roster, now) for name in names]
        self._form_at: int | None = None
        self._deadline: int | None = None
        self._reckon(now)

    def directory(self) -> Directory:
        return self._directory

    def snapshot(self) -> Saved:
        """All that outlives a restart. Leases, complaints and the wish to leave are said again by the links."""
        return self._directory

    def deadline(self) -> int | None:
        return self._deadline

    def on_enlist(self, now: int, link: str, message: Enlist) -> list[Effect]:
        self._awake(now)
        if message.address.link != link:
            return [Decline(link, "bad-link", f"{link} may not enlist as {message.address.link}")]
        if refusal := self._roster.refusal(link) or self._amnesia(message):
            return [Decline(link, *refusal)]
        if self._roster.dead(link):
            self._expect_companions(now, link)
        if self._form_at is None:
            self._form_at = now + self._config.form_ms
        older = self._roster.enlist(now, link, message.address)
        refused: list[Effect] = [Decline(older, "outdated", f"{link} has taken the place of {older}")] if older else []
        effects = self._settle(now)
        if not any(isinstance(effect, Announce) for effect in effects):
            effects.append(Tell(link, self._directory))
        return refused + effects

    def _amnesia(self, message: Enlist) -> tuple[str, str] | None:
        """A link knows a view that this register does not: its store was lost, and it must decide nothing."""
        for chain, epoch in message.member_of.items():
            order = self._order(chain)
            known = order.view.epoch if order and order.view else 0
            if known < epoch:
                detail = f"epoch {epoch} of {chain} is unknown here: start the register with the data it had"
                return "lost-register", detail
        return None

    def on_beat(self, now: int, link: str) -> list[Effect]:
        # There are many beats and each only puts off a deadline, so none is reckoned: on_time comes early at worst.
        return self._hear(now, link)

    def on_closed(self, now: int, link: str) -> list[Effect]:
        self._awake(now)
        self._roster.close(now, link)
        return self._settle(now)

    def on_ready(self, now: int, link: str, message: Ready) -> list[Effect]:
        if refused := self._hear(now, link):
            return refused
        if order := self._order(message.chain):
            order.on_ready(now, link, message.epoch)
        return self._settle(now)

    def on_whole(self, now: int, link: str, message: Whole) -> list[Effect]:
        if refused := self._hear(now, link):
            return refused
        if order := self._order(message.chain):
            order.on_whole(link, message.epoch)
        return self._settle(now)

    def on_adopted(self, now: int, link: str, message: Adopted) -> list[Effect]:
        if refused := self._hear(now, link):
            return refused
        if order := self._order(message.chain):
            order.on_adopted(link, message.epoch)
        return self._settle(now)

    def on_suspect(self, now: int, link: str, message: Suspect) -> list[Effect]:
        if refused := self._hear(now, link):
            return refused
        if order := self._order(message.chain):
            order.on_suspect(now, link, message.peer, message.epoch)
        return self._settle(now)

    def on_leave(self, now: int, link: str) -> list[Effect]:
        if refused := self._hear(now, link):
            return refused
        followed = any(other != link for other in self._roster.candidates())
        if not followed and any(order.rests_on(link) for order in self._orders):
            detail = f"{link} holds the only whole copy and nobody can take its place: start another link first"
            return [Decline(link, "last", detail, ends=False)]
        self._roster.leave(link)
        return self._settle(now)

    def on_time(self, now: int) -> list[Effect]:
        self._awake(now)
        lapsed = self._roster.expire(now)
        detail = f"nothing was heard for {self._config.lease_ms} ms: enlist again"
        refused: list[Effect] = [Decline(link, "lapsed", detail) for link in lapsed]
        for order in self._orders:
            order.weigh_suspicions(now)
        return refused + self._settle(now)

    def _hear(self, now: int, link: str) -> list[Effect]:
        self._awake(now)
        if self._roster.hear(now, link):
            return []
        return [Decline(link, "unknown", "enlist first")]

    def _order(self, chain: str) -> ChainOrder | None:
        return next((order for order in self._orders if order.name == chain), None)

    def _awake(self, now: int) -> None:
        """Gives back the time in which the register did not run (invariant 4)."""
        if self._deadline is None or now - self._deadline <= LATE_MS:
            return
        late_ms = now - self._deadline
        self._roster.delay(late_ms)
        for order in self._orders:
            order.delay(late_ms)
        if self._form_at is not None:
            self._form_at += late_ms
        self._deadline = now

    def _expect_companions(self, now: int, link: str) -> None:
        """A whole chain was lost and one of it is back: the others are probably on their way."""
        for order in self._orders:
            if link in order.links:
                for other in order.links:
                    self._roster.expect(now, other)

    def _settle(self, now: int) -> list[Effect]:
        """Brings every view in line with who is there, heads before followers so that heads are spread."""
        candidates = self._roster.candidates()
        patient = self._form_at is not None and now < self._form_at and len(candidates) < len(self._orders)
        for order in self._orders:
            order.lead(now, [] if patient else candidates, self._orders)
        for order in self._orders:
            order.trim(now)
            order.grow(now, candidates, self._orders)
        self._roster.forget([link for order in self._orders for link in order.named])
        self._reckon(now)
        return self._publish()

    def _publish(self) -> list[Effect]:
        views = {order.name: order.view for order in self._orders if order.view}
        links = self._roster.addresses()
        if views == self._directory.views and links == self._directory.links:
            return []
        self._directory = Directory(self._directory.revision + 1, links, views)
        return [Persist(self._directory), Announce(self._directory)]

    def _reckon(self, now: int) -> None:
        """Looks in at every beat while there are links, so that a pause of its own is noticed."""
        first = self._roster.deadline(now)
        if first is None:
            self._deadline = None
            return
        times = [first, now + self._config.beat_ms, *(time for order in self._orders for time in order.deadlines())]
        if self._form_at is not None and self._form_at > now:
            times.append(self._form_at)
        self._deadline = min(times)
