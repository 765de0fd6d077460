"""The order of one chain: how its view is made, trimmed, grown and begun anew. The register's module tells the theory.

::

    lead      no view yet, or all whole links superseded     the view of one link begins a generation
    trim      links that are dead or want to leave           are taken out, if a present whole one remains
    grow      too few links, and all there are are whole     a candidate becomes the learner
    on_ready  the learner has copied the tail                it becomes the new tail
    on_adopted  a whole link has taken up the view           it comes into force
    on_whole  the new tail has caught up                     it is whole
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from octoloom.core.register_messages import LinkAddress, View
from octoloom.core.roster import Roster
from octoloom.core.suspicions import Suspicions


class OrderConfig(Protocol):
    """What of the register's configuration one chain needs."""

    @property
    def replicas(self) -> int: ...
    @property
    def suspect_ms(self) -> int: ...
    @property
    def rejoin_ms(self) -> int: ...
    @property
    def learner_ms(self) -> int: ...


class ChainOrder:
    def __init__(
        self, name: str, view: View | None, config: OrderConfig, roster: Roster[LinkAddress], now: int
    ) -> None:
        self.name = name
        self.view = view
        self._config = config
        self._roster = roster
        self._suspicions = Suspicions(config.suspect_ms)
        self._learner_until = now + config.learner_ms

    @property
    def links(self) -> list[str]:
        return self.view.links if self.view else []

    @property
    def named(self) -> list[str]:
        """Everybody that the chain may still depend on."""
        return [*self.links, *(self.view.former if self.view else [])]

    def rests_on(self, link: str) -> bool:
        """Whether the chain would stall without this link."""
        rest = [other for other in self.links if other != link]
        return self.view is not None and link in self.view.whole and not self._carried(rest)

    def deadlines(self) -> list[int]:
        times = [self._learner_until] if self.view and self.view.learner else []
        if self._suspicions.decide_at is not None:
            times.append(self._suspicions.decide_at)
        return times

    def delay(self, late_ms: int) -> None:
        self._learner_until += late_ms
        self._suspicions.delay(late_ms)

    # What links say. Said in another epoch it means nothing: they say it again in the new one.

    def on_ready(self, now: int, link: str, epoch: int) -> None:
        view = self.view
        if view and view.in_force and (link, epoch) == (view.learner, view.epoch) and self._carried(view.links):
            self._reorder(now, replace(view, epoch=epoch + 1, links=[*view.links, link], learner=""))

    def on_adopted(self, link: str, epoch: int) -> None:
        view = self.view
        if view and epoch == view.epoch and link in view.whole and not view.in_force:
            self.view = replace(view, in_force=True, former=[])

    def on_whole(self, link: str, epoch: int) -> None:
        view = self.view
        if view and epoch == view.epoch and view.in_force and link in view.links and link not in view.whole:
            self.view = replace(view, whole=[other for other in view.links if other == link or other in view.whole])

    def on_suspect(self, now: int, link: str, peer: str, epoch: int) -> None:
        if self.view and epoch == self.view.epoch and link != peer and link in self.links and peer in self.links:
            self._suspicions.add(now, link, peer)

    # What the register does about it.

    def weigh_suspicions(self, now: int) -> None:
        for link in self._suspicions.weigh(now, self.links):
            rest = [other for other in self.links if other != link]
            if self._carried(rest):
                self._keep(now, rest)
                self._roster.bar(link, now + self._config.rejoin_ms)
                return

    def lead(self, now: int, candidates: Sequence[str], orders: Sequence[ChainOrder]) -> None:
        """Begins the first generation, or a new one after the certain loss of the last."""
        view = self.view
        if not candidates or (view and not all(self._roster.superseded(link) for link in [*view.whole, *view.former])):
            return
        heads = Counter(order.links[0] for order in orders if order.links)
        loads = _loads(orders)
        head = min(candidates, key=lambda link: (heads[link], loads[link], link))
        epoch, generation = (view.epoch, view.generation) if view else (0, 0)
        self._reorder(now, View(self.name, epoch + 1, generation + 1, [head], [head], replicas=self._config.replicas))

    def trim(self, now: int) -> None:
        view = self.view
        left = [link for link in self.links if not self._roster.dead(link)]
        if view is None or not self._carried(left):
            self._fall_back(now)
            return
        for leaver in [link for link in left if self._roster.leaving(link)]:
            rest = [link for link in left if link != leaver]
            left = rest if self._can_spare(rest) else left
        if left != view.links:
            self._keep(now, left)

    def _fall_back(self, now: int) -> None:
        """Those who were to go on are gone before they took over: those who were left out still have everything."""
        view = self.view
        back = [link for link in view.former if not self._roster.dead(link)] if view else []
        if view is not None and any(self._roster.present(link) for link in back):
            self._reorder(now, replace(view, epoch=view.epoch + 1, links=back, whole=back, learner=""))

    def _can_spare(self, rest: Sequence[str]) -> bool:
        """Whether a link that wants to leave may: its place has been taken, or there is nobody to take it."""
        assert self.view is not None
        whole = [link for link in rest if link in self.view.whole and self._roster.present(link)]
        spare = [link for link in self._roster.candidates() if link not in self.view.links]
        return len(whole) >= self._config.replicas or (bool(whole) and not spare)

    def grow(self, now: int, candidates: Sequence[str], orders: Sequence[ChainOrder]) -> None:
        self._dismiss_learner(now)
        view = self.view
        if view is None or view.learner or not self._has_room(view):
            return
        hopeful = [link for link in candidates if link not in view.links and not self._roster.barred(link, now)]
        if hopeful:
            # Between equals it is the next by name after the tail, and round again: several chains spread evenly.
            loads, tail = _loads(orders), view.tail
            self.view = replace(view, learner=min(hopeful, key=lambda link: (loads[link], link < tail, link)))
            self._learner_until = now + self._config.learner_ms

    def _has_room(self, view: View) -> bool:
        """A link that wants to leave counts as gone. One that is not whole yet comes first."""
        staying = [link for link in view.links if not self._roster.leaving(link)]
        settled = all(link in view.whole and not self._roster.dead(link) for link in view.links)
        return settled and view.in_force and len(staying) < self._config.replicas

    def _dismiss_learner(self, now: int) -> None:
        view = self.view
        if view is None or not view.learner:
            return
        if self._roster.dead(view.learner) or self._roster.leaving(view.learner):
            self.view = replace(view, learner="")
        elif now >= self._learner_until:
            self._roster.bar(view.learner, now + self._config.rejoin_ms)
            self.view = replace(view, learner="")

    def _carried(self, links: Sequence[str]) -> bool:
        """Whether these links can go on by themselves: one of them is whole, and present."""
        return self.view is not None and any(link in self.view.whole and self._roster.present(link) for link in links)

    def _keep(self, now: int, links: list[str]) -> None:
        assert self.view is not None
        whole = [link for link in links if link in self.view.whole]
        self._reorder(now, replace(self.view, epoch=self.view.epoch + 1, links=links, whole=whole))

    def _reorder(self, now: int, view: View) -> None:
        """Every new epoch is made here, so the invariants are checked here."""
        before = self.view
        if before is not None and before.generation == view.generation:
            view = replace(view, former=before.whole if before.in_force else before.former)
        view = replace(view, in_force=False)
        assert view.epoch > (self.view.epoch if self.view else 0)
        assert len(dict.fromkeys(view.links)) == len(view.links)
        assert all(link in view.links for link in view.whole)
        assert any(self._roster.present(link) for link in view.whole)
        self.view = view
        self._suspicions.clear()
        self._learner_until = now + self._config.learner_ms


def _loads(orders: Sequence[ChainOrder]) -> Counter[str]:
    """How many chains each link serves or is about to."""
    views = [order.view for order in orders if order.view]
    return Counter(link for view in views for link in [*view.links, view.learner])
