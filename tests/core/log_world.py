"""The register's part for topics, with its disk and brokers that answer, and a transcript of what was said."""

from __future__ import annotations

from octoloom.core.log_messages import (
    Aborted,
    Accept,
    Admin,
    AdminDone,
    Allot,
    Allotted,
    Announced,
    BrokerAddress,
    EnlistBroker,
    Heard,
    InSyncRefused,
    LogDirectory,
    LogNews,
    PartitionState,
    ProposeInSync,
    Refuse,
    RegisterToBroker,
    Taken,
    TopicInfo,
    TopicPartition,
)
from octoloom.core.log_register import LogConfig, LogRegister
from octoloom.core.log_saved import Counters, Decline, Identity, LogEffect, LogSaved, Persist, Tell, TellAll
from octoloom.core.roster import name_of

MOVES = ("moves", 0)


def address(broker: str, storage: str = "") -> BrokerAddress:
    return BrokerAddress(broker, "host", 9092, storage or f"disk-{name_of(broker)}")


def led_by(leader: str, *others: str, epoch: int = 1, replicas: str = "abc") -> PartitionState:
    return PartitionState(leader, epoch, [leader, *others], list(replicas), 1)


def saved(*states: PartitionState) -> LogSaved:
    """A register that knows a topic with these partitions, and the brokers in them."""
    brokers = dict.fromkeys(broker for state in states for broker in (state.leader, *state.in_sync) if broker)
    identities = {name_of(broker): Identity(i, f"disk-{name_of(broker)}") for i, broker in enumerate(brokers, 1)}
    return LogSaved(
        Counters(revision=5, topics=1),
        identities,
        {broker: address(broker) for broker in sorted(brokers)},
        {"moves": TopicInfo("moves", 1, {})},
        {("moves", number): state for number, state in enumerate(states)},
    )


