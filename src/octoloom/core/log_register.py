"""The register's part for topics: which brokers are there, who leads each partition and who is in sync.

{leader, epoch, in-sync set} of a partition is one durable write here, before anyone acts on it. Invariants:

1. epochs and versions of a partition only rise; each leader has an epoch of its own;
2. the in-sync set changes by the leader's proposal against the version it knows, or because a member is gone while
   the leader is there, or with a transition (`transitions.py`). It is never empty, unless the last member came back
   with another disk: then nobody knows what was in it, and the partition stays offline;
3. a broker that restarted is in no set: it comes back by catching up;
4. `Persist` comes before whatever is told about it;
5. nobody is given up for the time in which the register itself did not run;
6. a change of topics is answered when all brokers that are not given up know it (`uptake.py`).

What a driver owes is the same as for `register.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from octoloom.core.errors import UsageError
from octoloom.core.log_messages import (
    Aborted,
    Accept,
    Admin,
    AdminDone,
    Allot,
    Allotted,
    BrokerAddress,
    EnlistBroker,
    Heard,
    InSyncRefused,
    LogDirectory,
    LogNews,
    MakeTopic,
    PartitionState,
    ProposeInSync,
    Refuse,
    Taken,
    TopicPartition,
)
from octoloom.core.log_saved import Counters, Decline, Identity, LogEffect, LogSaved, Persist, Tell, TellAll
from octoloom.core.roster import Roster, name_of
from octoloom.core.topic_admin import AdminRefused
from octoloom.core.topic_book import TopicBook, TopicDefaults, changed
from octoloom.core.transitions import Transitions
from octoloom.core.uptake import THROTTLED, WAITING_MAX, Uptake, Waiting

LATE_MS = 50
PRODUCERS_MAX = 10_000
"""Producer ids that are allotted at once at most."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    partitions: int = 1
    replicas: int = 3
    """Defaults of a new topic; never more replicas than there are brokers."""
    in_sync_min: int = 0
    """The default of min.insync.replicas; 0: two, where a topic has three replicas or more."""
    beat_ms: int = 50
    lease_ms: int = 2000
    closed_grace_ms: int = 150
    answer_ms: int = 1000
    form_ms: int = 300
    """How long a partition without a leader waits for more of its in-sync members to come back."""
    balance_ms: int = 5000
    """How often leaders go back to the brokers that were meant to lead."""
    brokers_max: int = 1000

    def __post_init__(self) -> None:
        if self.partitions < 1 or self.replicas < 1:
            raise UsageError("a topic needs at least one partition and one replica")


