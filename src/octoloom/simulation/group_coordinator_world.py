"""Consumer groups in a world of faults: consumers, their coordinator, and the log that it keeps.

The log commits in order and after a while. A coordinator that dies loses some of what was not committed, and the next
one loads what is left; or it loses leadership, and says so to those who wait. Consumers crash, sleep, leave, change
their minds, and come twice under one name. In the last part all faults stop: then the group has to become stable, with
everybody who is alive in it and nobody else, and stay so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from octoloom.core import consumer_messages as say
from octoloom.core.consumer_groups import GroupCoordinator
from octoloom.core.consumer_messages import Answer, Effect, Response
from octoloom.core.consumer_records import Record, group_key
from octoloom.core.consumer_settings import GroupSettings
from octoloom.simulation.group_coordinator_checks import PARTITIONS, TOPIC, Checker, Request
from octoloom.simulation.group_coordinator_client import GROUP, SESSION_MS, Client, Consumer, Visitor
from octoloom.simulation.group_coordinator_faults import MEMBERS_MAX, UNTIL_MS, Faults
from octoloom.simulation.world import Broken, World

SETTLED_MS = 14_000
END_MS = 16_000


class Log:
    """The coordinator's partition: batches of records, of which the first `high` are committed."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[Record]]] = []
        """(number of the store, or 0; records)"""
        self.high = 0
        self.snapshot_at = 0
        """The batch at which a snapshot begins."""

    def records(self) -> list[Record]:
        return [record for _, records in self.batches for record in records]


