"""Bugs to plant in the cores of the log, one at a time: each replaces one method by a wrong one.

They are the mistakes that replication invites, most of them made by somebody once.
"""

from __future__ import annotations

from typing import Any

import msgspec

from octoloom.core.epochs import Epochs
from octoloom.core.following import Following
from octoloom.core.in_sync import InSync, Progress
from octoloom.core.log_messages import BrokerAddress, FollowEntry, Part, PartitionState, ProposeInSync
from octoloom.core.log_register import LogRegister
from octoloom.core.partition import Admission, LogTail, Partition
from octoloom.core.producers import ProducerTable, Verdict
from octoloom.core.replication import Incoming, Outgoing
from octoloom.core.roster import name_of
from octoloom.core.standing import Standing
from octoloom.core.transitions import Transition, Transitions
from octoloom.core.uptake import Uptake
from octoloom.simulation.log_disk import SimPlace
from tests.simulation.planting import Plants, planting, together

PLANTS: Plants = {}
plant = planting(PLANTS)


# Acknowledging.


@plant(InSync, "watermark")
def own_disk_is_enough(right: Any, self: InSync, durable: int) -> int:
    """The leader acknowledges what it has itself."""
    return durable


@plant(InSync, "watermark")
def majority_is_enough(right: Any, self: InSync, durable: int) -> int:
    """As if the leaders were elected by majority: the slowest member of the set does not count."""
    ends = sorted([durable, *(self.followers[m].durable for m in self._counted if m != self._node)])
    return ends[1] if len(ends) > 2 else ends[0]


@plant(Partition, "on_durable")
def written_is_durable(right: Any, self: Partition, end: int) -> None:
    """What is written counts as synced."""
    self.durable = self.end


@plant(Partition, "follow_entry")
def received_is_durable(right: Any, self: Partition) -> FollowEntry:
    """A follower claims to have on disk what it has only received."""
    return msgspec.structs.replace(right(self), durable=self.end)  # type: ignore[no-any-return]


@plant(InSync, "_propose")
def proposal_counts_at_once(right: Any, self: InSync, wanted: list[str] | None) -> None:
    """The leader goes on with the smaller set before the register has decided."""
    right(self, wanted)
    if wanted is not None:
        self._counted = list(wanted)


@plant(InSync, "_propose")
def joiner_counts_late(right: Any, self: InSync, wanted: list[str] | None) -> None:
    """A follower that is about to join does not hold back the watermark yet, though the register may count on it."""
    right(self, wanted)
    self._counted = list(self.state.in_sync)


# In sync or not.


@plant(InSync, "weigh")
def joins_at_the_watermark(right: Any, self: InSync, now: int, end: int, high: int) -> list[str] | None:
    """A follower joins once it is at the watermark, which a new leader may know too low."""
    began, self._began_at = self._began_at, 0
    try:
        return right(self, now, end, high)  # type: ignore[no-any-return]
    finally:
        self._began_at = began


@plant(Progress, "on_durable")
def joins_before_it_agrees(right: Any, self: Progress, now: int, durable: int, end: int) -> None:
    """A follower that was heard counts as one that has everything."""
    right(self, now, end, end)


@plant(LogRegister, "_fit")
def anyone_may_join(right: Any, self: LogRegister, state: PartitionState, wanted: list[str]) -> bool:
    """The register takes whoever a leader proposes, dead or alive."""
    return True


@plant(LogRegister, "_on_proposals")
def version_not_compared(right: Any, self: LogRegister, now: int, broker: str, message: ProposeInSync) -> Any:
    """A proposal against an older decision is taken."""
    changes = [
        (topic, number, state.epoch, state.version, wanted)
        for topic, number, _, _, wanted in message.changes
        if (state := self.book.find((topic, number))) is not None
    ]
    for topic, number, _, _, _ in changes:
        state = self.book.state((topic, number))
        if state.leader != broker:
            self.book.put((topic, number), msgspec.structs.replace(state, leader=broker))
    return right(
        self, now, broker, ProposeInSync([(t, n, e, self.book.state((t, n)).version, w) for t, n, e, _, w in changes])
    )


