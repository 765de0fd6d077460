"""Steps of groups that ran: by hand at a table, and in the simulation with deaths, joins, switches and lost packets."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import pytest

from octoloom.core.group_settings import GroupSettings
from octoloom.core.steps import Step
from octoloom.simulation import group_world
from octoloom.simulation.group_node import GroupNode
from octoloom.simulation.world import World


@cache
def simulated(seed: int) -> tuple[Step, ...]:
    """What the members of a simulated group told, in the order of the world's clock."""
    steps: list[Step] = []
    obey = GroupNode._obey

    def witnessed(node: GroupNode, each: object, packets: object) -> None:
        if isinstance(each, Step):
            steps.append(each)
        obey(node, each, packets)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GroupNode, "_obey", witnessed)
        patch.setattr(group_world, "GroupSettings", partial(GroupSettings, tracing=True))
        group_world.GroupWorld(World(seed, None)).settle()
    return tuple(steps)


def places(steps: list[Step], wanted: Callable[[Step], bool]) -> list[int]:
    return [at for at, step in enumerate(steps) if wanted(step)]


def swapped(steps: list[Step], one: int, other: int) -> list[Step]:
    damaged = list(steps)
    damaged[one], damaged[other] = damaged[other], damaged[one]
    return damaged


def without(steps: list[Step], at: int) -> list[Step]:
    return steps[:at] + steps[at + 1 :]


def moved(steps: list[Step], at: int, to: int) -> list[Step]:
    """The step stands before the one that is at `to` now."""
    damaged = without(steps, at)
    damaged.insert(to if to < at else to - 1, steps[at])
    return damaged
