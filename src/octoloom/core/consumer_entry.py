"""A member's way into a consumer group: from the first question to the offsets that it reads from.

    JOINING ▶ (COUNTING, if it leads) ▶ SYNCING ▶ FETCHING ▶ LOCATING ▶ ENTERED

One question at a time: `on_reply` has the next one, or the code for which the last was refused, or nothing more to ask.
From FETCHING on it is one of the group, and has to send heartbeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from octoloom.core import consumer_member_messages as say
from octoloom.core.consumer_assignment import STRATEGIES
from octoloom.core.consumer_messages import GroupError
from octoloom.core.consumer_progress import Place
from octoloom.core.consumer_standing import Standing


class Step(Enum):
    JOINING = auto()
    COUNTING = auto()
    SYNCING = auto()
    FETCHING = auto()
    LOCATING = auto()
    ENTERED = auto()


class Entry:
    def __init__(self, settings: say.MemberSettings, standing: Standing) -> None:
        self._settings, self._standing = settings, standing
        self.step = Step.JOINING
        self.places: tuple[Place, ...] = ()
        self.divided: dict[str, int] = {}
        """Topics and their partitions, as this member has divided them among all; empty if another one did."""
        self.starts: dict[Place, int] = {}
        self.committed: dict[Place, int] = {}
        """Of those, where the group was."""
        self.notes: list[say.Note] = []
        self._wanted: Mapping[str, list[str]] = {}
        self._protocol = ""

    @property
    def is_in(self) -> bool:
        return self.step in (Step.FETCHING, Step.LOCATING, Step.ENTERED)

    @property
    def is_held(self) -> bool:
        """The coordinator waits for others before it answers."""
        return self.step in (Step.JOINING, Step.SYNCING)

    def begin(self) -> say.Join:
        self.step, self.places, self.divided, self.starts = Step.JOINING, (), {}, {}
        return say.Join(self._standing.member)

    def relocate(self, done: Mapping[Place, int]) -> say.Locate:
        """An offset to read from was not there: finds others for the partitions where that is so."""
        self.step, self.committed = Step.LOCATING, dict(done)
        return say.Locate(self.places)

    def repeat(self) -> say.Request:
        """No answer came. Whatever the coordinator may have made of it, this is what to ask then."""
        if self.step is Step.COUNTING:
            return self._count()
        if self.step is Step.FETCHING:
            return say.FetchCommitted(self.places)
        if self.step is Step.LOCATING:
            return say.Locate(self.places)
        return self.begin()

    def on_reply(self, reply: say.Reply) -> say.Request | int | None:
        if isinstance(reply, say.Located):
            self._on_located(reply.bounds)
            return None
        if isinstance(reply, say.Counted):
            self.divided = dict(reply.partitions)
            return self._sync(STRATEGIES[self._protocol](self._wanted, self.divided))
        if isinstance(reply, say.Joined) and reply.error == GroupError.MEMBER_ID_REQUIRED and not self._standing.member:
            self._standing.member = reply.member
            return self.begin()
        if reply.error:
            self._standing.on_refused(reply.error)
            return reply.error
        if isinstance(reply, say.Joined):
            return self._on_joined(reply)
        if isinstance(reply, say.Synced):
            return self._on_synced(reply.places)
        assert isinstance(reply, say.Fetched)
        self.step, self.committed = Step.LOCATING, dict(reply.offsets)
        return say.Locate(self.places)

    def _on_joined(self, reply: say.Joined) -> say.Request:
        self._standing.member, self._standing.generation = reply.member, reply.generation
        if reply.leader != reply.member:
            return self._sync({})
        self.step, self._wanted, self._protocol = Step.COUNTING, reply.wanted, reply.protocol
        return self._count()

    def _count(self) -> say.Count:
        topics = {topic: None for wanted in self._wanted.values() for topic in wanted}
        return say.Count(tuple(sorted(topics)))

    def _sync(self, assignment: Mapping[str, dict[str, list[int]]]) -> say.Sync:
        self.step = Step.SYNCING
        return say.Sync(self._standing.member, self._standing.generation, assignment)

    def _on_synced(self, places: tuple[Place, ...]) -> say.Request | None:
        self.places = places
        if not places:
            # One too many: it waits until others have gone.
            self.step = Step.ENTERED
            return None
        self.step = Step.FETCHING
        return say.FetchCommitted(places)

    def _on_located(self, bounds: Mapping[Place, tuple[int, int]]) -> None:
        self.step = Step.ENTERED
        self.starts = {place: self._start_of(place, *bounds[place]) for place in self.places}
        self.committed = {place: at for place, at in self.committed.items() if self.starts.get(place) == at}

    def _start_of(self, place: Place, first: int, end: int) -> int:
        """Where the group was. What is gone since is passed over, and nothing else."""
        at = self.committed.get(place)
        if at is not None and first <= at <= end:
            return at
        start = first if (at is not None and at < first) or self._settings.start == "beginning" else end
        if at is not None:
            text = f"{place[0]}-{place[1]} has offsets {first} to {end}, and the group was at {at}"
            self.notes.append(say.Note(f"{text}: it goes on at {start}"))
        return start

    def take_notes(self) -> list[say.Note]:
        notes, self.notes = self.notes, []
        return notes