# Epochs and truncation.


@plant(Partition, "on_follow")
def divergence_not_noticed(right: Any, self: Partition, now: int, follower: str, entry: FollowEntry) -> Part | None:
    """A follower goes on from its end, whatever is before it."""
    return right(self, now, follower, msgspec.structs.replace(entry, last_epoch=-1))  # type: ignore[no-any-return]


@plant(Epochs, "end_of")
def epoch_end_off_by_one(right: Any, self: Epochs, epoch: int, end: int) -> tuple[int, int]:
    """An epoch that the log does not have is taken for the next one that it has."""
    known = [(e, s) for e, s in self._starts if e >= epoch]
    return (known[0][0], end) if known else right(self, epoch, end)


@plant(Following, "on_part")
def old_leaders_are_heard(right: Any, self: Following, now: int, peer: str, part: Part, batches: Any) -> bool:
    """A follower takes what an older leader still sends for the new one's, whoever sends it, of whichever epoch."""
    name = (part.topic, part.partition)
    partition = self._partitions.get(name)
    if partition is not None and partition.leader in self._incoming and not part.verdict:
        peer = partition.leader
        self._incoming[peer].asked.setdefault(name, partition.state.epoch)
        part = msgspec.structs.replace(part, epoch=partition.state.epoch)
    return right(self, now, peer, part, batches)  # type: ignore[no-any-return]


@plant(Following, "on_brokers")
def nobody_is_hung_up_on(right: Any, self: Following, now: int, brokers: dict[str, BrokerAddress]) -> None:
    """A leader that was given up is still listened to."""
    right(self, now, {**{peer: self._brokers[peer] for peer in self._incoming}, **brokers})


# Whoever was given up is hung up on, and whoever was not has heard of its successor soon.
together(PLANTS, old_leaders_are_heard, nobody_is_hung_up_on)


@plant(Partition, "take_role")
def leads_on_after_its_end(right: Any, self: Partition, now: int) -> Any:
    """A leader that is replaced goes on taking and acknowledging."""
    leading, waiting = self.leading, self.waiting
    dropped = right(self, now)
    if leading is not None and self.leading is None:
        self.leading, self.waiting = leading, waiting
        return []
    return dropped


# Transitions.


@plant(Transitions, "candidates")
def unclean_leaders(right: Any, self: Transitions, state: PartitionState) -> list[str]:
    """Anyone who holds a replica may lead."""
    there = [b for b in sorted(self._roster.addresses()) if self._roster.present(b) and name_of(b) in state.replicas]
    return there or right(self, state)


@plant(LogRegister, "_forget_disk")
def empty_disk_is_trusted(right: Any, self: LogRegister, name: str) -> None:
    """A broker that came back with another disk is taken for what it was."""


@plant(LogRegister, "_on_damaged")
def damage_not_heard(right: Any, self: LogRegister, broker: str, damaged: Any) -> None:
    """A broker that came back with less than it had is counted on."""


@plant(LogRegister, "_on_damaged")
def damage_held_against_it(right: Any, self: LogRegister, broker: str, damaged: Any) -> None:
    """A broker that has caught up since is taken out of the set when it connects again, even if it leads."""
    right(self, f"{name_of(broker)}#", damaged)


@plant(Transition, "choose")
def shortest_log_leads(right: Any, self: Transition, place: Any, candidates: list[str]) -> str:
    """The survey is read upside down, so members have more than their leader, which may be committed already."""
    standings = self.standings.get(place, {})
    answered = [c for c in candidates if c in standings]
    return min(answered, key=lambda c: standings[c], default="")


@plant(Partition, "cut_at")
def cut_at_the_watermark(right: Any, self: Partition, part: Part) -> int | None:
    """As before epochs were kept: a follower cuts back to its watermark, which may be older than what is committed."""
    return None if right(self, part) is None else self.high


# Each of these alone is harmless: a member has everything committed, however short its log, and the longest log has
# nothing to cut.
together(PLANTS, cut_at_the_watermark, shortest_log_leads)


