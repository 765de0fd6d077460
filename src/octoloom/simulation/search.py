"""Searches seeds for a history that breaks a promise, on several cores."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from octoloom.simulation.cluster import simulate
from octoloom.simulation.world import Broken

BATCH = 20


@dataclass(frozen=True, slots=True)
class Found:
    """A seed that broke a promise, or made a core fail."""

    seed: int
    promise: str


def try_seed(seed: int) -> Found | None:
    try:
        simulate(seed)
    except Broken as broken:
        return Found(seed, str(broken))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Found(seed, f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})")
    return None


def try_seeds(seeds: range) -> tuple[int, Found | None]:
    """Try seeds in order up to the first that breaks something; answers how many were tried."""
    for count, seed in enumerate(seeds, start=1):
        found = try_seed(seed)
        if found is not None:
            return count, found
    return len(seeds), None


def search(first: int, count: int, jobs: int, progress: Callable[[int], None]) -> Found | None:
    """Try `count` seeds from `first` on; `progress` is told how many more are done. The lowest finding of all wins."""
    batches = [range(start, min(start + BATCH, first + count)) for start in range(first, first + count, BATCH)]
    for done, found in _run(batches, jobs):
        progress(done)
        if found is not None:
            return found
    return None


def _run(batches: list[range], jobs: int) -> Iterator[tuple[int, Found | None]]:
    if jobs <= 1:
        yield from map(try_seeds, batches)
        return
    # Workers start afresh: a fork of a process with threads (a progress display has one) may hang.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(try_seeds, batches)


def transcript(seed: int) -> tuple[list[str], str]:
    """The readable history of a seed, and the promise that it broke (empty if none)."""
    lines: list[str] = []
    try:
        simulate(seed, lines)
    except Broken as broken:
        return lines, str(broken)
    except Exception as error:
        return [*lines, *traceback.format_exc().splitlines()], f"{type(error).__name__}: {error}"
    return lines, ""
