"""The simulated journal: a topic of the log that takes records late, in each writer's order, and sometimes not for a
while. A writer that dies may have had its last records taken, and nobody was told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from octoloom.core.chain import Chain
from octoloom.core.effects import Publish
from octoloom.core.event import JournalEntry, SpaceSnapshot
from octoloom.core.journal import JournalReader
from octoloom.core.placement import place
from octoloom.simulation.checkers import Lineage, WitnessedSpace

if TYPE_CHECKING:
    from octoloom.simulation.cluster import Cluster
    from octoloom.simulation.link_node import LinkNode

DELAY_MS = (1, 15)
RETRY_MS = 40


class JournalStore:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.records: dict[str, list[tuple[int, JournalEntry]]] = {}
        self.down = False
        self._queues: dict[tuple[str, str], list[Publish]] = {}
        """What each writer has under way for each space, in order."""
        self._lineages: dict[int, Lineage] = {}

    # Writing.

    def publish(self, link: LinkNode, chain: Chain, effect: Publish) -> None:
        for entry in effect.entries:
            self.cluster.checker.on_published(effect.space, entry)
        queue = self._queues.setdefault((link.name, effect.space), [])
        queue.append(effect)
        self.world.after(self.world.dice.randint(*DELAY_MS), self._arrive, link, chain, queue)

    def _arrive(self, link: LinkNode, chain: Chain, queue: list[Publish]) -> None:
        """Each call takes one of the queue, so that whatever delays it keeps the order."""
        if self.down:
            self.world.after(RETRY_MS, self._arrive, link, chain, queue)
            return
        if not link.alive and self.world.dice.random() < 0.5:
            if self.world.dice.random() < 0.5:  # the last words of the dead can take long
                self.world.after(self.world.dice.randrange(50, 900), self._arrive, link, chain, queue)
                return
            queue.clear()  # it died with this unsent, and with all that was to follow
        if not queue:
            return
        effect = queue.pop(0)
        records = self.records.setdefault(effect.space, [])
        for entry in effect.entries:
            records.append((effect.generation, entry))
            if entry.start is not None and id(entry.start) not in self._lineages:
                self._lineages[id(entry.start)] = WitnessedSpace.handed_on[id(entry.start)][1]
        self.world.after(self.world.dice.randint(*DELAY_MS), self._tell, link, chain, effect)

    def _tell(self, link: LinkNode, chain: Chain, effect: Publish) -> None:
        if link.alive and link.paused:
            self.world.after(RETRY_MS, self._tell, link, chain, effect)
        elif link.alive:
            chain.on_journaled(self.world.now, effect.space, effect.generation, effect.entries[-1].version)
            link.stir()

    # Reading.

    def restore(self, link: LinkNode, chain: Chain, generation: int) -> None:
        self.world.after(self.world.dice.randint(*DELAY_MS), self._restore, link, chain, generation)

    def _restore(self, link: LinkNode, chain: Chain, generation: int) -> None:
        if not link.alive:
            return
        if self.down or link.paused:
            self.world.after(RETRY_MS, self._restore, link, chain, generation)
            return
        snapshots = []
        for space in self.records:
            if place(space, self.cluster.chain_names) == chain.chain:
                snapshot, lineage = self.read(space)
                WitnessedSpace.handed_on[id(snapshot)] = (snapshot, lineage)
                for entry in snapshot.backlog:
                    if entry.start is not None:
                        WitnessedSpace.handed_on[id(entry.start)] = (entry.start, lineage)
                if chain.view.generation == generation:
                    self.cluster.checker.on_restored(generation, space, lineage)
                snapshots.append(snapshot)
        self.world.tell(link.name, "takes over {} from the journal", [(s.space, s.version) for s in snapshots])
        chain.on_restored(self.world.now, generation, snapshots)
        link.stir()

    def events_of(self, space: str) -> int:
        """How many events a reader finds with the changes that it takes."""
        reader = JournalReader(space)
        found: dict[int, int] = {}
        for generation, entry in self.records[space]:
            if reader.read(generation, entry):
                if entry.change is None:
                    found = {version: count for version, count in found.items() if version <= entry.version}
                else:
                    found[entry.version] = len(entry.events)
        return sum(found.values())

    def read(self, space: str) -> tuple[SpaceSnapshot, Lineage]:
        """What a reader makes of the records, and the changes that led there."""
        reader = JournalReader(space)
        lineage: Lineage = None
        for generation, entry in self.records[space]:
            if reader.read(generation, entry):
                if entry.change is not None:
                    lineage = (entry.change, lineage)
                else:
                    lineage = self._lineages[id(entry.start)]
        return reader.start(), lineage
