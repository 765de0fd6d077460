"""What consumer groups promise, checked while a simulated history happens.

The checker stands at the coordinator's door: it sees each request as it arrives and each answer as it leaves, whether
or not that ever reaches anybody.
"""

from __future__ import annotations

from collections.abc import Iterable

from octoloom.core import consumer_messages as say
from octoloom.core.consumer_groups import GroupCoordinator
from octoloom.core.consumer_messages import GroupError, Response
from octoloom.simulation.world import Broken, World

TOPIC = "deeds"
PARTITIONS = 4

Request = (
    say.JoinRequest
    | say.SyncRequest
    | say.HeartbeatRequest
    | say.LeaveRequest
    | say.CommitRequest
    | say.FetchOffsetsRequest
    | say.DeleteRequest
)
Place = tuple[str, int]
"""(group, partition)"""

NOTHING = "nothing"
"""What a deletion commits."""


class Offsets:
    """The commits of one partition in the order of their arrival; each carries its own name as its metadata."""

    def __init__(self) -> None:
        self.arrived: dict[str, int] = {}
        self.times: list[int] = []
        self.refused: dict[str, GroupError] = {}
        self.floor = -1
        """Nothing older than this may ever be seen again: it was acknowledged, or somebody saw it."""

    def arrive(self, now: int, name: str) -> None:
        self.arrived[name] = len(self.arrived)
        self.times.append(now)

    def confirm(self, name: str) -> None:
        self.floor = max(self.floor, self.arrived[name])

    def see(self, where: Place, fetched: say.FetchedOffset, expired_before: int) -> None:
        name = fetched.metadata
        if not name and self.floor >= 0 and self.times[self.floor] <= expired_before:
            seen = self.floor
        elif not name and self.floor < 0:
            seen = self.floor  # Maybe nothing has happened yet, whatever is on its way.
        elif not name:
            deletions = [key for key in self.arrived if key.startswith(NOTHING) and key not in self.refused]
            seen = min((self.arrived[key] for key in deletions if self.arrived[key] >= self.floor), default=-1)
        else:
            seen = self.arrived[name]
        if name in self.refused:
            raise Broken(f"{where} shows the commit {name}, which was refused with {self.refused[name].name}")
        if seen < self.floor:
            lost = next(key for key, number in self.arrived.items() if number == self.floor)
            raise Broken(f"the commit {lost} of {where} is lost: {name or 'nothing'} is there")
        self.floor = seen


