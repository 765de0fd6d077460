"""A simulated process with a member of our own in it: the core that `GroupConsumer` drives, and an app that works.

The app takes deliveries, works on them for a while, commits now and then by itself, and gives up waiting now and then.
A process that sleeps hears of nothing meanwhile, and its clock has gone on when it wakes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from octoloom.core import consumer_member_messages as ours
from octoloom.core import consumer_messages as say
from octoloom.core.consumer_assignment import STRATEGIES
from octoloom.core.consumer_member import Member
from octoloom.core.consumer_member_messages import Phase
from octoloom.core.consumer_progress import Place
from octoloom.core.consumer_subscription import subscribed_topics
from octoloom.simulation.group_coordinator_checks import PARTITIONS, TOPIC, Request
from octoloom.simulation.group_coordinator_client import BEAT_MS, GROUP, REBALANCE_MS, SESSION_MS, Consumer
from octoloom.simulation.world import Broken

if TYPE_CHECKING:
    from octoloom.simulation.group_member_world import MemberWorld

PATIENCE_MS = REBALANCE_MS + 1_500
METADATA = struct.pack(">hih", 0, 1, len(TOPIC)) + TOPIC.encode() + struct.pack(">i", -1)


class MemberNode(Consumer):
    group_world: MemberWorld

    def __init__(self, group_world: MemberWorld, name: str) -> None:
        self.group_world, self.world, self.name, self.instance = group_world, group_world.world, name, None
        self.alive, self.stuck, self.paused_until, self.connection = True, False, 0, 0
        self.joined_in = 0
        self.core = Member(
            ours.MemberSettings(
                (TOPIC,),
                group_world.start_at,
                SESSION_MS,
                BEAT_MS,
                REBALANCE_MS,
                group_world.commit_ms,
                look_ms=700,
                patience_ms=1_000,
            )
        )
        self._reading: dict[Place, int] | None = None
        self._is_waiting = False
        self._handed: tuple[Place, int, int] | None = None
        """(partition, first, end) of what the app works on."""
        self._asked: dict[int, tuple[int, ours.Request]] = {}
        """When, and what."""
        self._commits = 0
        self._wished: dict[int, dict[Place, int]] = {}
        self._kept: dict[Place, int] = {}
        """What the coordinator keeps for the group, as far as this member was told."""
        self._alarm_at: int | None = None
        self.heard_at = 0
        """When it last asked something that the coordinator has answered since, so that it is still in."""
        self._show()
        self.after(0, self._ask_for_next)
        self.after(20, self._look)

    # The app.

    def _ask_for_next(self) -> None:
        if self._is_waiting or self.stuck or self.core.phase is Phase.CLOSED:
            return
        if self._handed is not None:
            self.group_world.on_done(*self._handed)
            self._handed = None
        self._is_waiting = True
        self.obey(self.core.on_asked(self.world.now))

    def _look(self) -> None:
        """What a reader does all the time: sees whether there is something to hand out."""
        self.after(self.world.dice.randrange(5, 40), self._look)
        now, dice = self.world.now, self.world.dice
        if self.stuck and self._is_waiting:
            # Its app never asks for anything again.
            self._work(0)
        if not self._is_waiting or self._reading is None:
            return
        places = [place for place, at in self._reading.items() if at < self.group_world.ends[place[1]]]
        if places and not self.core.is_sure(now):
            self.obey(self.core.on_doubt(now))
        elif places:
            place = dice.choice(places)
            first = self._reading[place]
            most = dice.randrange(1, 9) if self.group_world.is_wild else 100
            end = min(first + most, self.group_world.ends[place[1]])
            self._reading[place], self._handed = end, (place, first, end)
            self.group_world.on_handed_out(self, place, first)
            self.core.on_handed_out(place, end)
            self._work(dice.choice([0, 5, 50, 400] if self.group_world.is_wild else [0, 5]))
        elif dice.random() < 0.1:
            self._work(dice.choice([0, 100]))

    def _work(self, for_ms: int) -> None:
        """It has something to do, or does not wait any more; it may commit when it is done with it."""
        self._is_waiting = False
        self.core.on_working(self.world.now)
        self._set_alarm()
        if self.world.dice.random() < (0.2 if self.group_world.commit_ms is not None else 0.8):
            self.after(for_ms, self._commit_by_hand)
        self.after(for_ms, self._ask_for_next)

    def _commit_by_hand(self) -> None:
        if self._is_waiting or self.stuck:
            return
        if self._handed is not None:
            self.group_world.on_done(*self._handed)
            self._handed = None
        self._commits += 1
        self._wished[self._commits] = self.core.progress.handed_out
        self.obey(self.core.on_commit(self.world.now, self._commits))

    def leave(self) -> None:
        self.tell("leaves")
        self._is_waiting, self.stuck = False, True
        self.obey(self.core.on_close(self.world.now))

    def wish_differently(self) -> None:
        pass

    # The driver.

    def obey(self, effects: list[ours.Effect]) -> None:
        for effect in effects:
            match effect:
                case ours.Ask():
                    self._asked[effect.ticket] = self.world.now, effect.request
                    self._ask(effect.ticket, effect.request)
                case ours.Reconnect():
                    self.connection += 1
                    self.group_world.hang_up(self)
                case ours.Read():
                    self._reading = dict(effect.starts)
                    self.tell("reads {} in generation {}", sorted(self._reading.items()), self.core.standing.generation)
                case ours.Halt():
                    self._reading = None
                case ours.Settle():
                    self._on_settled(effect)
                case ours.Ended():
                    self.alive = False
                case ours.Fail():
                    self._on_failure(effect.reason)
                case ours.Note():
                    self.tell("{}", effect.text)
        self._show()
        self._set_alarm()

    def _on_settled(self, settled: ours.Settle) -> None:
        wished = self._wished.pop(settled.number)
        self.group_world.refused += bool(settled.error)
        if not settled.error and any(self._kept.get(place) != offset for place, offset in wished.items()):
            raise Broken(f"{self.name} is told that {wished} is committed, and it is {self._kept}")

    def _on_failure(self, reason: int | Exception) -> None:
        if reason != say.GroupError.GROUP_MAX_SIZE_REACHED:
            raise Broken(f"{self.name} gives up: {reason}")
        self.tell("is one too many")
        self.alive = False

    def _show(self) -> None:
        """What the world looks at."""
        self.member, self.generation = self.core.standing.member, self.core.standing.generation
        is_consuming = self.core.phase is Phase.READING and not self.core.is_revoked
        self.state = "consuming" if is_consuming else self.core.phase.name.lower()
        self.assignment = tuple(number for _, number in self.core.places)

    def _set_alarm(self) -> None:
        deadline = self.core.deadline()
        if deadline is not None and (self._alarm_at is None or deadline < self._alarm_at):
            self._alarm_at = max(deadline, self.world.now)
            self.world.at(self._alarm_at, self._when_awake, self._wake, (self._alarm_at,))

    def _wake(self, at: int) -> None:
        if self._alarm_at == at:
            self._alarm_at = None
        self.obey(self.core.on_time(self.world.now))

    def reset_connection(self) -> None:
        self.connection += 1
        self.group_world.hang_up(self)
        for ticket, (_, request) in list(self._asked.items()):
            if not isinstance(request, ours.Count | ours.Locate):
                self.after(self.world.dice.randrange(20), self._on_silence, ticket)

    # Questions.

    def _ask(self, ticket: int, request: ours.Request) -> None:
        self.after(PATIENCE_MS, self._on_silence, ticket)
        if isinstance(request, ours.Count):
            self.after(self.world.dice.randrange(1, 30), self._on_reply, ticket, ours.Counted({TOPIC: PARTITIONS}))
        elif isinstance(request, ours.Locate):
            bounds = {place: (0, self.group_world.ends[place[1]]) for place in request.places}
            self.after(self.world.dice.randrange(1, 30), self._on_reply, ticket, ours.Located(bounds))
        else:
            self.group_world.send(self, self._put(request), lambda answer: self._on_reply(ticket, read(answer)))

    def _on_silence(self, ticket: int) -> None:
        if self._asked.pop(ticket, None) is not None:
            self.obey(self.core.on_failed(self.world.now, ticket, say.GroupError.COORDINATOR_NOT_AVAILABLE, True))

    def _on_reply(self, ticket: int, reply: ours.Reply) -> None:
        if ticket not in self._asked:
            return
        sent_at, request = self._asked.pop(ticket)
        if isinstance(request, ours.Commit) and reply == ours.Done(0):
            self._kept |= request.offsets
            self.group_world.on_committed(request)
        if isinstance(request, ours.Beat) and reply == ours.Done(0):
            self.heard_at = max(self.heard_at, sent_at)
        elif isinstance(reply, ours.Fetched):
            self._kept |= reply.offsets
        elif isinstance(reply, ours.Synced):
            self.heard_at = self.world.now
        self.obey(self.core.on_reply(self.world.now, ticket, reply))

    def _put(self, request: ours.Request) -> Request:
        match request:
            case ours.Join():
                protocols = tuple((name, METADATA) for name in STRATEGIES)
                fresh = self.group_world.fresh_id(self.name)
                return say.JoinRequest(GROUP, request.member, SESSION_MS, REBALANCE_MS, "consumer", protocols, fresh)
            case ours.Sync():
                shares = [(member, bytes(places.get(TOPIC, []))) for member, places in request.assignment.items()]
                return say.SyncRequest(GROUP, request.member, request.generation, tuple(shares))
            case ours.Beat():
                return say.HeartbeatRequest(GROUP, request.member, request.generation)
            case ours.Commit():
                self.group_world.on_commit_sent(self, request)
                offsets = [self.group_world.offset(place[1], at) for place, at in request.offsets.items()]
                return say.CommitRequest(GROUP, tuple(offsets), request.member, request.generation)
            case ours.FetchCommitted():
                return say.FetchOffsetsRequest((say.OffsetsQuery(GROUP, request.places),))
            case ours.Leave():
                return say.LeaveRequest(GROUP, (say.LeavingMember(request.member),))
        raise AssertionError(request)


def read(answer: Any) -> ours.Reply:
    match answer:
        case say.JoinAnswer():
            wanted = {each.member: subscribed_topics(each.metadata) or [] for each in answer.members}
            return ours.Joined(
                answer.error, answer.member, answer.generation, answer.leader, answer.protocol or "", wanted
            )
        case say.SyncAnswer():
            return ours.Synced(answer.error, tuple((TOPIC, number) for number in answer.assignment))
        case say.FetchOffsetsAnswer():
            [group] = answer.groups
            found = {(each.topic, each.partition): each.offset for each in group.offsets if each.offset >= 0}
            return ours.Fetched(group.error, found)
        case say.CommitAnswer():
            return ours.Done(next((error for _, _, error in answer.results if error), 0))
        case say.LeaveAnswer() | say.HeartbeatAnswer():
            return ours.Done(answer.error)
    raise AssertionError(answer)