class LogWorld:
    """Connected brokers beat, and accept what is announced with where their logs stand, unless told not to.

    Whatever is persisted or told is checked against the register's invariants.
    """

    def __init__(self, disk: LogSaved | None = None, **settings: int) -> None:
        self.config = LogConfig(**settings)
        self.now = 1000
        self.disk = disk or LogSaved(Counters(), {}, {}, {}, {})
        self.register = LogRegister(self.config, self.disk, self.now)
        self.connected: list[str] = []
        self.mute: list[str] = []
        self.silent: list[str] = []
        """Do not answer an announcement."""
        self.slow: list[str] = []
        """Do not take up what they are told."""
        self.refusing: list[str] = []
        self.standings: dict[str, tuple[int, int]] = {}
        """(last epoch, end) of each broker's logs, by name; (1, 10) where nothing is said."""
        self.transcript: list[str] = []
        self.told: dict[str, list[RegisterToBroker]] = {}
        self.declined: list[tuple[str, str]] = []

    # Questions.

    def state(self, number: int = 0, topic: str = "moves") -> PartitionState:
        return self.disk.partitions[topic, number]

    def shape(self, number: int = 0, topic: str = "moves") -> str:
        """Epoch, leader, and the rest of the in-sync set."""
        state = self.state(number, topic)
        return " ".join([f"{state.epoch}:", *(m + "*" * (m == state.leader) for m in state.in_sync)])

    def alive(self) -> list[str]:
        return list(self.register.directory().brokers)

    # Deeds.

    def enlist(self, *brokers: str, storage: str = "", revision: int = 0, damaged: bool = False) -> None:
        for broker in brokers:
            if broker not in self.connected:
                self.connected.append(broker)
            message = EnlistBroker(address(broker, storage), revision, [MOVES] if damaged else [])
            self.note(f"{broker} enlists" + " with a damaged log" * damaged)
            self.obey(self.register.on_enlist(self.now, broker, message))
        self.take_up()

    def close(self, *brokers: str) -> None:
        for broker in brokers:
            self.connected.remove(broker)
            self.note(f"{broker} is cut off")
            self.obey(self.register.on_closed(self.now, broker))

    def leave(self, broker: str) -> None:
        self.note(f"{broker} wants to go")
        self.obey(self.register.on_leave(self.now, broker))

    def say(self, broker: str, message: Accept | Refuse | ProposeInSync | Taken | Allot | Admin) -> None:
        self.obey(self.register.on_message(self.now, broker, message))

    def propose(self, *wanted: str, number: int = 0) -> None:
        """The leader proposes a set, against what was decided last."""
        state = self.state(number)
        change = ("moves", number, state.epoch, state.version, list(wanted))
        self.say(state.leader, ProposeInSync([change]))

    def restart(self, pause_ms: int = 0) -> None:
        self.now += pause_ms
        self.connected.clear()
        self.note("the register restarts")
        self.register = LogRegister(self.config, self.disk, self.now)

    def run(self, ms: int) -> None:
        end = self.now + ms
        while self.now < end:
            self.now = min(self.now + 10, end)
            deadline = self.register.deadline()
            if deadline is not None and deadline <= self.now:
                self.obey(self.register.on_time(self.now))
            if self.now % 100 == 0:
                for broker in [broker for broker in self.connected if broker not in self.mute]:
                    self.obey(self.register.on_beat(self.now, broker, self.now))

    # What the register does.

    def obey(self, effects: list[LogEffect]) -> None:
        announced = None
        for effect in effects:
            match effect:
                case Persist():
                    self._save(effect)
                case TellAll(message):
                    announced = self._tell_all(message) or announced
                case Tell(_, Heard()):
                    pass
                case Tell(broker, message):
                    self.told.setdefault(broker, []).append(message)
                    self._note_told(broker, message)
                case Decline(broker, code, _):
                    self.declined.append((broker, code))
                    self.note(f"{broker} is declined: {code}")
                    if broker in self.connected:
                        self.connected.remove(broker)
        if announced is not None:
            self._answer(announced)
        if any(isinstance(effect, TellAll) and isinstance(effect.message, LogNews) for effect in effects):
            self.take_up()

    def take_up(self) -> None:
        """Everybody who is not slow says how far it is."""
        for broker in [broker for broker in self.connected if broker not in (*self.slow, *self.mute)]:
            self.say(broker, Taken(self.disk.counters.revision))

    def _tell_all(self, message: RegisterToBroker) -> Announced | None:
        match message:
            case Announced(number, partitions, reason):
                places = " ".join(f"{topic}-{partition}" for topic, partition, _ in partitions)
                self.note(f"announce {number}, {places}: {reason}")
                for topic, partition, epoch in partitions:
                    assert epoch == self.disk.partitions[topic, partition].epoch
                return message
            case Aborted(number, reason):
                self.note(f"abort {number}: {reason}")
            case LogNews(revision, _, _, partitions, transition):
                assert revision == self.disk.counters.revision, "told before it was durable"
                for topic, partition, state in partitions:
                    assert state == self.disk.partitions[topic, partition], "told before it was durable"
                if transition:
                    self.note(f"commit {transition}")
        return None

    def _note_told(self, broker: str, message: RegisterToBroker) -> None:
        match message:
            case InSyncRefused():
                self.note(f"{broker} is refused its set")
            case LogDirectory():
                assert message.partitions == [(*place, state) for place, state in self.disk.partitions.items()]
            case AdminDone() | Allotted():
                pass

    def _answer(self, announced: Announced) -> None:
        for broker in [broker for broker in self.connected if broker not in self.silent]:
            name = name_of(broker)
            epoch, end = self.standings.get(name, (1, 10))
            places = [place[:2] for place in announced.partitions if name in self.disk.partitions[place[:2]].replicas]
            if not places:
                continue
            if broker in self.refusing:
                self.note(f"{broker} refuses {announced.transition}")
                self.say(broker, Refuse(announced.transition, "no"))
                return
            self.note(f"{broker} accepts {announced.transition} at epoch {epoch}, offset {end}")
            self.say(broker, Accept(announced.transition, [(*place, epoch, end, end) for place in places]))

    def _save(self, step: Persist) -> None:
        old = self.disk
        for place, state in step.partitions.items():
            if state is not None:
                self._check(place, state)
                self.note(f"write {place[0]}-{place[1]} in epoch {state.epoch}: {' '.join(state.in_sync) or 'nobody'}")
        assert step.counters.revision >= old.counters.revision
        topics = {name: info for name, info in {**old.topics, **step.topics}.items() if info is not None}
        partitions = {n: state for n, state in {**old.partitions, **step.partitions}.items() if state is not None}
        brokers = old.brokers if step.brokers is None else dict(step.brokers)
        self.disk = LogSaved(step.counters, {**old.identities, **step.identities}, brokers, topics, partitions)

    def _check(self, place: TopicPartition, state: PartitionState) -> None:
        assert len(set(state.in_sync)) == len(state.in_sync)
        assert {name_of(member) for member in state.in_sync} <= set(state.replicas)
        old = self.disk.partitions.get(place)
        if old is None:
            return
        assert state.version == old.version + 1
        assert state.replicas == old.replicas
        if state.epoch == old.epoch:
            assert state.leader == old.leader
        else:
            assert state.epoch == old.epoch + 1
            assert state.leader != old.leader
            assert state.in_sync[0] == state.leader
            members = {*old.in_sync, *(m for m in self.connected if name_of(m) in map(name_of, old.in_sync))}
            assert set(state.in_sync) <= members, "somebody is in sync who was not"

    def note(self, line: str) -> None:
        self.transcript.append(f"{self.now - 1000:>5} {line}")


def grown(*states: PartitionState, **settings: int) -> LogWorld:
    """A register that was restarted, and everybody has come back."""
    world = LogWorld(saved(*states), **settings)
    world.enlist(*world.disk.brokers)
    world.transcript.clear()
    return world
