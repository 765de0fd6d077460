"""Searches seeds for a history that breaks a promise, on several cores."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from octoloom.simulation import cluster, group_coordinator_world, group_member_world, group_world, log_cluster
from octoloom.simulation.world import Broken

BATCH = 20
SIMULATIONS: dict[str, Callable[[int, list[str] | None], object]] = {
    "chain": cluster.simulate,
    "log": log_cluster.simulate,
    "consumers": group_coordinator_world.simulate,
    "members": group_member_world.simulate,
    "group": group_world.simulate,
}


@dataclass(frozen=True, slots=True)
class Found:
    """A seed that broke a promise, or made a core fail."""

    seed: int
    promise: str


def try_seed(what: str, seed: int) -> Found | None:
    try:
        SIMULATIONS[what](seed, None)
    except Broken as broken:
        return Found(seed, str(broken))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Found(seed, f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})")
    return None


def try_seeds(what: str, seeds: range) -> tuple[int, Found | None]:
    """Try seeds in order up to the first that breaks something; answers how many were tried."""
    for count, seed in enumerate(seeds, start=1):
        found = try_seed(what, seed)
        if found is not None:
            return count, found
    return len(seeds), None


def search(what: str, first: int, count: int, jobs: int, progress: Callable[[int], None]) -> Found | None:
    """Try `count` seeds from `first` on; `progress` is told how many more are done. The lowest finding of all wins."""
    batches = [range(start, min(start + BATCH, first + count)) for start in range(first, first + count, BATCH)]
    for done, found in _run(partial(try_seeds, what), batches, jobs):
        progress(done)
        if found is not None:
            return found
    return None


def _run(
    attempt: Callable[[range], tuple[int, Found | None]], batches: list[range], jobs: int
) -> Iterator[tuple[int, Found | None]]:
    if jobs <= 1:
        yield from map(attempt, batches)
        return
    # Workers start afresh: a fork of a process with threads (a progress display has one) may hang.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(attempt, batches)


def transcript(what: str, seed: int) -> tuple[list[str], str]:
    """The readable history of a seed, and the promise that it broke (empty if none)."""
    lines: list[str] = []
    try:
        SIMULATIONS[what](seed, lines)
    except Broken as broken:
        return lines, str(broken)
    except Exception as error:
        return [*lines, *traceback.format_exc().splitlines()], f"{type(error).__name__}: {error}"
    return lines, ""
