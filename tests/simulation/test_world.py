"""A world's clock moves only because its queue says so, and its dice come from the seed."""

from __future__ import annotations

from octoloom.simulation.world import World


def test_things_happen_in_the_order_of_time_then_of_scheduling() -> None:
    world, happened = World(1), list[tuple[int, str]]()

    def happen(what: str) -> None:
        happened.append((world.now, what))

    world.at(20, happen, "late")
    world.at(10, happen, "first")
    world.at(10, happen, "second")
    world.run(15)
    assert happened == [(10, "first"), (10, "second")]
    assert world.now == 15
    world.run(20)
    assert happened[2:] == [(20, "late")]
    assert world.steps == 3


def test_what_happens_may_make_more_happen() -> None:
    world, seen = World(1), list[int]()

    def tick() -> None:
        seen.append(world.now)
        world.after(10, tick)

    world.after(10, tick)
    world.run(35)
    assert seen == [10, 20, 30]


def test_the_past_means_now_after_what_was_scheduled_before() -> None:
    world, seen = World(1), list[str]()

    def first() -> None:
        world.at(3, seen.append, "past")

    world.at(10, first)
    world.at(10, seen.append, "present")
    world.run(10)
    assert seen == ["present", "past"]


def test_a_seed_is_a_history() -> None:
    throws = [[World(seed).dice.random() for _ in range(5)] for seed in (1, 1, 2)]
    assert throws[0] == throws[1] != throws[2]


def test_a_transcript_is_written_only_if_somebody_reads_it() -> None:
    told: list[str] = []
    world = World(1, told)
    world.run(1234)
    world.tell("a#1", "sends {} to {}", 3, "b#1")
    assert told == ["   1234 ms  a#1          sends 3 to b#1"]

    class Unprintable:
        def __format__(self, spec: str) -> str:
            raise AssertionError("nobody reads this")

    World(1).tell("a#1", "{}", Unprintable())