@plant(Transitions, "_lead")
def epoch_stays(right: Any, self: Transitions, running: Any, place: Any, state: PartitionState) -> None:
    """A new leader in the old epoch."""
    right(self, running, place, state)
    new = self._book.state(place)
    if new.epoch > state.epoch:
        self._book.put(place, msgspec.structs.replace(new, epoch=state.epoch))


@plant(LogRegister, "_on_membership")
def dead_members_stay(right: Any, self: LogRegister) -> None:
    """The register does not take the dead out of a set: a leader waits for them for ever, unless it does."""
    self._restless = True


# Duplicates.


@plant(ProducerTable, "check")
def duplicates_are_taken(right: Any, self: ProducerTable, *batch: Any) -> tuple[Verdict, int]:
    """A batch that comes again is appended again."""
    verdict, _ = right(self, *batch)
    return verdict, -1


@plant(ProducerTable, "check")
def gaps_are_taken(right: Any, self: ProducerTable, *batch: Any) -> tuple[Verdict, int]:
    """A batch that comes too early is appended."""
    verdict, offset = right(self, *batch)
    return (Verdict.TAKEN, -1) if verdict is Verdict.OUT_OF_ORDER else (verdict, offset)


@plant(Partition, "append")
def followers_keep_no_producers(right: Any, self: Partition, batches: list[SimPlace], high: int) -> None:
    """A new leader does not know what the old one had taken."""
    right(self, [batch._replace(producer_id=-1) for batch in batches], high)


@plant(Partition, "on_tail")
def producers_not_rebuilt(right: Any, self: Partition, tail: LogTail) -> Any:
    """After a cut the table still has what the log has no more."""
    producers = self.producers
    waiting = right(self, tail)
    self.producers = producers if len(producers) else self.producers
    return waiting


@plant(Partition, "admit")
def duplicate_answered_at_once(right: Any, self: Partition, *batch: Any) -> Admission:
    """A duplicate is acknowledged though the first one is not committed yet."""
    admission: Admission = right(self, *batch)
    return admission._replace(next_offset=0) if admission.duplicate else admission


# Streams.


@plant(Incoming, "drop")
def stale_frames_acknowledged(right: Any, self: Incoming, name: Any) -> None:
    """What was taken before a cut is acknowledged after it."""
    self.asked.pop(name, None)


@plant(Outgoing, "on_sent")
def stream_skips_ahead(right: Any, self: Outgoing, name: Any, next_offset: int, end: int) -> None:
    """The leader believes that it has sent everything."""
    right(self, name, end, end)


# Changes of topics.


@plant(Uptake, "release")
def answered_at_once(right: Any, self: Uptake, now: int, alive: Any) -> Any:
    """A change is answered as soon as it is decided, whoever has heard of it."""
    waiting, self._waiting = self._waiting, []
    return [(each.broker, each.done) for each in waiting]


@plant(Uptake, "_reached")
def one_broker_is_enough(right: Any, self: Uptake, alive: Any) -> int:
    """A change is answered when the first broker knows it."""
    return max((self._taken.get(broker, 0) for broker in alive), default=0)


@plant(Uptake, "on_taken")
def told_is_taken(right: Any, self: Uptake, broker: str, revision: int) -> None:
    """Whoever has taken up something once is thought to take up everything at once."""
    right(self, broker, revision + 1)


@plant(Standing, "informed")
def lease_by_the_register_alone(right: Any, self: Standing, now: int) -> bool:
    """A broker that slept does not look at its clock: it speaks as long as its connection seems to be there."""
    return self._until > 0


@plant(Standing, "on_heard")
def lease_from_the_answer_on(right: Any, self: Standing, sent_at: int, lease_ms: int) -> None:
    """A broker counts its lease as if the answer had come at once: an old one, read late, makes it look informed."""
    right(self, sent_at + lease_ms, lease_ms)


@plant(Standing, "on_lost")
def lost_connection_not_minded(right: Any, self: Standing) -> None:
    """A broker speaks on when its connection has ended, while the register gives it up after a short grace."""
