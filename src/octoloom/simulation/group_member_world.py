"""Members of our own in a consumer group, in the world of faults that its coordinator is searched in.

Records are written all the time. What is checked besides what the coordinator promises:

- a commit is for records only that some app is done with, or in which nobody was interested (a group that begins at the
  end);
- nothing is handed out by a member that does not own the partition as far as it may know;
- in the end every record is done by somebody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from octoloom.core import consumer_member_messages as ours
from octoloom.core.consumer_messages import CommitRequest
from octoloom.core.consumer_progress import Place
from octoloom.simulation.group_coordinator_checks import PARTITIONS, TOPIC, Request
from octoloom.simulation.group_coordinator_client import GROUP, SESSION_MS, Client, Visitor
from octoloom.simulation.group_coordinator_world import END_MS, SETTLED_MS, GroupWorld
from octoloom.simulation.group_member_node import MemberNode
from octoloom.simulation.world import Broken, World

WRITTEN_UNTIL_MS = 11_000


class MemberWorld(GroupWorld):
    def __init__(self, world: World) -> None:
        dice = world.dice
        self.commit_ms = dice.choice([None, 120, 400, 400])
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.done: dict[int, list[bool]] = {number: [] for number in range(PARTITIONS)}
        self._whole = dict.fromkeys(range(PARTITIONS), 0)
        """All before this is done."""
        self.counts_from: dict[int, int] = {}
        """From where on a group that begins at the end has to have everything."""
        self.handed_out = self.again = self.refused = 0
        self.start_at: Literal["beginning", "end"] = "beginning"
        super().__init__(world)
        if self.settings.offsets_retention_ms > END_MS and dice.random() < 0.3:
            self.start_at = "end"
        world.after(10, self._write)

    def start_consumer(self, instance: str | None) -> None:
        self.consumers.append(MemberNode(self, self.fresh_id("m")))

    def send(self, client: Client, request: Request, on_answer: Callable[[Any], None]) -> None:
        """Nobody resets the offsets of the group from outside: its members alone say what is done."""
        if not (isinstance(client, Visitor) and isinstance(request, CommitRequest) and request.group == GROUP):
            super().send(client, request, on_answer)

    def _write(self) -> None:
        if self.world.now < WRITTEN_UNTIL_MS:
            self.world.after(self.world.dice.randrange(10, 80), self._write)
        number, count = self.world.dice.randrange(PARTITIONS), self.world.dice.randrange(1, 6)
        self.ends[number] += count
        self.done[number] += [False] * count

    # What members do.

    def on_handed_out(self, node: MemberNode, place: Place, first: int) -> None:
        """Who has heard nothing for a session does not hand out what may be another's."""
        self.handed_out += 1
        self.counts_from.setdefault(place[1], first)
        owns = self.coordinator is None or self._owns(node.member, place[1])
        if not owns and self.world.now - node.heard_at > SESSION_MS:
            raise Broken(f"{node.name} hands out {place[1]}, which is not its own, and has heard nothing for long")

    def _owns(self, member: str, number: int) -> bool:
        assert self.coordinator is not None
        group = self.coordinator.describe(GROUP)
        return group.state != "Stable" or any(
            each.member == member and number in each.assignment for each in group.members
        )

    def on_done(self, place: Place, first: int, end: int) -> None:
        done = self.done[place[1]]
        for offset in range(first, end):
            self.again += done[offset]
            done[offset] = True
        whole = self._whole[place[1]]
        while whole < len(done) and done[whole]:
            whole += 1
        self._whole[place[1]] = whole

    def on_commit_sent(self, node: MemberNode, commit: ours.Commit) -> None:
        if commit.generation < 0 or not commit.member:
            raise Broken(f"{node.name} commits as nobody")
        if self.start_at == "end":
            return
        for (_, number), offset in commit.offsets.items():
            if offset > self._whole[number]:
                raise Broken(f"{node.name} commits {offset} of {number}, and only {self._whole[number]} are done")

    def on_committed(self, commit: ours.Commit) -> None:
        for (_, number), offset in commit.offsets.items():
            self.counts_from.setdefault(number, offset)

    # The end.

    def check_done(self) -> None:
        for number, done in self.done.items():
            first = self.counts_from.get(number, len(done)) if self.start_at == "end" else 0
            missing = [offset for offset in range(first, len(done)) if not done[offset]]
            if missing:
                raise Broken(f"nobody is done with {TOPIC}-{number} at {missing[:5]} of {len(done)}")


def simulate(seed: int, transcript: list[str] | None = None) -> MemberWorld:
    """One history; raises `Broken` if a promise is."""
    world = World(seed, transcript)
    members = MemberWorld(world)
    world.run(SETTLED_MS)
    generation = members.check_settled()
    world.run(END_MS)
    if members.check_settled() != generation:
        raise Broken(f"generation {generation} did not last though nothing happened")
    members.check_twin()
    members.check_done()
    return members
