"""What devices wrote down, and the doubts that it raises beside the state that the chain holds.

Each check yields a sentence per broken promise; none means that it held.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from tests.chaos.ledger import REFUSED, follow


def now_ms() -> float:
    """The machine's monotonic clock, which all of its processes share."""
    return time.monotonic_ns() / 1e6


class Sent(msgspec.Struct, frozen=True, tag="sent"):
    device: str
    life: int
    number: int
    at_ms: float


class Told(msgspec.Struct, frozen=True, tag="told"):
    device: str
    life: int
    number: int
    at_ms: float
    status: str
    version: int
    sequencer: int


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """A device that may die was told how one of its numbers ended, whichever of its lives had used it."""

    device: str
    life: int
    sequencer: int
    status: str


class Fell(msgspec.Struct, frozen=True, tag="fell"):
    """The version went back, or history began anew."""

    device: str
    before: int
    after: int
    reset: bool


class Behind(msgspec.Struct, frozen=True, tag="behind"):
    """An action was told to be applied and was not in the state that its device saw."""

    device: str
    life: int
    number: int


class Saw(msgspec.Struct, frozen=True, tag="saw"):
    """The end of the story, as this device or observer sees it."""

    device: str
    version: int
    digest: str


Fact = Sent | Told | Ended | Fell | Behind | Saw
_decoder = msgspec.json.Decoder(Fact)


def read(paths: Iterable[Path]) -> list[Fact]:
    """All whole lines: of a process that was killed, the last may be cut off."""
    lines = [line for path in paths for line in path.read_text().splitlines(keepends=True)]
    return [_decoder.decode(line) for line in lines if line.endswith("\n")]


class Book:
    """The facts, by device and life."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self.facts = facts
        self.sent: dict[tuple[str, int], list[Sent]] = defaultdict(list)
        self.told: dict[tuple[str, int], list[Told]] = defaultdict(list)
        for fact in facts:
            if isinstance(fact, Sent):
                self.sent[fact.device, fact.life].append(fact)
            elif isinstance(fact, Told):
                self.told[fact.device, fact.life].append(fact)

    def lags(self) -> list[tuple[float, float]]:
        """(sent, told) of every action that was told of."""
        sent = {(s.device, s.life, s.number): s.at_ms for life in self.sent.values() for s in life}
        return [(sent[t.device, t.life, t.number], t.at_ms) for life in self.told.values() for t in life]


def glimpses(book: Book) -> Iterator[str]:
    """What no device may ever see."""
    for fact in book.facts:
        if isinstance(fact, Fell):
            yield f"{fact.device or 'an observer'} saw version {fact.before} become {fact.after}, reset={fact.reset}"
        elif isinstance(fact, Behind):
            yield f"{fact.device} did not see its action {fact.life}.{fact.number} when it was told of it"


def outcomes(book: Book) -> Iterator[str]:
    """Within a life outcomes come once each, in order, and their versions never fall."""
    latest: dict[str, Told] = {}
    for (device, _), told in sorted(book.told.items()):
        for before, after in pairwise(told):
            if after.number != before.number + 1 or after.sequencer <= before.sequencer:
                yield f"{device} was told of {before} and then of {after}"
        for one in told:
            if one.version < latest.get(device, one).version:
                yield f"{device} was told of {one} after {latest[device]}"
            latest[device] = one


def settled(book: Book, lives: Iterable[tuple[str, int]]) -> Iterator[str]:
    """All that was done in these lives has a true end."""
    for life in lives:
        numbers = [one.number for one in book.told[life]]
        missing = [one.number for one in book.sent[life] if one.number not in numbers]
        if missing:
            yield f"{life} was never told of {missing[:5]} ({len(missing)} in all)"
        for one in book.told[life]:
            if one.status != ("applied" if one.number % REFUSED else "rejected"):
                yield f"{life} was told {one.status} of {one.number}"


def trails(book: Book, state: Any) -> Iterator[str]:
    """Of devices that lived on: the state holds exactly what was told, each once, in order."""
    for (device, life), told in book.told.items():
        if life:
            continue
        expected = {"count": 0, "last": 0, "trail": 0}
        for one in told:
            if one.status == "applied":
                trail = follow(expected["trail"], one.number)
                expected = {"count": expected["count"] + 1, "last": one.number, "trail": trail}
        found = state["devices"].get(device, {"count": 0, "last": 0, "trail": 0})
        if found != expected:
            yield f"of {device} the state has {found}, it was told {expected}"


def notes(book: Book, state: Any) -> Iterator[str]:
    """Of devices that died: what was told to be applied is there, nothing is there twice, a life's order is kept."""
    if state["doubles"]:
        yield f"{state['doubles']} notes were applied twice"
    for device, held in state["notes"].items():
        yield from _order(device, held)
        sent = {f"{life}.{one.number}" for (name, life), s in book.sent.items() if name == device for one in s}
        for key in held:
            if key not in sent or int(key.partition(".")[2]) % REFUSED == 0:
                yield f"{device} has {key} in the state, which it never sent or which is refused"
    for (device, life), told in book.told.items():
        for one in told:
            there = f"{life}.{one.number}" in state["notes"].get(device, {})
            if life and one.status != "forgotten" and there != (one.status == "applied"):
                yield f"{device} was told {one}, and in the state it is {there}"


def _order(device: str, held: dict[str, int]) -> Iterator[str]:
    places = sorted((place, *map(int, key.split("."))) for key, place in held.items())
    if [place for place, _, _ in places] != list(range(len(places))):
        yield f"the places of {device} are not one each"
    last: dict[int, int] = {}
    for _, life, number in places:
        if number <= last.get(life, 0):
            yield f"{device} did {life}.{number} before {life}.{last[life]}, and the state has them the other way"
        last[life] = number


def sights(book: Book, replicas: dict[str, tuple[int, str]], spaces: dict[str, str]) -> Iterator[str]:
    """Everybody sees in the end what the replicas hold; `spaces` says where each device is."""
    for fact in book.facts:
        if isinstance(fact, Saw) and (fact.version, fact.digest) not in replicas.values():
            yield f"{fact.device or 'an observer'} sees another state, version {fact.version}"
        if isinstance(fact, Saw) and fact.device in spaces and replicas[spaces[fact.device]][1] != fact.digest:
            yield f"{fact.device} sees the state of another space"
