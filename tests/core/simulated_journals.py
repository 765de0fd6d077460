"""Journals of simulated chains: devices that lose their stores, heads and whole chains that die, quarantine, timers."""

from __future__ import annotations

from functools import cache

from octoloom.core.journal import Durability
from octoloom.simulation import cluster
from octoloom.simulation.checkers import WitnessedSpace
from octoloom.simulation.cluster import Cluster
from octoloom.simulation.faults import UNTIL_MS
from octoloom.simulation.world import World
from tests.core.audit_story import Entries

SEEDS = (1, 6, 26, 33, 69, 78, 84, 94, 107)
"""With several generations, records that come again, events that wait, and one in quarantine."""


@cache
def simulated_journals(seed: int) -> dict[str, Entries]:
    """What the journal of each space held in the end; nothing if this world kept none."""
    WitnessedSpace.handed_on.clear()
    WitnessedSpace.consumed.clear()
    world = World(seed, None)
    made = Cluster(world)
    if made.durability is Durability.NONE:
        return {}
    made.faults.plan()
    world.run(UNTIL_MS)
    made.faults.stop()
    cluster._settle(world, made)
    return dict(made.journal.records)