class LogRegister:
    def __init__(self, config: LogConfig, saved: LogSaved | None, now: int) -> None:
        self._config = config
        self._roster: Roster[BrokerAddress] = Roster(config.lease_ms, config.closed_grace_ms, config.brokers_max)
        saved = saved or LogSaved(Counters(), {}, {}, {}, {})
        self._counters = saved.counters
        self._identities = dict(saved.identities)
        self._roster.restore(now, saved.brokers)
        defaults = TopicDefaults(config.partitions, config.replicas, config.in_sync_min)
        self.book = TopicBook(defaults, saved.topics, saved.partitions, saved.counters.topics)
        self._transitions = Transitions(now, self.book, self._roster, config.answer_ms, config.form_ms)
        self._saved_brokers = dict(saved.brokers)
        self._told_brokers = self._alive()
        self._balance_at = now + config.balance_ms
        self._committed = 0
        self._uptake = Uptake()
        self._topics_at = saved.counters.revision
        """The revision in which topics were changed last, by anybody's wish."""
        self._restless = True
        """Something happened after which a partition may need another leader."""
        self._moved = True
        """Somebody came or went: whom no partition names any more can be forgotten."""
        self._deadline: int | None = None
        self._reckon(now)

    # Questions.

    def directory(self) -> LogDirectory:
        partitions = [(*place, state) for place, state in self.book.states()]
        ids = {name: identity.id for name, identity in self._identities.items()}
        return LogDirectory(self._counters.revision, self._alive(), dict(self.book.topics), partitions, ids)

    def deadline(self) -> int | None:
        return self._deadline

    @property
    def transition_runs(self) -> bool:
        return self._transitions.running is not None

    def _alive(self) -> dict[str, BrokerAddress]:
        """Those who were not given up; an absent one may come back any moment."""
        known = self._roster.addresses()
        return {broker: address for broker, address in known.items() if not self._roster.dead(broker)}

    # Brokers.

    def on_enlist(self, now: int, broker: str, message: EnlistBroker) -> list[LogEffect]:
        self._awake(now)
        if message.address.broker != broker:
            return [Decline(broker, "bad-link", f"{broker} may not enlist as {message.address.broker}")]
        if refusal := self._roster.refusal(broker):
            return [Decline(broker, *refusal)]
        if message.revision > self._counters.revision:
            detail = f"revision {message.revision} is unknown here: start the register with the data it had"
            return [Decline(broker, "lost-register", detail)]
        persist = Persist(self._counters)
        identity = self._identify(name_of(broker), message.address.storage, persist)
        self._on_damaged(broker, message.damaged)
        if not any(self._roster.present(other) for other in self._saved_brokers):
            self._transitions.hold_off(now)  # the first of many that come back
        older = self._roster.enlist(now, broker, msgspec.structs.replace(message.address, id=identity.id))
        effects: list[LogEffect] = []
        if older:
            effects.append(Decline(older, "outdated", f"{broker} has taken the place of {older}"))
        self._on_membership()
        return [*effects, *self._settle(now, persist), Tell(broker, self.directory())]

    def _identify(self, name: str, storage: str, persist: Persist) -> Identity:
        known = self._identities.get(name)
        if known is None or known.storage != storage:
            if known is not None:
                self._forget_disk(name)
            ids = [identity.id for identity in self._identities.values()]
            known = Identity(known.id if known else max(ids, default=0) + 1, storage)
            self._identities[name] = persist.identities[name] = known
        return known

    def _forget_disk(self, name: str) -> None:
        """A broker came back with another disk: what its name held is gone."""
        for place, state in list(self.book.states()):
            self.book.put_in_sync(place, [member for member in state.in_sync if name_of(member) != name])

    def _on_damaged(self, broker: str, damaged: Sequence[TopicPartition]) -> None:
        """A broker came back with less than it had acknowledged: others are counted on, where there are others.

        It says so on each connection of this life, in which it may have caught up since.
        """
        for place in damaged:
            state = self.book.find(place)
            members = state.in_sync if state else []
            rest = [member for member in members if member == broker or name_of(member) != name_of(broker)]
            if rest:
                self.book.put_in_sync(place, rest)

    def on_beat(self, now: int, broker: str, sent_at: int) -> list[LogEffect]:
        return self._hear(now, broker) or [Tell(broker, Heard(sent_at, self._config.lease_ms))]

    def on_closed(self, now: int, broker: str) -> list[LogEffect]:
        self._awake(now)
        self._roster.close(now, broker)
        self._on_membership()
        return self._settle(now)

    def on_leave(self, now: int, broker: str) -> list[LogEffect]:
        """The broker wants to go: others should lead in its place first."""
        if refused := self._hear(now, broker):
            return refused
        self._roster.leave(broker)
        self._restless = True
        return self._settle(now)

    def on_time(self, now: int) -> list[LogEffect]:
        self._awake(now)
        lapsed = self._roster.expire(now)
        detail = f"nothing was heard for {self._config.lease_ms} ms: enlist again"
        effects: list[LogEffect] = [Decline(broker, "lapsed", detail) for broker in lapsed]
        if self._alive() != self._told_brokers:
            self._on_membership()
        return effects + self._settle(now)

    def on_message(
        self, now: int, broker: str, message: Accept | Refuse | ProposeInSync | Taken | Allot | Admin
    ) -> list[LogEffect]:
        """Anything else that an enlisted broker says."""
        if refused := self._hear(now, broker):
            return refused
        match message:
            case Accept():
                return self._on_accept(now, broker, message)
            case Refuse():
                return self._on_refuse(now, broker, message)
            case ProposeInSync():
                return self._on_proposals(now, broker, message)
            case Taken(revision):
                self._uptake.on_taken(broker, revision)
                return self._answers(now)
            case Allot():
                return self._on_allot(broker, message)
            case _:
                return self._on_admin(now, broker, message)

    def on_own(self, now: int, message: Allot | MakeTopic) -> list[LogEffect]:
        """The register's own driver asks, for a Kafka client that came to it. The answer is told to nobody, ""."""
        self._awake(now)
        return self._on_allot("", message) if isinstance(message, Allot) else self._on_admin(now, "", message)

    def _hear(self, now: int, broker: str) -> list[LogEffect]:
        self._awake(now)
        if self._roster.hear(now, broker):
            return []
        return [Decline(broker, "unknown", "enlist first")]

    def _on_membership(self) -> None:
        """Takes the dead out of every set whose leader is there (invariant 2)."""
        self._restless = self._moved = True
        for place, state in list(self.book.states()):
            if self._roster.present(state.leader):
                alive = [member for member in state.in_sync if not self._roster.dead(member)]
                self.book.put_in_sync(place, alive)

    # What brokers ask.

    def _on_proposals(self, now: int, broker: str, message: ProposeInSync) -> list[LogEffect]:
        refused: list[LogEffect] = []
        for topic, number, epoch, version, wanted in message.changes:
            state = self.book.find((topic, number))
            if state is None:
                continue
            if (state.leader, state.epoch, state.version) == (broker, epoch, version) and self._fit(state, wanted):
                self.book.put_in_sync((topic, number), list(wanted))
            else:
                refused.append(Tell(broker, InSyncRefused(topic, number, version)))
        self._restless = True
        return self._settle(now) + refused

    def _fit(self, state: PartitionState, wanted: Sequence[str]) -> bool:
        if state.leader not in wanted or len(dict.fromkeys(wanted)) != len(wanted) or wanted == state.in_sync:
            return False
        return all(
            member in state.in_sync or (self._roster.present(member) and name_of(member) in state.replicas)
            for member in wanted
        )

    def _on_accept(self, now: int, broker: str, message: Accept) -> list[LogEffect]:
        running = self._transitions.running
        if running is not None and running.number == message.transition:
            running.on_accept(broker, message)
        return self._settle(now)

    def _on_refuse(self, now: int, broker: str, message: Refuse) -> list[LogEffect]:
        running = self._transitions.running
        effects: list[LogEffect] = []
        if running is not None and running.number == message.transition:
            effects = self._abort(now, f"{broker} refused: {message.reason}")
            self._transitions.rest(now)
        return effects + self._settle(now)

    def _on_allot(self, broker: str, message: Allot) -> list[LogEffect]:
        count = max(1, min(message.count, PRODUCERS_MAX))
        first = self._counters.producers
        self._counters = msgspec.structs.replace(self._counters, producers=first + count)
        return [Persist(self._counters), Tell(broker, Allotted(first, count))]

    def _on_admin(self, now: int, broker: str, message: Admin) -> list[LogEffect]:
        if self._uptake.full:
            text = f"{WAITING_MAX} requests about topics wait already: try again"
            return [Tell(broker, AdminDone(message.ticket, THROTTLED, text))]
        effects: list[LogEffect] = []
        try:
            self.book.on_admin(message, {name_of(each): each for each in self._roster.candidates()})
        except AdminRefused as refused:
            done = AdminDone(message.ticket, refused.error, refused.detail)
        else:
            done = AdminDone(message.ticket, 0, "")
            if self.book.new_topics or self.book.new_states:
                self._counters = msgspec.structs.replace(self._counters, topics=self.book.count)
                effects = self._settle(now)
                self._topics_at = self._counters.revision
        self._uptake.hold(Waiting(broker, done, self._topics_at, now + message.timeout_ms))
        return [*effects, *self._answers(now)]

    def _answers(self, now: int) -> list[LogEffect]:
        """What was asked of topics, and all brokers know by now."""
        return [Tell(broker, done) for broker, done in self._uptake.release(now, self._alive())]

    # What follows from it.

    def _abort(self, now: int, reason: str) -> list[LogEffect]:
        running = self._transitions.running
        assert running is not None
        self._transitions.running = None
        self._transitions.hold_off(now)
        self._restless = True
        return [TellAll(Aborted(running.number, reason))]

    def _settle(self, now: int, persist: Persist | None = None) -> list[LogEffect]:
        """Runs transitions as far as they go, and publishes what changed."""
        effects: list[LogEffect] = []
        running = self._transitions.running
        if running is not None:
            if self._transitions.needless():
                effects += self._abort(now, "the leader is back")
            elif self._transitions.decide(now):
                self._committed, self._restless = running.number, True
        announced: list[LogEffect] = []
        balance = now >= self._balance_at
        if self._transitions.running is None and (self._restless or balance):
            announced = self._begin(now, balance)
        effects += self._publish(persist or Persist(self._counters))
        self._reckon(now)
        return [*effects, *announced, *self._answers(now)]

    def _begin(self, now: int, balance: bool) -> list[LogEffect]:
        if balance:
            self._balance_at = now + self._config.balance_ms
        number = self._counters.transitions + 1
        announced = self._transitions.begin(now, number, balance)
        if announced is None:
            self._restless = now < self._transitions.form_at
            return []
        self._counters = msgspec.structs.replace(self._counters, transitions=number)
        return [TellAll(announced)]

    def _publish(self, persist: Persist) -> list[LogEffect]:
        """The one durable write, and the news of it."""
        if self._moved or self.book.new_states:
            self._moved = False
            self._roster.forget([m for _, state in self.book.states() for m in (state.leader, *state.in_sync) if m])
        known, alive = self._roster.addresses(), self._alive()
        if known != self._saved_brokers:
            persist.brokers = self._saved_brokers = known
        persist.topics, self.book.new_topics = self.book.new_topics, {}
        persist.partitions, self.book.new_states = self.book.new_states, {}
        brokers = alive if alive != self._told_brokers else None
        writes = persist.brokers is not None or persist.identities or persist.topics or persist.partitions
        if not writes and brokers is None and not self._committed:
            return []
        self._told_brokers = alive
        revision = self._counters.revision + 1
        self._counters = persist.counters = msgspec.structs.replace(self._counters, revision=revision)
        news = LogNews(revision, brokers, persist.topics, list(changed(persist.partitions)), self._committed)
        self._committed = 0
        return [persist, TellAll(news)]

    def _awake(self, now: int) -> None:
        """Gives back the time in which the register did not run (invariant 5)."""
        if self._deadline is not None and now - self._deadline > LATE_MS:
            late_ms = now - self._deadline
            self._roster.delay(late_ms)
            self._transitions.form_at += late_ms
            if self._transitions.running is not None:
                self._transitions.running.deadline += late_ms
            self._deadline = now

    def _reckon(self, now: int) -> None:
        """Looks in at every beat while there are brokers, so that a pause of its own is noticed."""
        first = self._roster.deadline(now)
        self._deadline = None if first is None else min(first, now + self._config.beat_ms)