class GroupWorld:
    def __init__(self, world: World) -> None:
        self.world = world
        self.settings = GroupSettings(
            session_timeout_min_ms=10,
            initial_delay_ms=60,
            new_member_ms=3_000,
            offsets_retention_ms=world.dice.choice([800, 60_000]),
            empty_group_ms=60_000,
            members_max=MEMBERS_MAX,
        )
        self.checker = Checker(world, self.settings.offsets_retention_ms)
        self.log = Log()
        self.coordinator: GroupCoordinator | None = None
        self.life = 0
        """Counts coordinators, so that what was meant for an older one is recognised."""
        self.is_wild = True
        self.tickets: dict[int, tuple[Client, int, Request, Callable[[Any], None], int]] = {}
        self._given = 0
        self._arrivals: dict[tuple[str, int, bool], int] = {}
        self._wake_at: int | None = None
        dice = world.dice
        self.lag = dice.choice([3, 20, 150])
        self.statics = dice.choice([0.2, 0.8])
        self.refusals = dice.choice([0, 0, 0.1])
        self.slow_until = 0
        """Until then the followers lag behind."""
        self.strikes = False
        """The coordinator dies between its next store and the commit of it."""
        self.consumers: list[Consumer] = []
        self.start()
        for number in range(dice.choice([1, 2, 3, 4])):
            instance = f"i{number}" if dice.random() < self.statics else None
            world.at(dice.choice([0, dice.randrange(1_500)]), self.start_consumer, instance)
        self.visitor = Visitor(self, "guests")
        Faults(self).plan()
        world.at(UNTIL_MS, self.calm_down)
        world.at(UNTIL_MS + 2_000, self.calm_down)  # A late request of the wild time may have fenced the last one.

    # What the clients ask.

    def fresh_id(self, name: str) -> str:
        self._given += 1
        return f"{name}-{self._given}"

    def offset(self, partition: int, offset: int) -> say.OffsetToCommit:
        self._given += 1
        return say.OffsetToCommit(TOPIC, partition, offset, metadata=f"c{self._given}")

    def start_consumer(self, instance: str | None) -> None:
        modern = self.world.dice.random() < 0.8 or instance is not None
        self._given += 1
        self.consumers.append(Consumer(self, f"m{self._given}", instance, modern))

    def send(self, client: Client, request: Request, on_answer: Callable[[Any], None]) -> None:
        """One connection keeps the order of its requests; another does not wait for it."""
        arrival = self._in_order(client, True)
        self.world.at(arrival, self._arrive, client, client.connection, request, on_answer)

    def hang_up(self, client: Client) -> None:
        self._arrivals.pop((client.name, client.connection - 1, True), None)

    def _in_order(self, client: Client, inward: bool) -> int:
        dice, key = self.world.dice, (client.name, client.connection, inward)
        delay = dice.randrange(1, 9) if not self.is_wild or dice.random() < 0.97 else dice.randrange(1_200)
        self._arrivals[key] = max(self.world.now + delay, self._arrivals.get(key, 0))
        return self._arrivals[key]

    def _arrive(self, client: Client, connection: int, request: Request, on_answer: Callable[[Any], None]) -> None:
        if self.coordinator is None:
            self.world.after(30, self._break, client, connection)
            return
        self._given += 1
        ticket = self._given
        self.tickets[ticket] = (client, connection, request, on_answer, self.world.now)
        self.checker.on_request(ticket, request, self.coordinator)
        self.obey(self._inputs(self.coordinator)[type(request)](self.world.now, ticket, request))

    @staticmethod
    def _inputs(coordinator: GroupCoordinator) -> dict[type, Callable[[int, int, Any], list[Effect]]]:
        return {
            say.JoinRequest: coordinator.on_join,
            say.SyncRequest: coordinator.on_sync,
            say.HeartbeatRequest: coordinator.on_heartbeat,
            say.LeaveRequest: coordinator.on_leave,
            say.CommitRequest: coordinator.on_commit,
            say.FetchOffsetsRequest: coordinator.on_fetch_offsets,
            say.DeleteRequest: coordinator.on_delete,
        }

    def _break(self, client: Client, connection: int) -> None:
        if client.connection == connection:
            client.reset_connection()

    # The driver.

    def obey(self, effects: list[Effect]) -> None:
        assert self.coordinator is not None
        refused = []
        for effect in effects:
            if isinstance(effect, Answer):
                self._answer(effect.ticket, effect.response)
            elif self.is_wild and self.world.dice.random() < self.refusals:
                refused.append(effect.number)
            else:
                self._append(effect.number, effect.records)
        for number in refused:
            self.world.tell("log", "refuses store {}", number)
            self.obey(self.coordinator.on_store_failed(self.world.now, number))
        self._set_alarm()

    def _answer(self, ticket: int, response: Response) -> None:
        assert self.coordinator is not None
        if ticket not in self.tickets:
            raise Broken(f"ticket {ticket} was answered twice: {response}")
        client, connection, request, on_answer, _ = self.tickets.pop(ticket)
        self.checker.on_answer(ticket, request, response, self.coordinator)
        if client.connection == connection:
            self.world.at(self._in_order(client, False), self._deliver, client, connection, on_answer, response)

    @staticmethod
    def _deliver(client: Client, connection: int, on_answer: Callable[[Any], None], response: Response) -> None:
        if client.connection == connection and isinstance(client, Consumer):
            client._when_awake(on_answer, (response,))

    def _append(self, number: int, records: list[Record]) -> None:
        self.log.batches.append((number, records))
        lag = 300 if self.world.now < self.slow_until else self.lag
        delay = self.world.dice.randrange(lag) if self.is_wild else 1
        if self.strikes and self.is_wild and records[0][0].startswith(group_key("")[:-1]):
            self.strikes, delay = False, 300
            self.world.after(self.world.dice.randrange(100), self.lose_leadership, False)
        self.world.after(delay, self._commit, self.life, number)

    def _commit(self, life: int, number: int) -> None:
        """The followers have everything up to this store."""
        log = self.log
        if life != self.life or self.coordinator is None:
            return
        place = next((place for place in range(log.high, len(log.batches)) if log.batches[place][0] == number), None)
        if place is None:
            return
        log.high = place + 1
        if log.snapshot_at and log.high > log.snapshot_at:
            self._trim()
        self.obey(self.coordinator.on_stored(self.world.now, number))

    def _trim(self) -> None:
        log = self.log
        del log.batches[: log.snapshot_at]
        log.high, log.snapshot_at = log.high - log.snapshot_at, 0

    def _set_alarm(self) -> None:
        deadline = self.coordinator.deadline() if self.coordinator is not None else None
        if deadline is not None and (self._wake_at is None or deadline < self._wake_at):
            self._wake_at = deadline
            self.world.at(deadline, self._wake, self.life, deadline)

    def _wake(self, life: int, at: int) -> None:
        if self._wake_at == at:
            self._wake_at = None
        if life == self.life and self.coordinator is not None:
            self.obey(self.coordinator.on_time(self.world.now))

    # Coordinators come and go.

    def start(self) -> None:
        if self.coordinator is None:
            self.coordinator = GroupCoordinator.load(self.world.now, self.log.records(), self.settings)
            self.world.tell("coordinator", "loads {} batches", len(self.log.batches))
            self._set_alarm()

    def lose_leadership(self, politely: bool) -> None:
        """Some of what was not committed survives, and is committed with the next leader."""
        if self.coordinator is None:
            return
        self.world.tell("coordinator", "loses leadership" if politely else "dies")
        if politely:
            self.obey(self.coordinator.close(self.world.now))
        self.coordinator = None
        self.life += 1
        self.tickets.clear()
        self._wake_at = None
        log = self.log
        del log.batches[self.world.dice.randrange(log.high, len(log.batches) + 1) :]
        log.batches = [(0, records) for _, records in log.batches]
        log.high, log.snapshot_at = len(log.batches), 0
        for consumer in self.consumers:
            consumer.reset_connection()
        self.visitor.reset_connection()
        self.world.after(self.world.dice.choice([5, 100, 600]), self.start)

    def snapshot(self) -> None:
        """Writes all that is true anew, in two batches, and drops the log below once that is committed."""
        if self.coordinator is None or self.log.snapshot_at:
            return
        records = self.coordinator.snapshot_records()
        middle = len(records) // 2
        self.log.snapshot_at = len(self.log.batches)
        self.log.batches += [(0, records[:middle]), (0, records[middle:])]

    def calm_down(self) -> None:
        self.is_wild = False
        for consumer in self.consumers:
            consumer.paused_until = 0
        if self._somebody_is_stuck_unnoticed or not self._fit:
            # A newcomer begins a round, in which those who are stuck have to show.
            self.start_consumer(None)

    @property
    def _fit(self) -> list[Consumer]:
        return [consumer for consumer in self.consumers if consumer.alive and not consumer.stuck]

    @property
    def _stuck(self) -> list[Consumer]:
        return [consumer for consumer in self.consumers if consumer.alive and consumer.stuck]

    @property
    def _somebody_is_stuck_unnoticed(self) -> bool:
        """Who is stuck at work is noticed in the next round only. Who is stuck within a round is noticed in this one,
        unless it has asked for its assignment before and joined again, or the coordinator is another by now, which
        does not know who has asked."""
        return any(consumer.state == "consuming" or consumer.joined_in != self.life for consumer in self._stuck)

    def on_turned_away(self) -> None:
        """The group was full, so a newcomer could not begin a round: somebody who is in the group does it instead."""
        if self.is_wild or not self._somebody_is_stuck_unnoticed:
            return
        if not self._fit:
            self._stuck[0].alive = False
            self.world.after(SESSION_MS + 100, self.start_consumer, None)
        for consumer in self._fit[:1]:
            consumer.wish_differently()

    # The end.

    def check_settled(self) -> int:
        """Answers the generation in which the group has come to rest."""
        assert self.coordinator is not None
        group = self.coordinator.describe(GROUP)
        alive = self._fit
        members = {member.member: member for member in group.members}
        if group.state != "Stable" or len(members) != len(alive):
            raise Broken(f"the group is {group.state} with {len(members)} members, {len(alive)} consumers are alive")
        for consumer in alive:
            if consumer.state != "consuming" or consumer.member not in members:
                raise Broken(f"{consumer.name} is {consumer.state} as {consumer.member} in the end")
        owned = sorted(partition for consumer in alive for partition in consumer.assignment)
        if owned != list(range(PARTITIONS)):
            raise Broken(f"in the end {owned} are consumed")
        if len({consumer.generation for consumer in alive}) != 1:
            raise Broken(f"the generations differ: {[consumer.generation for consumer in alive]}")
        waiting = [request for _, _, request, _, since in self.tickets.values() if since < self.world.now - SESSION_MS]
        if waiting:
            raise Broken(f"nobody answers {waiting[0]}")
        return alive[0].generation

    def check_twin(self) -> None:
        """A coordinator that is loaded from the log knows the same."""
        assert self.coordinator is not None
        twin = GroupCoordinator.load(self.world.now, self.log.records(), self.settings)
        here, there = sorted(self.coordinator.snapshot_records()), sorted(twin.snapshot_records())
        if here != there:
            raise Broken(f"a coordinator that loads the log differs: {here} is not {there}")
        partitions = tuple((TOPIC, partition) for partition in range(PARTITIONS))
        request = say.FetchOffsetsRequest(tuple(say.OffsetsQuery(group, partitions) for group in (GROUP, "guests")))
        for effect in twin.on_fetch_offsets(self.world.now, 0, request):
            assert isinstance(effect, Answer)
            self.checker.on_answer(0, request, effect.response, twin)


def simulate(seed: int, transcript: list[str] | None = None) -> None:
    """One history; raises `Broken` if a promise is."""
    world = World(seed, transcript)
    group_world = GroupWorld(world)
    world.run(SETTLED_MS)
    generation = group_world.check_settled()
    world.run(END_MS)
    if group_world.check_settled() != generation:
        raise Broken(f"generation {generation} did not last though nothing happened")
    group_world.check_twin()
