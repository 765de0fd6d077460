"""What runs, in which role: the register's directories, and what all others tell of themselves, in one picture."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from octoloom.core.errors import UsageError
from octoloom.core.log_messages import BrokerAddress, LogDirectory, PartitionState
from octoloom.core.register_messages import Directory, LinkAddress
from octoloom.core.roster import name_of
from octoloom.runtime import register_client, stats
from octoloom.runtime.cluster_file import ClusterNote, ProcessNote
from octoloom.runtime.frames import split_address
from octoloom.runtime.log_connection import LogConnection
from octoloom.runtime.log_errors import LogError
from octoloom.wire.stats import StatsRequest

PATIENCE_S = 2.0
KINDS = ("register", "broker", "link")


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
    leaders: int = 0
    """Of a broker: how many partitions it leads,"""
    partitions: int = 0
    """and of how many it keeps a replica."""


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


class Topics(msgspec.Struct, frozen=True):
    """All topics together. `shrunk` partitions have fewer replicas in sync than they have replicas."""

    topics: int = 0
    partitions: int = 0
    leaderless: int = 0
    shrunk: int = 0


class Status(msgspec.Struct, frozen=True):
    register: str
    processes: list[Process]
    chains: list[Chain]
    app: str = ""
    update: str = ""
    topics: Topics | None = None
    """None if the register does not answer."""


async def of_register(address: str) -> Status:
    """Everything that the register at `address` knows of."""
    directory, log = await asyncio.gather(register_client.ask(address), register_client.ask_log(address))
    register = Process("register", "register", "register", 0, address)
    brokers = await asyncio.gather(*(_of_broker(broker, log) for broker in log.brokers.values()))
    links = await asyncio.gather(*(_of_link(link, link.pid) for link in directory.links.values()))
    processes = [register, *_by_name(brokers), *_in_order(links, directory)]
    return Status(address, processes, _chains(directory), topics=_topics(log))


async def of_cluster(note: ClusterNote) -> Status:
    """Everything that a cluster on this machine consists of; works while its register is down, too."""
    try:
        directory, log = await asyncio.gather(
            register_client.ask(note.register, PATIENCE_S), register_client.ask_log(note.register, PATIENCE_S)
        )
    except UsageError:
        directory, log = Directory(0, {}, {}), LogDirectory(0, {}, {}, [])
    answered = bool(directory.revision)
    processes = await asyncio.gather(*(_of_note(process, directory, log, answered) for process in note.processes))
    kinds = [process.kind for process in note.processes]
    of_kind = {kind: [each for each, its in zip(processes, kinds, strict=True) if its == kind] for kind in KINDS}
    in_order = [*of_kind["register"], *_by_name(of_kind["broker"]), *_in_order(of_kind["link"], directory)]
    topics = _topics(log) if answered else None
    return Status(note.register, in_order, _chains(directory), note.app, note.update, topics)


async def _of_note(note: ProcessNote, directory: Directory, log: LogDirectory, answered: bool) -> Process:
    if note.kind == "register":
        state = ("up" if answered else "silent") if note.running else "down"
        return Process("register", "register", note.name, note.pid, note.address, state=state, restarts=note.restarts)
    known: list[str] = [*(log.brokers if note.kind == "broker" else directory.links)]
    its_id = max((each for each in known if name_of(each) == note.name), default=f"{note.name}#0")
    if not note.running:
        return Process("down", its_id, note.name, note.pid, note.address, note.peer, "down", restarts=note.restarts)
    if note.kind == "broker":
        host, port = split_address(note.address)
        return await _of_broker(BrokerAddress(its_id, host, port, "", note.pid), log, note.restarts)
    return await _of_link(LinkAddress(its_id, note.peer, note.address, note.pid), note.pid, note.restarts)


async def _of_broker(address: BrokerAddress, log: LogDirectory, restarts: int = 0) -> Process:
    place, name = f"{address.host}:{address.port}", name_of(address.broker)
    state = "up" if await _answers(place) else "silent"
    role = "broker" if state == "up" else state
    leaders = sum(its.leader == address.broker for _, _, its in log.partitions)
    partitions = sum(name in its.replicas for _, _, its in log.partitions)
    return Process(
        role, address.broker, name, address.pid, place, state=state, restarts=restarts, leaders=leaders,
        partitions=partitions,
    )  # fmt: skip


async def _answers(address: str) -> bool:
    connection = LogConnection(address, "octoloom-status")
    try:
        await connection.open(PATIENCE_S)
    except LogError:
        return False
    finally:
        connection.abort()
    return True


def _topics(log: LogDirectory) -> Topics:
    states = [state for _, _, state in log.partitions]
    leaderless = [state for state in states if state.leader not in log.brokers]
    return Topics(len(log.topics), len(states), len(leaderless), sum(_is_shrunk(state, log) for state in states))


def _is_shrunk(state: PartitionState, log: LogDirectory) -> bool:
    return sum(member in log.brokers for member in state.in_sync) < len(state.replicas)


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


def _by_name(brokers: Sequence[Process]) -> list[Process]:
    return sorted(brokers, key=lambda process: (len(process.name), process.name))


def _in_order(links: Sequence[Process], directory: Directory) -> list[Process]:
    """Head first, as the first chain has them; whoever has no place comes last."""
    order = {link: at for view in reversed(directory.views.values()) for at, link in enumerate(view.links)}
    return sorted(links, key=lambda process: (order.get(process.id, len(order) + 1), process.id))


def _chains(directory: Directory) -> list[Chain]:
    return [
        Chain(view.chain, view.epoch, view.generation, view.links, view.whole, view.learner, view.replicas)
        for view in directory.views.values()
    ]
