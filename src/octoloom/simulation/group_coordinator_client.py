"""A simulated consumer: it joins, shares out partitions when it leads, sends heartbeats, fetches and commits offsets.

It does what clients do with each error, and nothing cleverer. A paused consumer is a process that the system does not
let run: what is due or arrives meanwhile happens when it wakes, in order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from octoloom.core import consumer_messages as say
from octoloom.core.consumer_messages import GroupError, Response
from octoloom.simulation.group_coordinator_checks import PARTITIONS, TOPIC, Request

if TYPE_CHECKING:
    from octoloom.simulation.group_coordinator_world import GroupWorld

GROUP = "workers"
SESSION_MS = 900
REBALANCE_MS = 1_500
BEAT_MS = 250
POLL_MS = 180
PATIENCE_MS = REBALANCE_MS + 1_500
"""After this long without an answer a client gives up its connection."""
SHUT_DOWN = (
    GroupError.FENCED_INSTANCE_ID,
    GroupError.GROUP_MAX_SIZE_REACHED,
    GroupError.INCONSISTENT_GROUP_PROTOCOL,
    GroupError.INVALID_REQUEST,
)


class Consumer:
    def __init__(self, group_world: GroupWorld, name: str, instance: str | None, modern: bool) -> None:
        self.group_world = group_world
        self.world = group_world.world
        self.name = name
        self.instance = instance
        self.modern = modern
        self.alive = True
        self.paused_until = 0
        self.stuck = False
        """It sends heartbeats and does nothing else any more, like one whose work never ends. If it is about to join,
        it is the work between its join and its assignment that never ends."""
        self.member = ""
        self.generation = -1
        self.joined_in = -1
        """The life of the coordinator that took it in; -1 if it has been in this generation before."""
        self.state = "joining"
        self.wish = 0
        """What it tells the others in its metadata besides its topics."""
        self.assignment: tuple[int, ...] = ()
        self.positions: dict[int, int] = {}
        self.connection = 0
        self.step = 0
        """Counts what it waits for, so that a late answer or alarm is recognised."""
        self.after(0, self.join)
        self.after(BEAT_MS, self._beat)
        self.after(POLL_MS, self._poll)

    def after(self, delay: int, what: Callable[..., None], *arguments: Any) -> None:
        self.world.after(delay, self._when_awake, what, arguments)

    def _when_awake(self, what: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if not self.alive:
            return
        if self.world.now < self.paused_until:
            self.world.at(self.paused_until, self._when_awake, what, arguments)
            return
        what(*arguments)

    def _send(self, request: Request, on_answer: Callable[[Any], None]) -> None:
        self.group_world.send(self, request, on_answer)

    def _next_step(self) -> int:
        self.step += 1
        return self.step

    def tell(self, text: str, *arguments: object) -> None:
        self.world.tell(self.name, text, *arguments)

    # Joining.

    def join(self) -> None:
        self.state, self.assignment = "joining", ()
        step = self._next_step()
        metadata = struct.pack(">hih", 1, 1, len(TOPIC)) + TOPIC.encode() + struct.pack(">ii", 4, self.wish)
        request = say.JoinRequest(
            GROUP,
            self.member,
            SESSION_MS,
            REBALANCE_MS,
            "consumer",
            (("range", metadata), ("roundrobin", metadata)) if self.modern else (("range", metadata),),
            self.group_world.fresh_id(self.name),
            self.instance,
            requires_member_id=self.modern,
            may_skip_assignment=self.modern,
        )
        self._send(request, lambda answer: self._on_joined(step, answer))
        self.after(PATIENCE_MS, self._give_up, step)

    def _give_up(self, step: int) -> None:
        if step == self.step and self._waits_for_the_round:
            self.tell("has waited long enough")
            self.connection += 1
            self.join()

    @property
    def _waits_for_the_round(self) -> bool:
        return self.state == "joining" or (self.state == "syncing" and not self.stuck)

    def reset_connection(self) -> None:
        """The connection broke: whatever was under way has to be asked again."""
        self.connection += 1
        self.group_world.hang_up(self)
        if self.alive and self._waits_for_the_round:
            self.after(self.world.dice.randrange(20, 120), self._join_if, self._next_step())

    def _join_if(self, step: int) -> None:
        if step == self.step:
            self.join()

    def _on_joined(self, step: int, answer: say.JoinAnswer) -> None:
        if step != self.step:
            return
        if answer.error is GroupError.MEMBER_ID_REQUIRED:
            self.member = answer.member
            self.join()
        elif answer.error is not GroupError.NONE:
            self._on_error(answer.error)
        else:
            is_known = (answer.member, answer.generation) == (self.member, self.generation)
            self.joined_in = -1 if is_known else self.group_world.life
            self.member, self.generation = answer.member, answer.generation
            assignments: tuple[tuple[str, bytes], ...] = ()
            if answer.leader == answer.member and not answer.skip_assignment:
                assignments = self._share_out(answer.members)
            self.tell("is {} in generation {}, leader {}", self.member, self.generation, answer.leader)
            self.state = "syncing"
            step = self._next_step()
            if self.stuck:
                return
            request = say.SyncRequest(GROUP, self.member, self.generation, assignments, self.instance)
            self._send(request, lambda answer: self._on_synced(step, answer))
            self.after(PATIENCE_MS, self._give_up, step)

    def _share_out(self, members: tuple[say.JoinedMember, ...]) -> tuple[tuple[str, bytes], ...]:
        first = self.world.dice.randrange(len(members))
        shares: dict[str, list[int]] = {member.member: [] for member in members}
        for partition in range(PARTITIONS):
            shares[members[(first + partition) % len(members)].member].append(partition)
        return tuple((member, bytes(share)) for member, share in shares.items())

    def _on_synced(self, step: int, answer: say.SyncAnswer) -> None:
        if step != self.step:
            return
        if answer.error is not GroupError.NONE:
            self._on_error(answer.error)
            return
        self.state, self.assignment = "fetching", tuple(answer.assignment)
        self.tell("has {} in generation {}", list(self.assignment), self.generation)
        self._fetch()

    def _fetch(self) -> None:
        step = self._next_step()
        partitions = tuple((TOPIC, partition) for partition in self.assignment)
        request = say.FetchOffsetsRequest((say.OffsetsQuery(GROUP, partitions),))
        self._send(request, lambda answer: self._on_fetched(step, answer))
        self.after(500, self._fetch_again, step)

    def _fetch_again(self, step: int) -> None:
        if step == self.step and self.state == "fetching":
            self._fetch()

    def _on_fetched(self, step: int, answer: say.FetchOffsetsAnswer) -> None:
        if step != self.step or answer.groups[0].error is not GroupError.NONE:
            return
        self.positions = {fetched.partition: max(fetched.offset, 0) for fetched in answer.groups[0].offsets}
        self.state = "consuming"

    def _on_error(self, error: GroupError) -> None:
        self.tell("is told {}", error.name)
        if error in SHUT_DOWN:
            self.alive = False
            if error is GroupError.GROUP_MAX_SIZE_REACHED:
                self.group_world.on_turned_away()
            return
        if error is GroupError.UNKNOWN_MEMBER_ID:
            self.member, self.generation = "", -1
        self.state, self.assignment = "joining", ()
        self.after(self.world.dice.randrange(10, 60), self._join_if, self._next_step())

    # Being a member.

    def _beat(self) -> None:
        self.after(BEAT_MS, self._beat)
        if self.state != "joining":
            generation = self.generation
            request = say.HeartbeatRequest(GROUP, self.member, generation, self.instance)
            self._send(request, lambda answer: self._on_trouble(generation, answer.error))

    def _poll(self) -> None:
        self.after(POLL_MS, self._poll)
        if self.state == "consuming" and self.assignment and not self.stuck:
            for partition in self.assignment:
                self.positions[partition] += self.world.dice.randrange(1, 9)
            if self.world.dice.random() < 0.5:
                # Now and then it is a thread that has not heard of the new generation yet.
                self.commit(self.generation - (self.world.dice.random() < 0.1))

    def commit(self, generation: int) -> None:
        offsets = tuple(self.group_world.offset(partition, self.positions[partition]) for partition in self.assignment)
        request = say.CommitRequest(GROUP, offsets, self.member, generation, self.instance)
        self._send(request, lambda answer: self._on_trouble(generation, answer.results[0][2]))

    def _on_trouble(self, generation: int, error: GroupError) -> None:
        if error is GroupError.NONE or self.stuck or generation != self.generation or self.state == "joining":
            return
        if error not in (GroupError.COORDINATOR_NOT_AVAILABLE, GroupError.NOT_COORDINATOR):
            self._on_error(error)

    def leave(self) -> None:
        if self.member:
            self.tell("leaves")
            request = say.LeaveRequest(GROUP, (say.LeavingMember(self.member, self.instance),))
            self._send(request, lambda _: None)
        self.alive = False

    def wish_differently(self) -> None:
        self.wish += 1
        if self.state != "joining":
            self.join()


class Visitor:
    """Somebody who is in no group: commits to groups without members, tries it on others, looks, and deletes."""

    def __init__(self, group_world: GroupWorld, group: str) -> None:
        self.group_world = group_world
        self.world = group_world.world
        self.group = group
        self.name = "visitor"
        self.alive = True
        self.connection = 0
        self.world.after(self.world.dice.randrange(300), self._act)

    def _act(self) -> None:
        dice = self.world.dice
        self.world.after(dice.randrange(100, 700), self._act)
        kind = dice.random()
        request: Request
        if kind < 0.45:
            request = self._commit(dice.choice([self.group, self.group, GROUP]))
        elif kind < 0.9 or not self.group_world.is_wild:
            partitions = tuple((TOPIC, partition) for partition in range(PARTITIONS))
            groups = (self.group, GROUP) if dice.random() < 0.5 else (self.group,)
            request = say.FetchOffsetsRequest(tuple(say.OffsetsQuery(group, partitions) for group in groups))
        else:
            self.group_world.send(self, say.DeleteRequest((self.group,)), lambda _: None)
            request = self._commit(self.group)
        self.group_world.send(self, request, lambda _: None)

    def _commit(self, group: str) -> say.CommitRequest:
        dice = self.world.dice
        return say.CommitRequest(group, (self.group_world.offset(dice.randrange(PARTITIONS), dice.randrange(1_000)),))

    def reset_connection(self) -> None:
        self.connection += 1


Client = Consumer | Visitor
OnAnswer = Callable[[Response], None]
