"""Leadership transitions, as the register runs them: announce, collect answers, commit or abort.

The register announces which partitions need another leader; brokers stop following there and accept, each with its
last epoch, end offset and watermark, or refuse. With an answer from every broker that was asked and is still there,
the leaders are chosen and the choice is written. A broker that stays silent past the deadline is not counted on.

The survey makes the choice good, not safe. Safe it is because of two rules:

1. a new leader is a member of the in-sync set; or, when every member is gone for good, a member's successor: the same
   broker restarted, on the same disk. Whatever was acknowledged is on the disk of each of them;
2. the decision is one durable write with a new epoch. Members that did not answer are not in the new set.

One transition runs at a time. It takes along every partition that needs one when it begins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from octoloom.core.log_messages import Accept, Announced, BrokerAddress, PartitionState, TopicPartition
from octoloom.core.roster import Roster, name_of
from octoloom.core.topic_book import TopicBook

Standing = tuple[int, int]
"""(last epoch, end offset): how much of the log a broker has; larger is more."""


@dataclass(slots=True)
class Transition:
    number: int
    reason: str
    partitions: dict[TopicPartition, None]
    planned: bool
    """The old leaders are well; it is only that others should lead."""
    deadline: int
    waiting: dict[str, None]
    """Brokers that have not answered."""
    standings: dict[TopicPartition, dict[str, Standing]] = field(default_factory=dict)

    def on_accept(self, broker: str, accept: Accept) -> None:
        if broker in self.waiting:
            del self.waiting[broker]
            for topic, partition, epoch, end, _high in accept.ends:
                self.standings.setdefault((topic, partition), {})[broker] = (epoch, end)

    def drop(self, broker: str) -> None:
        self.waiting.pop(broker, None)
        for standings in self.standings.values():
            standings.pop(broker, None)

    def choose(self, place: TopicPartition, candidates: list[str]) -> str:
        """The candidate with the longest log; among equals the first. "" if none of them answered."""
        standings = self.standings.get(place, {})
        best = ""
        for candidate in candidates:
            if candidate in standings and (not best or standings[candidate] > standings[best]):
                best = candidate
        return best


class Transitions:
    def __init__(self, now: int, book: TopicBook, roster: Roster[BrokerAddress], answer_ms: int, form_ms: int) -> None:
        self._book = book
        self._roster = roster
        self._answer_ms = answer_ms
        self._form_ms = form_ms
        self.running: Transition | None = None
        self.form_at = now + form_ms
        self._rest_until = now

    def rest(self, now: int) -> None:
        """A broker has refused, and would refuse the next one as well if it came at once."""
        self._rest_until = now + self._form_ms

    def hold_off(self, now: int) -> None:
        """Give others who may lead, too, time to come back before leaders are chosen."""
        self.form_at = now + self._form_ms

    def begin(self, now: int, number: int, balance: bool) -> Announced | None:
        """Begins a transition if some partition needs one and can have one."""
        if now < self._rest_until:
            return None
        places = list(self._book.states())
        needy = [place for place, state in places if self.leaderless(state) and self.candidates(state)]
        if needy and now < self.form_at and not self._complete(needy):
            return None
        reason, planned = "the leader is gone", False
        if not needy:
            planned = True
            reason = "the leader wants to go"
            needy = [place for place, state in places if self._leaves(state)]
        if not needy and balance:
            reason = "leaders go back to their places"
            needy = [place for place, state in places if self._strayed(state)]
        if not needy:
            return None
        names = dict.fromkeys(name for place in needy for name in self._book.state(place).replicas)
        asked = [broker for broker in sorted(self._roster.addresses()) if self._roster.present(broker)]
        waiting = {broker: None for broker in asked if name_of(broker) in names}
        self.running = Transition(number, reason, dict.fromkeys(needy), planned, now + self._answer_ms, waiting)
        return Announced(number, [(*place, self._book.state(place).epoch) for place in needy], reason)

    def needless(self) -> bool:
        """All leaders that were given up are back, before anything was decided."""
        assert self.running is not None
        for place in [place for place in self.running.partitions if self._book.find(place) is None]:
            del self.running.partitions[place]
        if self.running.planned:
            return not self.running.partitions
        return not any(self.leaderless(self._book.state(place)) for place in self.running.partitions)

    def decide(self, now: int) -> bool:
        """Chooses the new leaders, if everybody has answered. True: the transition is over."""
        running = self.running
        assert running is not None
        late = running.deadline <= now
        for broker in [broker for broker in running.waiting if late or not self._roster.present(broker)]:
            running.drop(broker)
        if running.waiting:
            return False
        for place in running.partitions:
            self._lead(running, place, self._book.state(place))
        self.running = None
        return True

    def _lead(self, running: Transition, place: TopicPartition, state: PartitionState) -> None:
        if not running.planned and not self.leaderless(state):
            return
        leader = running.choose(place, self.candidates(state))
        if leader in ("", state.leader):
            return
        answered = running.standings.get(place, {})
        rest = [member for member in state.in_sync if member != leader and member in answered]
        in_sync = [leader, *rest]
        self._book.put(place, msgspec.structs.replace(state, leader=leader, epoch=state.epoch + 1, in_sync=in_sync))

    def leaderless(self, state: PartitionState) -> bool:
        return bool(state.in_sync) and self._roster.dead(state.leader)

    def candidates(self, state: PartitionState) -> list[str]:
        """Who may lead, those first who were meant to (rule 1)."""
        there = [member for member in state.in_sync if self._roster.present(member)]
        staying = [member for member in there if not self._roster.leaving(member)]
        chosen = staying or there
        if not there and all(self._roster.dead(member) for member in state.in_sync):
            chosen = [successor for member in state.in_sync if (successor := self._roster.successor(member))]
        return sorted(chosen, key=lambda member: state.replicas.index(name_of(member)))

    def _leaves(self, state: PartitionState) -> bool:
        """Its leader wants to go, and another can take over."""
        return self._roster.leaving(state.leader) and any(not self._roster.leaving(m) for m in self.candidates(state))

    def _strayed(self, state: PartitionState) -> bool:
        """It is led by a stand-in, and the one who was meant to lead is in sync."""
        candidates = self.candidates(state)
        present = self._roster.present(state.leader)
        return present and bool(candidates) and name_of(candidates[0]) == state.replicas[0] != name_of(state.leader)

    def _complete(self, places: list[TopicPartition]) -> bool:
        """Is there a member that did not restart, and nobody left to wait for?"""
        members = dict.fromkeys(member for place in places for member in self._book.state(place).in_sync)
        settled = all(self._roster.present(member) or self._roster.dead(member) for member in members)
        return settled and any(self._roster.present(member) for member in members)
