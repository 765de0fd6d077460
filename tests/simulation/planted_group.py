"""Bugs for the search in ordered groups to find: each replaces one method by a wrong one, as a tired author would."""

from __future__ import annotations

from typing import Any

from octoloom.core.causal import Causal
from octoloom.core.filters import Delivery
from octoloom.core.gathering import Gathering
from octoloom.core.group import GroupMember
from octoloom.core.group_effects import Deliver
from octoloom.core.nakack import Nakack
from octoloom.core.newcomer import Newcomer
from octoloom.core.outgoing import Outgoing
from octoloom.core.sequencer import CoordinatorFirst, ForwardTable
from octoloom.core.stability import Stability
from octoloom.core.tags import Seen
from octoloom.core.transition import Transition
from octoloom.core.turns import Turns
from octoloom.core.unicast import Unicast
from tests.simulation.planting import Plants, Wrong, planting, together

GROUP_PLANTS: Plants = {}
plant = planting(GROUP_PLANTS)


# The end of a view.


@plant(Gathering, "unite")
def only_the_coordinators_casts_count(right: Wrong, self: Gathering) -> Any:
    """The new coordinator takes what it has for all that there is."""
    self.union = dict(self.reports[self.view.names[0]].have)
    return self.union


@plant(GroupMember, "_casting_of")
def casts_are_taken_after_the_report(right: Wrong, self: GroupMember, epoch: int) -> Any:
    return self.casting if self.casting is not None and self.casting.epoch == epoch else None


@plant(Transition, "_fill")
def nothing_is_filled_in(right: Wrong, self: Transition, *_: Any) -> None:
    """The cut is believed as it is."""


@plant(Nakack, "holds")
def everybody_is_ready(right: Wrong, self: Nakack, union: Any) -> bool:
    return True


@plant(Transition, "_fill")
def only_the_coordinator_is_filled_in(right: Wrong, self: Transition, *arguments: Any) -> None:
    if self._gathering is None:
        right(self, *arguments)


# Alone the first is harmless: who is told of the cut was given all before, in this order.
together(GROUP_PLANTS, everybody_is_ready, only_the_coordinator_is_filled_in)


@plant(Gathering, "behind")
def nobody_is_brought_up(right: Wrong, self: Gathering) -> list[str]:
    """Who missed an installation is left where it is."""
    return []


@plant(Gathering, "newest")
def the_oldest_view_counts(right: Wrong, self: Gathering) -> Any:
    installs = [report.installed for report in self.reports.values() if report.installed is not None]
    return min(installs, key=lambda install: install.view.epoch, default=None)


@plant(Gathering, "silent")
def a_majority_is_enough(right: Wrong, self: Gathering) -> list[str]:
    missing: list[str] = right(self)
    return [] if self.union is None and 0 < len(missing) < len(self.view.names) / 2 else missing


# Total order.


@plant(Outgoing, "resend")
def forward_table_is_not_sent_again(
    right: Wrong, self: Outgoing, now: int, casting: Any, received: int, _: bool
) -> None:
    self.forwards.take_all()
    self.numbered = received


@plant(ForwardTable, "bundles")
def forward_table_is_sent_again_backwards(right: Wrong, self: ForwardTable) -> Any:
    return list(reversed(right(self)))


@plant(ForwardTable, "remove")
def forward_table_keeps_everything(right: Wrong, self: ForwardTable, number: int) -> None:
    """And what it keeps is sent again."""


@plant(Outgoing, "freeze")
def the_old_coordinators_turn_is_cast_in_the_new_view(right: Wrong, self: Outgoing) -> None:
    self._to_forward.clear()


@plant(GroupMember, "_on_delivery")
def received_table_is_not_looked_at(right: Wrong, self: GroupMember, delivery: Any) -> None:
    for bundle in [] if delivery.cast.plain else delivery.cast.bundles:
        self._received[bundle.origin] = max(self._received.get(bundle.origin, 0), bundle.number)
        self.outgoing.forwards.remove(bundle.number if bundle.origin == self.me else 0)
        self.newcomer.hand_over(Deliver(bundle, delivery.concurrent, delivery.path))


# The old turn would do no harm alone: who gets a bundle twice drops it.
together(GROUP_PLANTS, the_old_coordinators_turn_is_cast_in_the_new_view, received_table_is_not_looked_at)


@plant(CoordinatorFirst, "_hold")
def a_gap_is_skipped(right: Wrong, self: CoordinatorFirst, message: Any) -> None:
    self._deliver(message)


# Causal order.


@plant(Causal, "lack")
def other_causes_are_not_looked_at(right: Wrong, self: Causal, place: int, cast: Any, last: Any = None) -> Any:
    return (place, cast.number - 1) if self.vector[place] < cast.number - 1 else None


@plant(Causal, "stamp")
def stamps_are_shared(right: Wrong, self: Causal, cast: Any) -> list[int]:
    """With what goes on counting, as the slides warn."""
    return self.vector


@plant(Causal, "deliver")
def concurrency_is_not_flagged(right: Wrong, self: Causal, place: int, cast: Any) -> Delivery:
    right(self, place, cast)
    return Delivery(cast)


@plant(Causal, "check")
def own_casts_are_not_counted(right: Wrong, self: Causal, place: int, cast: Any) -> None:
    cast.stamp[self.mine] = self.vector[self.mine]


# Reliable casts and unicasts.


@plant(Nakack, "ask")
def gaps_are_not_asked_for(right: Wrong, self: Nakack, now: int) -> list[Any]:
    for stream in self._streams.values():
        stream.ask_at = None
    return []


@plant(Nakack, "has")
def a_cast_is_new_again(right: Wrong, self: Nakack, sender: str, number: int) -> bool:
    seen: Seen = self._streams[sender].seen
    return number <= seen.watermark


@plant(Turns, "delivered")
def what_is_held_counts_as_had(right: Wrong, self: Turns) -> Any:
    """Then it is stable, and its sender is sure of it, before its causes are here."""


@plant(Stability, "word")
def stable_is_what_the_coordinator_has(right: Wrong, self: Stability, now: int, counts: Any, lasts: Any) -> Any:
    if self.leads:
        for member in self._known:
            self._known[member] = counts
    return right(self, now, counts, lasts)


@plant(Stability, "on_have")
def last_numbers_are_not_told(right: Wrong, self: Stability, now: int, member: str, counts: Any) -> None:
    right(self, now, member, counts)
    mine = self._members.index(member)
    self._known[member][mine] = min(self._known[member][mine], self._known[self._me][mine])


@plant(Unicast, "due")
def parts_are_sent_once(right: Wrong, self: Unicast, now: int) -> list[Any]:
    self._resend_at = None
    return []


@plant(Unicast, "on_numbered")
def parts_are_taken_as_they_come(right: Wrong, self: Unicast, numbered: Any) -> list[Any]:
    self.ack_due = True
    self._next = max(self._next, numbered.number + 1)
    return [numbered.part]


# Newcomers.


@plant(Newcomer, "hand_over")
def newcomers_do_not_wait_for_the_state(right: Wrong, self: Newcomer, deliver: Any) -> None:
    self._emit(deliver)


@plant(Newcomer, "on_installed")
def what_was_held_is_kept_for_the_next_state(right: Wrong, self: Newcomer, install: Any) -> None:
    held = list(self._held)
    right(self, install)
    self._held.extend(held)


@plant(GroupMember, "received")
def bundles_are_counted_anew(right: Wrong, self: GroupMember, origin: str) -> int:
    return 0
