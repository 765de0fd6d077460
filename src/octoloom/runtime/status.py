"""What runs, in which role: the register's directory, and what each link tells of itself, in one picture."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from octoloom.core.errors import UsageError
from octoloom.core.register_messages import Directory, LinkAddress
from octoloom.core.roster import name_of
from octoloom.runtime import register_client, stats
from octoloom.runtime.cluster_file import ClusterNote, ProcessNote
from octoloom.wire.stats import StatsRequest

PATIENCE_S = 2.0


class Place(msgspec.Struct, frozen=True):
    """A link's place in one chain, as the link itself sees it."""

    chain: str
    role: str
    epoch: int
    generation: int
    view: list[str]
    whole: bool
    spaces: int
    connections: int
    versions: int
    """The sum of the versions of its spaces: it rises with every change."""


class Process(msgspec.Struct, frozen=True):
    """One process. A link in several chains has a role in each; `role` is that in the first."""

    role: str
    id: str
    name: str
    pid: int
    address: str
    peer: str = ""
    state: str = "up"
    """up, silent (it runs but does not answer) or down"""
    view: list[str] = []
    epoch: int = 0
    generation: int = 0
    spaces: int = 0
    connections: int = 0
    versions: int = 0
    places: list[Place] = []
    restarts: int = 0


class Chain(msgspec.Struct, frozen=True):
    """One chain, as the register has ordered it."""

    chain: str
    epoch: int
    generation: int
    links: list[str]
    whole: list[str]
    learner: str
    replicas: int

    @property
    def is_whole(self) -> bool:
        return len(self.whole) >= self.replicas and self.whole == self.links


class Status(msgspec.Struct, frozen=True):
    register: str
    processes: list[Process]
    chains: list[Chain]
    app: str = ""
    update: str = ""


async def of_register(address: str) -> Status:
    """Everything that the register at `address` knows of."""
    directory = await register_client.ask(address)
    register = Process("register", "register", "register", 0, address)
    links = await asyncio.gather(*(_of_link(link, link.pid) for link in directory.links.values()))
    return Status(address, [register, *_in_order(links, directory)], _chains(directory))


async def of_cluster(note: ClusterNote) -> Status:
    """Everything that a cluster on this machine consists of; works while its register is down, too."""
    try:
        directory = await register_client.ask(note.register, PATIENCE_S)
    except UsageError:
        directory = Directory(0, {}, {})
    answered = bool(directory.revision)
    processes = [await _of_note(process, directory, answered) for process in note.processes]
    register = [process for process in processes if process.role == "register"]
    links = [process for process in processes if process.role != "register"]
    return Status(note.register, [*register, *_in_order(links, directory)], _chains(directory), note.app, note.update)


async def _of_note(note: ProcessNote, directory: Directory, answered: bool) -> Process:
    if note.kind == "register":
        state = ("up" if answered else "silent") if note.running else "down"
        return Process("register", "register", note.name, note.pid, note.address, state=state, restarts=note.restarts)
    ids = [link for link in directory.links if name_of(link) == note.name]
    address = LinkAddress(max(ids, default=f"{note.name}#0"), note.peer, note.address, note.pid)
    if not note.running:
        return Process(
            "down", address.link, note.name, note.pid, note.address, note.peer, "down", restarts=note.restarts
        )
    return await _of_link(address, note.pid, note.restarts)


async def _of_link(address: LinkAddress, pid: int, restarts: int = 0) -> Process:
    try:
        told = await stats.ask(address.peer, StatsRequest(digests=False), PATIENCE_S)
    except UsageError:
        name = name_of(address.link)
        return Process("silent", address.link, name, pid, address.url, address.peer, "silent", restarts=restarts)
    places = [_place(chain, of_chain) for chain, of_chain in sorted(told["chains"].items())]
    first = next((place for place in places if place.role != "outside"), places[0] if places else None)
    known = (first.view, first.epoch, first.generation) if first else ([], 0, 0)
    return Process(
        first.role if first else "outside", told["link"], name_of(told["link"]), told["pid"], told["url"], told["peer"],
        "up", *known, sum(place.spaces for place in places), told["connections"],
        sum(place.versions for place in places), places, restarts,
    )  # fmt: skip


def _place(chain: str, told: dict[str, Any]) -> Place:
    return Place(
        chain, told["role"], told["epoch"], told["generation"], told["links"], told["whole"], told["spaces"],
        told["connections"], told["versions"],
    )  # fmt: skip


def _in_order(links: Sequence[Process], directory: Directory) -> list[Process]:
    """Head first, as the first chain has them; whoever has no place comes last."""
    order = {link: at for view in reversed(directory.views.values()) for at, link in enumerate(view.links)}
    return sorted(links, key=lambda process: (order.get(process.id, len(order) + 1), process.id))


def _chains(directory: Directory) -> list[Chain]:
    return [
        Chain(view.chain, view.epoch, view.generation, view.links, view.whole, view.learner, view.replicas)
        for view in directory.views.values()
    ]
