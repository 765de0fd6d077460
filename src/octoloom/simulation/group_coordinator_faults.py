"""The faults that befall simulated consumer groups, drawn from the seed. A history has a theme, so that faults meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octoloom.simulation.group_coordinator_client import Consumer

if TYPE_CHECKING:
    from octoloom.simulation.group_coordinator_world import GroupWorld

FROM_MS = 300
UNTIL_MS = 7_000
MEMBERS_MAX = 8


class Faults:
    def __init__(self, group_world: GroupWorld) -> None:
        self.group_world = group_world
        self.world = group_world.world

    def plan(self) -> None:
        dice, group_world = self.world.dice, self.group_world
        coordinator = [
            self._die,
            self._strike,
            self._resign,
            group_world.snapshot,
            self._snapshot_and_die,
            self._die_together,
        ]
        consumers = [
            self._slow_down,
            self._crash,
            self._leave,
            self._pause,
            self._pause,
            self._reset,
            self._start,
            self._stick,
        ]
        statics = [self._slow_down, self._crash, self._twin, self._twin, self._pause, self._reset, self._wish]
        chosen = dice.choice([coordinator, consumers, statics, coordinator + consumers, coordinator + statics])
        for _ in range(dice.choice([2, 5, 10, 20])):
            self.world.at(dice.randrange(FROM_MS, UNTIL_MS), dice.choice(chosen))

    def _any(self) -> Consumer | None:
        alive = [consumer for consumer in self.group_world.consumers if consumer.alive and not consumer.stuck]
        return self.world.dice.choice(alive) if alive else None

    def _die(self) -> None:
        self.group_world.lose_leadership(politely=False)

    def _die_together(self) -> None:
        """A machine with the coordinator and a consumer on it is lost for good."""
        victim = self._any()
        if victim is not None:
            victim.tell("crashes for good")
            victim.alive = False
        self._die()

    def _strike(self) -> None:
        self.group_world.strikes = True
        self._wish()

    def _slow_down(self) -> None:
        """While stores take long, members want something else or find their places taken, one after the other."""
        self.group_world.slow_until = self.world.now + 1_000
        for _ in range(3):
            self.world.after(self.world.dice.randrange(800), self.world.dice.choice([self._wish, self._twin]))

    def _resign(self) -> None:
        self.group_world.lose_leadership(politely=True)

    def _snapshot_and_die(self) -> None:
        self.group_world.snapshot()
        self.world.after(self.world.dice.choice([0, 10, 100]), self._die)

    def _crash(self) -> None:
        victim = self._any()
        if victim is not None:
            victim.tell("crashes")
            victim.alive = False
            self.world.after(self.world.dice.choice([50, 400, 2_000]), self._revive, victim.instance)

    def _revive(self, instance: str | None) -> None:
        if self.group_world.is_wild:
            self.group_world.start_consumer(instance)

    def _leave(self) -> None:
        leaver = self._any()
        if leaver is not None:
            leaver.leave()
            self.world.after(self.world.dice.choice([50, 1_000]), self._revive, leaver.instance)

    def _pause(self) -> None:
        sleeper = self._any()
        if sleeper is not None:
            sleeper.tell("falls asleep")
            sleeper.paused_until = self.world.now + self.world.dice.choice([200, 700, 2_500])

    def _stick(self) -> None:
        consumer = self._any()
        if consumer is not None and consumer.state in ("joining", "consuming"):
            consumer.tell("is stuck")
            consumer.stuck = True

    def _reset(self) -> None:
        client = self._any()
        if client is not None:
            client.reset_connection()

    def _start(self) -> None:
        if len([consumer for consumer in self.group_world.consumers if consumer.alive]) < MEMBERS_MAX:
            self.group_world.start_consumer(None)

    def _twin(self) -> None:
        """A second process under an instance's name: the first is to be fenced."""
        first = self._any()
        if first is not None and first.instance is not None:
            self.group_world.start_consumer(first.instance)

    def _wish(self) -> None:
        consumer = self._any()
        if consumer is not None:
            consumer.wish_differently()
