"""The real typing trace: who typed what, and what they had seen by then. See `data/README.md`."""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

DATA = Path(__file__).parent / "data" / "friendsforever.json.gz"
TYPISTS = ("ada#1", "bob#1")
READER = "eve#1"

Item = TypeVar("Item")


class Transaction(msgspec.Struct, frozen=True):
    agent: int
    parents: list[int]
    patches: list[tuple[int, int, str]]


class TraceFile(msgspec.Struct, frozen=True, rename="camel"):
    num_agents: int
    txns: list[Transaction]
    end_content: str


@dataclass(frozen=True)
class Trace:
    transactions: list[Transaction]
    end_content: str
    vectors: list[list[int]]
    """What each counts of the two typists, itself included, by its parents."""
    by_number: dict[tuple[int, int], int]
    """(agent, number) to the index of the transaction."""


@cache
def trace() -> Trace:
    file = msgspec.json.decode(gzip.decompress(DATA.read_bytes()), type=TraceFile)
    assert file.num_agents == len(TYPISTS)
    vectors: list[list[int]] = []
    by_number: dict[tuple[int, int], int] = {}
    for index, transaction in enumerate(file.txns):
        vector = [0, 0]
        for parent in transaction.parents:
            vector = [max(pair) for pair in zip(vector, vectors[parent], strict=True)]
        vector[transaction.agent] += 1
        # If two of one typist were concurrent, both would have this number.
        key = transaction.agent, vector[transaction.agent]
        assert key not in by_number
        by_number[key] = index
        vectors.append(vector)
    return Trace(file.txns, file.end_content, vectors, by_number)


# Hostile sequences of arrival.


def blocks_reversed(items: list[Item]) -> list[Item]:
    return [item for start in range(0, len(items), 1_000) for item in items[start : start + 1_000][::-1]]


def all_reversed(items: list[Item]) -> list[Item]:
    return items[::-1]


def windows_shuffled(items: list[Item]) -> list[Item]:
    dice = random.Random("windows")
    windows = [items[start : start + 300] for start in range(0, len(items), 300)]
    return [item for window in windows for item in dice.sample(window, len(window))]


def all_shuffled(items: list[Item]) -> list[Item]:
    return random.Random("all").sample(items, len(items))


def two_slow_links(items: list[Item]) -> list[Item]:
    """Each typist has a link of its own, and now the one, now the other is far behind."""
    dice = random.Random("links")
    lanes = [[item for item, each in zip(items, trace().transactions, strict=True) if each.agent == a] for a in (0, 1)]
    merged: list[Item] = []
    while any(lanes):
        lane = dice.choice([lane for lane in lanes if lane])
        count = dice.randint(1, 2_000)
        merged += lane[:count]
        del lane[:count]
    return merged


HOSTILE = [blocks_reversed, all_reversed, windows_shuffled, all_shuffled, two_slow_links]
