"""What happens to a cluster while devices act, and how long it made them wait."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from octoloom.core.errors import OctoloomError
from octoloom.runtime.processes import Child
from tests.chaos.cluster import Cluster
from tests.chaos.journal import now_ms
from tests.chaos.swarm import Actor, Casting
from tests.waiting import PATIENCE_S

DOWN_S = 0.5
"""How long a killed process stays away: the chain works without it meanwhile."""
OVERSLEEP_S = 0.5
"""How long a frozen link sleeps on after the register has given it up."""

Fault = Callable[[Cluster], Awaitable[None]]


def killed(*roles: str) -> Fault:
    async def happen(cluster: Cluster) -> None:
        names = [await cluster.at(role) for role in roles]
        await asyncio.gather(*map(cluster.kill, names))
        await asyncio.sleep(DOWN_S)
        for name in names:
            await cluster.start(name)

    return happen


def frozen(role: str) -> Fault:
    async def happen(cluster: Cluster) -> None:
        name = await cluster.at(role)
        cluster.freeze(name)
        try:
            await cluster.until_without(name)
            await asyncio.sleep(OVERSLEEP_S)
        finally:
            cluster.thaw(name)

    return happen


async def register_killed(cluster: Cluster) -> None:
    await cluster.kill("register")
    await asyncio.sleep(2 * DOWN_S)
    await cluster.start("register")


async def register_and_head_killed(cluster: Cluster) -> None:
    head = await cluster.at("head")
    await cluster.kill("register")
    await cluster.kill(head)
    await asyncio.sleep(DOWN_S)
    await cluster.start("register")
    await cluster.start(head)


FAULTS: dict[str, Fault] = {
    "head killed": killed("head"),
    "middle killed": killed("middle"),
    "tail killed": killed("tail"),
    "head frozen": frozen("head"),
    "middle frozen": frozen("middle"),
    "tail frozen": frozen("tail"),
    "register killed": register_killed,
    "register and head killed": register_and_head_killed,
    "head and middle killed": killed("head", "middle"),
    "middle and tail killed": killed("middle", "tail"),
}


class Mark(msgspec.Struct, frozen=True):
    """A fault began and everything was whole again."""

    kind: str
    from_ms: float
    to_ms: float


async def suffer(cluster: Cluster, kind: str, calm_s: float) -> Mark:
    began = now_ms()
    await FAULTS[kind](cluster)
    await cluster.until_whole()
    mark = Mark(kind, began, now_ms())
    await asyncio.sleep(calm_s)
    return mark


async def watch_versions(cluster: Cluster, complaints: list[str]) -> None:
    """Looks at every link again and again: while it is in the chain, its epoch and its versions never fall."""
    last: dict[tuple[str, str], int] = {}
    while True:
        for name in cluster.names:
            with contextlib.suppress(OctoloomError):
                told = await cluster.ask(name)
                chain = next(iter(told["chains"].values()), {"role": "outside", "epoch": 0})
                seen = {"epoch": chain["epoch"]} | {space["space"]: space["version"] for space in told["spaces"]}
                for what, value in seen.items() if chain["role"] not in ("outside", "learner") else ():
                    if value < last.get((told["link"], what), 0):
                        complaints.append(f"{told['link']}: {what} fell to {value}")
                    last[told["link"], what] = value
                if chain["role"] in ("outside", "learner"):
                    # It forgot all that it held, and starts over.
                    last = {key: value for key, value in last.items() if key[0] != told["link"]}
        await asyncio.sleep(0.2)


class Swarms:
    """Processes full of devices."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journals: list[Path] = []
        self.running: list[Child] = []

    async def start(self, urls: list[str], actors: Sequence[Actor], pause_ms: float) -> Child:
        number = len(self.journals)
        journal, casting = self.folder / f"journal{number}.jsonl", self.folder / f"casting{number}.json"
        casting.write_bytes(msgspec.json.encode(Casting(urls, list(actors), str(journal), pause_ms, number)))
        self.journals.append(journal)
        log = self.folder / f"swarm{number}.log"
        child = await Child.start(f"swarm{number}", [str(casting)], log, module="tests.chaos.swarm")
        self.running.append(child)
        return child

    async def say(self, line: str, answer: str) -> None:
        for child in self.running:
            child.write_line(line)
        for child in self.running:
            said = await asyncio.wait_for(child.read_line(), 3 * PATIENCE_S)
            assert said.strip() == answer, f"{child.name} said {said!r} to {line!r}: see {child.log}"

    async def kill(self, child: Child) -> None:
        self.running.remove(child)
        await child.stop(0)


@contextlib.asynccontextmanager
async def swarms(folder: Path) -> AsyncIterator[Swarms]:
    there = Swarms(folder)
    try:
        yield there
    finally:
        for child in list(there.running):
            await there.kill(child)


# How long devices waited.


def report(marks: Sequence[Mark], lags: Sequence[tuple[float, float]]) -> dict[str, dict[str, Any]]:
    """Of each kind of fault, the lags of the actions that were under way while it lasted: the first, if it met two."""
    kinds: dict[str, list[float]] = {"nothing": []}
    for mark in marks:
        kinds.setdefault(mark.kind, [])
    for sent, told in lags:
        meets = [mark.kind for mark in marks if sent <= mark.to_ms and told >= mark.from_ms]
        kinds[meets[0] if meets else "nothing"].append(told - sent)
    return {kind: _figures(sorted(values)) for kind, values in kinds.items()}


def _figures(values: list[float]) -> dict[str, Any]:
    if not values:
        return {"events": 0}
    at = {"median_ms": 0.5, "p99_ms": 0.99, "longest_ms": 1.0}
    return {"events": len(values)} | {
        name: round(values[min(len(values) - 1, int(share * len(values)))], 1) for name, share in at.items()
    }


def publish(folder: Path, title: str, figures: dict[str, dict[str, Any]]) -> None:
    """Prints the figures (`pytest -s` shows them) and writes them beside the logs."""
    (folder / "lags.json").write_text(json.dumps(figures, indent=2))
    print(f"\n{title} ({folder / 'lags.json'})")
    print(f"{'while':26}{'events':>8}{'median':>9}{'p99':>9}{'longest':>9}  ms")
    for kind, f in figures.items():
        cells = (f.get("median_ms", "-"), f.get("p99_ms", "-"), f.get("longest_ms", "-"))
        print(f"{kind:26}{f['events']:>8}" + "".join(f"{cell:>9}" for cell in cells))
