"""The search for a history that breaks a promise of consumer groups; and the proof that it would find one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from octoloom.core.consumer_messages import FetchedOffset
from octoloom.simulation.group_coordinator_checks import NOTHING, TOPIC, Offsets
from octoloom.simulation.group_coordinator_client import Consumer
from octoloom.simulation.group_coordinator_faults import MEMBERS_MAX, UNTIL_MS, Faults
from octoloom.simulation.group_coordinator_world import SETTLED_MS, GroupWorld, simulate
from octoloom.simulation.world import Broken, World
from tests.simulation.planted_consumers import GROUP_PLANTS

HISTORIES = 500
SHARE = 100
BOUND = 600
"""Within so many seeds a planted bug must be found."""
FIRST = {
    "who_is_back_need_not_ask": 16_022_129,
    "expiry_swallows_a_commit": 360,
    "place_taken_in_the_middle_of_a_round": 255,
    "assignment_told_before_it_is_stored": 136,
    "refused_record_is_forgotten": 136,
    "assignment_of_an_abandoned_round": 125,
    "snapshot_without_what_is_on_its_way": 52,
}
"""Some bugs need rare company: the search for these begins shortly before a history that shows them."""


@pytest.mark.parametrize("first", range(0, HISTORIES, SHARE))
def test_no_history_breaks_a_promise(first: int) -> None:
    for seed in range(first, first + SHARE):
        simulate(seed)


REMEMBERED = {
    7_001_037: "a member is stuck in a group that is full, so no newcomer can begin a round",
    16_012_584: "nothing is seen while a first commit and a deletion are on their way: neither has happened yet",
    16_022_129: "a static member takes its place back, and does not ask for its assignment",
}
"""Seeds that once broke a promise, or seemed to, and why."""


@pytest.mark.parametrize("seed", REMEMBERED)
def test_a_history_that_once_failed_holds(seed: int) -> None:
    simulate(seed)


def test_nothing_may_be_what_was_there_before_the_first_commit() -> None:
    where = ("guests", 3)
    nothing, first = FetchedOffset(TOPIC, 3), FetchedOffset(TOPIC, 3, 269, -1, "c1")
    offsets = Offsets()
    offsets.arrive(10, "c1")
    offsets.arrive(10, f"{NOTHING} 2")
    offsets.see(where, nothing, expired_before=0)
    offsets.see(where, first, expired_before=0)
    offsets.see(where, nothing, expired_before=0)  # The deletion has happened.
    with pytest.raises(Broken):
        offsets.see(where, first, expired_before=0)


def full_group(monkeypatch: pytest.MonkeyPatch, instance: str | None) -> tuple[GroupWorld, Consumer]:
    """A stable group without room for one more, and the member of it that began it: the leader."""
    monkeypatch.setattr(Faults, "plan", lambda _: None)
    group_world = GroupWorld(World(seed=1))
    group_world.world.run(UNTIL_MS // 4)
    for other in group_world.consumers:
        other.leave()
    group_world.start_consumer(instance)
    group_world.world.run(UNTIL_MS // 3)
    leader = group_world.consumers[-1]
    for _ in range(MEMBERS_MAX - 1):
        group_world.start_consumer(None)
    group_world.world.run(UNTIL_MS - 1)
    assert group_world.coordinator is not None
    assert len(group_world.coordinator.describe("workers").members) == MEMBERS_MAX
    return group_world, leader


def stick_at_work(leader: Consumer) -> None:
    leader.stuck = True


def stick_while_assigning(leader: Consumer) -> None:
    leader.stuck = True
    leader.wish_differently()


@pytest.mark.parametrize("instance", [None, "i9"])
@pytest.mark.parametrize("stick", [stick_at_work, stick_while_assigning])
def test_a_leader_that_is_stuck_in_a_full_group_is_out_in_the_end(
    monkeypatch: pytest.MonkeyPatch, stick: Callable[[Consumer], None], instance: str | None
) -> None:
    group_world, leader = full_group(monkeypatch, instance)
    stick(leader)
    group_world.world.run(SETTLED_MS)
    group_world.check_settled()


def test_a_full_group_in_which_everybody_is_stuck_takes_in_a_newcomer(monkeypatch: pytest.MonkeyPatch) -> None:
    group_world, _ = full_group(monkeypatch, None)
    for consumer in group_world.consumers:
        consumer.stuck = True
    group_world.world.run(SETTLED_MS)
    group_world.check_settled()


@pytest.mark.parametrize("instance", [None, "i9"])
@pytest.mark.parametrize(
    ("stick", "name"),
    [
        (stick_at_work, "stuck_members_stay"),
        (stick_while_assigning, "stuck_members_stay"),
        (stick_while_assigning, "stuck_leader_stays"),
    ],
)
def test_a_leader_that_is_stuck_in_a_full_group_and_stays_is_found(
    monkeypatch: pytest.MonkeyPatch, stick: Callable[[Consumer], None], name: str, instance: str | None
) -> None:
    group_world, leader = full_group(monkeypatch, instance)
    with GROUP_PLANTS[name]():
        stick(leader)
        group_world.world.run(SETTLED_MS)
        with pytest.raises(Broken):
            group_world.check_settled()


@pytest.mark.parametrize("name", GROUP_PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    first = FIRST.get(name, 0)
    with GROUP_PLANTS[name]():
        for seed in range(first, first + BOUND):
            try:
                simulate(seed)
            except Exception:  # A broken promise, or a core that fell over.
                return
    pytest.fail(f"{name} went unnoticed through {BOUND} histories")


def test_a_seed_is_a_history() -> None:
    first: list[str] = []
    second: list[str] = []
    simulate(11, first)
    simulate(11, second)
    assert first == second
    assert any("in generation" in line for line in first)