class Checker:
    def __init__(self, world: World, retention_ms: int) -> None:
        self.world = world
        self.retention_ms = retention_ms
        self.offsets: dict[Place, Offsets] = {}
        self.told: dict[str, int] = {}
        """The highest generation of each group that anybody was told."""
        self.knew: dict[str, int] = {}
        """For each commit: the generation that was told when it arrived."""
        self.has_members: dict[str, bool] = {}
        """For each commit: whether its group had members when it arrived."""
        self.fenced: dict[str, None] = {}
        """Commits from members whose place was taken when they arrived."""
        self.instances: dict[str, list[str]] = {}
        """The ids that each instance was told to have, in order."""
        self.listed: dict[int, list[str]] = {}
        """Whom the leader of a generation was told about, by instance or id."""
        self.owners: dict[int, dict[int, str]] = {}
        self.shares: dict[tuple[int, str], bytes] = {}
        self.answered: dict[int, None] = {}

    def at(self, group: str, partition: int) -> Offsets:
        return self.offsets.setdefault((group, partition), Offsets())

    # What arrives.

    def on_request(self, ticket: int, request: Request, coordinator: GroupCoordinator) -> None:
        if isinstance(request, say.CommitRequest):
            listed = coordinator.list_groups()
            has_members = any(each.group == request.group and each.state != "Empty" for each in listed)
            for offset in request.offsets:
                self.at(request.group, offset.partition).arrive(self.world.now, offset.metadata)
                self.knew[offset.metadata] = self.told.get(request.group, 0)
                self.has_members[offset.metadata] = has_members
                ids = self.instances.get(request.instance or "", [])
                if request.member in ids[:-1]:
                    self.fenced[offset.metadata] = None
        elif isinstance(request, say.DeleteRequest):
            for group in request.groups:
                for partition in range(PARTITIONS):
                    self.at(group, partition).arrive(self.world.now, f"{NOTHING} {ticket}")

    # What leaves.

    def on_answer(self, ticket: int, request: Request, response: Response, coordinator: GroupCoordinator) -> None:
        if ticket in self.answered:
            raise Broken(f"{request} was answered twice")
        self.answered[ticket] = None
        match request, response:
            case say.JoinRequest(), say.JoinAnswer():
                self._on_joined(request, response)
            case say.SyncRequest(), say.SyncAnswer():
                self._on_synced(request, response, coordinator)
            case say.CommitRequest(), say.CommitAnswer():
                self._on_committed(request, response)
            case say.FetchOffsetsRequest(), say.FetchOffsetsAnswer():
                self._on_fetched(response.groups)
            case say.DeleteRequest(), say.DeleteAnswer():
                self._on_deleted(ticket, response)

    def _on_joined(self, request: say.JoinRequest, answer: say.JoinAnswer) -> None:
        if answer.error is not GroupError.NONE:
            return
        self.told[request.group] = max(self.told.get(request.group, 0), answer.generation)
        if request.instance is not None:
            ids = self.instances.setdefault(request.instance, [])
            if answer.member not in ids:
                ids.append(answer.member)
        if answer.members:
            listed = [member.instance or member.member for member in answer.members]
            known = self.listed.setdefault(answer.generation, listed)
            if sorted(known) != sorted(listed):
                raise Broken(f"generation {answer.generation} was told with two sets of members: {known}, {listed}")

    def _on_synced(self, request: say.SyncRequest, answer: say.SyncAnswer, coordinator: GroupCoordinator) -> None:
        if answer.error is not GroupError.NONE:
            return
        generation, who = request.generation, request.instance or request.member
        if who not in self.listed.get(generation, []):
            raise Broken(f"{who} is in generation {generation}, whose leader never heard of it")
        share = self.shares.setdefault((generation, who), answer.assignment)
        if share != answer.assignment:
            raise Broken(f"{who} was assigned {list(share)} and {list(answer.assignment)} in generation {generation}")
        owners = self.owners.setdefault(generation, {})
        for partition in answer.assignment:
            if owners.setdefault(partition, who) != who:
                raise Broken(f"in generation {generation} both {owners[partition]} and {who} own partition {partition}")
        description = coordinator.describe(request.group)
        assigned = sorted(partition for member in description.members for partition in member.assignment)
        if assigned != list(range(PARTITIONS)):
            raise Broken(f"generation {generation} is {description.state} with {assigned} assigned")

    def _on_committed(self, request: say.CommitRequest, answer: say.CommitAnswer) -> None:
        for offset, (_, partition, error) in zip(request.offsets, answer.results, strict=True):
            name, offsets = offset.metadata, self.at(request.group, partition)
            if error is GroupError.NOT_COORDINATOR:
                continue  # Nobody knows whether it happened.
            if error is not GroupError.NONE:
                offsets.refused[name] = error
                continue
            offsets.confirm(name)
            if 0 <= request.generation < self.knew[name]:
                raise Broken(f"generation {request.generation} committed while {self.knew[name]} was known")
            if not request.member and self.has_members[name]:
                raise Broken(f"somebody who is no member committed {name} in {request.group}, which has members")
            if name in self.fenced:
                raise Broken(f"{request.member} committed {name} after another had taken its place")

    def _on_fetched(self, groups: Iterable[say.FetchedGroup]) -> None:
        for group in groups:
            if group.error is GroupError.NONE:
                for fetched in group.offsets:
                    where = (group.group, fetched.partition)
                    self.at(*where).see(where, fetched, self.world.now - self.retention_ms)

    def _on_deleted(self, ticket: int, answer: say.DeleteAnswer) -> None:
        for group, error in answer.results:
            for partition in range(PARTITIONS):
                offsets, name = self.at(group, partition), f"{NOTHING} {ticket}"
                if error is GroupError.NONE:
                    offsets.confirm(name)
                elif error is not GroupError.NOT_COORDINATOR:
                    offsets.refused[name] = error
