"""The casts of one installed view: reliable below (`nakack`), in order above (a filter), in between a delay for tests.

A view's casts end with it: what survivors have of them is filled in at all while the next view is prepared, and the
order filter has delivered all of it that can ever be delivered. What it still holds then lacks a cause that died with
its sender, at everybody alike, and is dropped with the filter.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable

from octoloom.core.causal import ConcurrentMessages
from octoloom.core.errors import ProtocolError
from octoloom.core.filters import HELD_MAX, Delivery, OrderContext, TooManyHeld, orders
from octoloom.core.gathering import in_fills
from octoloom.core.group_effects import Conflict, Effect, ToMembers
from octoloom.core.group_messages import Bundle, Cast, GroupView, Nak, Resent, Stable
from octoloom.core.group_settings import GroupSettings
from octoloom.core.nakack import Nakack
from octoloom.core.stability import Stability

BUNDLES_MAX = 65_536
DELAYED_MAX = 10_000


class Casting:
    def __init__(
        self,
        now: int,
        view: GroupView,
        me: str,
        counts: dict[str, int],
        settings: GroupSettings,
        counters: Counter[str],
        emit: Callable[[Effect], None],
        deliver: Callable[[Delivery], None],
        deliver_plain: Callable[[Cast], None],
    ) -> None:
        self.epoch = view.epoch
        self.order_name = view.order
        self.members = view.names
        self.others = [member for member in self.members if member != me]
        self._me = me
        self._counters = counters
        self._emit = emit
        self._deliver_plain = deliver_plain
        self._known = dict.fromkeys(self.members)
        self.nakack = Nakack(self.epoch, me, counts, settings.nak_ms, settings.kept_bytes_max)
        self.stability = Stability(now, self.epoch, me, counts, settings.gossip_ms, settings.idle_ms)
        step = emit if settings.tracing else None
        context = OrderContext(me, self.members, counts, step, settings.order_settings)
        self.order = orders.find(view.order)(context)
        self.order.receive.processor = deliver
        self.order.send.processor = self._on_stamped
        self._now = now
        self._delays: dict[str, int] = {}
        self._delayed: list[tuple[int, int, Cast]] = []
        self._delays_begun = 0

    @property
    def is_total(self) -> bool:
        return self.order_name == "total"

    @property
    def leads(self) -> bool:
        return self.members[0] == self._me

    # Sending.

    def cast(self, now: int, bundles: list[Bundle], plain: bool = False) -> None:
        self._now = now
        self.order.send.filter(Cast(self.epoch, self._me, self.nakack.next_number(), bundles, plain=plain))

    def _on_stamped(self, cast: Cast) -> None:
        self.nakack.add(self._now, cast)
        self.stability.touch()
        if self.others:
            self._emit(ToMembers(self.others, cast))
        if self.is_total:
            self.order.receive.filter(cast)

    # Receiving.

    def on_cast(self, now: int, cast: Cast, is_fill: bool = False) -> None:
        """A cast of this view, perhaps not for the first time. Raises `ProtocolError` and changes nothing if bad.

        What fills in the end of a view is taken even where there is no room: the view cannot end without it. So the
        rest takes only half of what an order may hold, but for the next of its sender: one such ends the waiting.
        """
        self._check(cast)
        if self.nakack.has(cast.sender, cast.number):
            self._counters["duplicates"] += 1
            return
        has_room = self.nakack.is_next(cast) or (self.nakack.takes(cast) and self.order.held < HELD_MAX // 2)
        if not is_fill and not has_room:
            self._counters["no-room"] += 1
            return
        delay_ms = self._delays.get(cast.sender, 0)
        if delay_ms and len(self._delayed) < DELAYED_MAX:
            self._delays_begun += 1
            heapq.heappush(self._delayed, (now + delay_ms, self._delays_begun, cast))
        elif not self._order(cast, is_fill):
            return
        self.nakack.add(now, cast)
        self.stability.touch()

    def fill(self, now: int, casts: list[Cast]) -> None:
        """Take what this member lacks of the union: the view ends."""
        for cast in casts:
            if cast.epoch == self.epoch:
                self.on_cast(now, cast, is_fill=True)
        self.release(None)

    def _check(self, cast: Cast) -> None:
        if cast.sender not in self._known:
            raise ProtocolError("not-a-member", f"{cast.sender} is not in view {self.epoch}")
        if cast.number < 1 or not 0 < len(cast.bundles) <= BUNDLES_MAX:
            raise ProtocolError("forged-sequence", f"cast {cast.number} of {cast.sender}: {len(cast.bundles)} bundles")
        if cast.sender == self._me and cast.number >= self.nakack.next_number():
            raise ProtocolError("forged-sender", f"{self._me} never sent the cast {cast.number} that came in its name")
        is_own = len(cast.bundles) == 1 and cast.bundles[0].origin == cast.sender
        if not is_own and (cast.plain or not self.is_total):
            raise ProtocolError("forged-sender", f"{cast.sender} casts what is not its own")

    def _order(self, cast: Cast, is_fill: bool = False) -> bool:
        """Hand a cast to the order; False if that does not take it now.

        What is concurrent against the app's will is told and comes again, until the view ends: then it counts as had.
        """
        try:
            self.order.receive.filter(cast)
        except TooManyHeld:
            self._counters["no-room"] += 1
            return False
        except ConcurrentMessages as conflict:
            self._emit(Conflict(conflict.later, conflict.earlier))
            return is_fill
        if cast.plain:
            self._deliver_plain(cast)
        return True

    def on_nak(self, nak: Nak) -> list[Resent]:
        """The casts that a member lacks and this one has."""
        return [Resent(casts) for casts in in_fills(self.nakack.find(nak.missing))]

    def on_stable(self, now: int, member: str, stable: Stable) -> None:
        self.stability.on_stable(now, member, stable.counts, stable.last)
        self.nakack.on_stable(now, stable.counts, stable.last)

    # Time.

    def set_delay(self, member: str, delay_ms: int) -> None:
        self._delays[member] = delay_ms

    def release(self, now: int | None) -> None:
        """Order what has been delayed long enough; all of it if `now` is None, since the view ends."""
        while self._delayed and (now is None or self._delayed[0][0] <= now):
            _, _, cast = heapq.heappop(self._delayed)
            try:
                self._order(cast)
            except ProtocolError as error:
                self._counters[error.code] += 1
            self.stability.touch()

    def deadline(self) -> int:
        times = [self.stability.due_at()]
        if (ask_at := self.nakack.deadline()) is not None:
            times.append(ask_at)
        if self._delayed:
            times.append(self._delayed[0][0])
        return min(times)

    def on_time(self, now: int) -> None:
        self.release(now)
        for member, nak in self.nakack.ask(now):
            self._counters["naks"] += 1
            self._emit(ToMembers([member], nak))
        if now < self.stability.due_at():
            return
        word = self.stability.word(now, self._counts(), self.nakack.lasts())
        if isinstance(word, Stable):
            self.nakack.on_stable(now, word.counts, word.last)
        if word is not None and self.others:
            self._emit(ToMembers(self.others if self.leads else self.members[:1], word))

    def _counts(self) -> list[int]:
        """What this member has for good. One that is held back it may never deliver: its causes can still be lost."""
        counts, delivered = self.nakack.counts(), self.order.delivered()
        return counts if delivered is None else list(map(min, counts, delivered))
