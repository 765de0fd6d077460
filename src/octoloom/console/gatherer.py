"""Asks everybody for what a picture shows.

First the register is asked, then, all at once, the links, the brokers and, less often, the coordinators of consumer
groups. Each of the two rounds takes `PATIENCE_S` at most, whoever hangs. What the register said last is remembered:
links and brokers can be asked without it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from octoloom.console.answers import Stats, chains_of, groups_of, in_order, link_of, spaces_of, topics_of
from octoloom.console.log_look import LogLook
from octoloom.console.picture import (
    DOWN,
    GROUPS_MAX,
    SILENT,
    UP,
    BrokerSeen,
    LinkSeen,
    Picture,
    RegisterSeen,
    processes_of,
)
from octoloom.console.verdict import troubles_of
from octoloom.core.errors import OctoloomError, UsageError
from octoloom.core.group_messages import GroupList
from octoloom.core.log_messages import BrokerAddress, LogDirectory
from octoloom.core.register_messages import Directory, LinkAddress
from octoloom.core.roster import name_of
from octoloom.runtime import cluster_file, register_client, stats
from octoloom.runtime.cluster_file import ClusterNote, ProcessNote
from octoloom.runtime.frames import split_address
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import LogError
from octoloom.wire.stats import StatsRequest

T = TypeVar("T")

PATIENCE_S = 1.0
AT_ONCE_MAX = 32
"""How many links and brokers are asked at the same time. Those who hang make the others wait for their turn."""


class Gatherer:
    """Makes pictures of the cluster in a data directory, or around a register. Name one of them."""

    def __init__(self, data: Path | None = None, register: str | None = None, patience_s: float = PATIENCE_S) -> None:
        if (data is None) == (register is None):
            raise UsageError("name either a data directory or a register to look at")
        if register is not None:
            split_address(register)
        self._data, self._register = data, register
        self._patience_s = patience_s
        self._number = 0
        self._look = LogLook(patience_s)
        # What was heard last.
        self._note: ClusterNote | None = None
        self._directory = Directory(0, {}, {})
        self._log = LogDirectory(0, {}, {}, [])
        self._groups = GroupList([])
        self._told_ms = 0

    async def close(self) -> None:
        """Hangs up on the brokers. The next picture calls them again."""
        await self._look.close()

    @property
    def log(self) -> LogDirectory:
        """The topics, as the register told of them last."""
        return self._log

    async def client(self) -> LogClient:
        """A client of the brokers, for who wants to read. Do not close it."""
        known = [f"{each.host}:{each.port}" for each in self._log.brokers.values()]
        noted = [note.address for note in (self._note.processes if self._note else []) if note.kind == "broker"]
        return await self._look.client(self.address, [*known, *noted])

    @property
    def address(self) -> str:
        """The register's; empty if nobody knows it."""
        return self._register or (self._note.register if self._note is not None else "")

    async def picture(self) -> Picture:
        """What is there right now. It does not raise because something is not there."""
        begun = time.monotonic()
        complaint = self._read_note()
        answered = bool(self.address) and await self.ask_register()
        notes = self._note.processes if self._note is not None else []
        try:
            async with asyncio.timeout(2 * self._patience_s):
                asked, brokers = await asyncio.gather(self._ask_links(notes), self._ask_brokers(notes))
        except TimeoutError:
            asked = [(_link(address, note), None) for address, note in self._links(notes)]
            brokers = [_broker(address, note) for address, note in self._brokers(notes)]
        self._number += 1
        register = self._register_seen(notes, answered)
        told = {link.id: its for link, its in asked if its}
        picture = self._draw(register, [link for link, _ in asked], brokers, told)
        processes = processes_of(picture)
        picture = msgspec.structs.replace(
            picture,
            at_ms=time.time_ns() // 1_000_000,
            took_ms=round((time.monotonic() - begun) * 1000),
            complaint=complaint,
            up=sum(process.state == UP for process in processes),
            processes=len(processes),
        )
        return msgspec.structs.replace(picture, troubles=troubles_of(picture))

    def _draw(
        self, register: RegisterSeen, links: list[LinkSeen], brokers: list[BrokerSeen], told: dict[str, Stats]
    ) -> Picture:
        """All that was heard, put together."""
        chains = chains_of(self._directory)
        spaces, spaces_left_out = spaces_of(chains, told)
        topics, topics_left_out = topics_of(self._log, self._look.starts, self._look.highs)
        groups = groups_of(self._groups.views, self._log)
        apps = [self._note.app] if self._note is not None else [link.app for link in links if link.app]
        return Picture(
            number=self._number,
            at_ms=0,
            took_ms=0,
            register=register,
            app=apps[0] if apps else "",
            update=self._note.update if self._note is not None else "",
            links=in_order(links, chains),
            brokers=sorted(brokers, key=lambda broker: (len(broker.name), broker.name)),
            chains=chains,
            spaces=spaces,
            spaces_left_out=spaces_left_out,
            topics=topics,
            topics_left_out=topics_left_out,
            consumers=self._look.consumers.groups,
            consumers_ms=self._look.consumers.at_ms,
            consumers_left_out=self._look.consumers.left_out,
            groups=groups[:GROUPS_MAX],
            groups_left_out=max(len(groups) - GROUPS_MAX, 0),
        )

    # Whom to ask.

    def _read_note(self) -> str:
        """Reads what the cluster has written about itself. Answers what is wrong with that, if anything."""
        if self._data is None:
            return ""
        try:
            self._note = cluster_file.read(self._data)
        except UsageError as error:
            return str(error)
        return ""

    def _register_seen(self, notes: list[ProcessNote], answered: bool) -> RegisterSeen:
        note = next((note for note in notes if note.kind == "register"), None)
        runs = note.running if note is not None else self._register is not None
        state = UP if answered else SILENT if runs else DOWN
        pid, restarts = (note.pid, note.restarts) if note is not None else (0, 0)
        return RegisterSeen(self.address, state, pid, restarts, self._told_ms)

    def _links(self, notes: list[ProcessNote]) -> list[tuple[LinkAddress, ProcessNote | None]]:
        """Those that the cluster has started, and whoever else came to the register."""
        noted = {note.name: note for note in notes if note.kind == "link"}
        newest = {name_of(link): address for link, address in sorted(self._directory.links.items())}
        found: list[tuple[LinkAddress, ProcessNote | None]] = []
        for name, note in noted.items():
            its_id = newest[name].link if name in newest else f"{name}#0"
            found.append((LinkAddress(its_id, note.peer, note.address, note.pid), note))
        return found + [(address, None) for name, address in newest.items() if name not in noted]

    def _brokers(self, notes: list[ProcessNote]) -> list[tuple[BrokerAddress, ProcessNote | None]]:
        noted = {note.name: note for note in notes if note.kind == "broker" and note.address}
        newest = {name_of(broker): address for broker, address in sorted(self._log.brokers.items())}
        found: list[tuple[BrokerAddress, ProcessNote | None]] = []
        for name, note in noted.items():
            its_id = newest[name].broker if name in newest else f"{name}#0"
            found.append((BrokerAddress(its_id, *split_address(note.address), "", note.pid), note))
        return found + [(address, None) for name, address in newest.items() if name not in noted]

    # Questions.

    async def ask_register(self) -> bool:
        """Hears what the register has to say. False if it does not answer; then what it said last stays."""
        try:
            self._directory, self._log, self._groups = await asyncio.gather(
                register_client.ask(self.address, self._patience_s),
                register_client.ask_log(self.address, self._patience_s),
                register_client.ask_groups(self.address, self._patience_s),
            )
        except OctoloomError:
            return False
        self._told_ms = time.time_ns() // 1_000_000
        return True

    async def _ask_links(self, notes: list[ProcessNote]) -> list[tuple[LinkSeen, Stats | None]]:
        return await _few_at_once(self._ask_link(*link) for link in self._links(notes))

    async def _ask_link(self, address: LinkAddress, note: ProcessNote | None) -> tuple[LinkSeen, Stats | None]:
        seen = _link(address, note)
        if seen.state != DOWN and address.peer:
            try:
                told = await stats.ask(address.peer, StatsRequest(digests=False), self._patience_s)
                return link_of(told, seen.restarts), told
            except UsageError:
                pass
        return seen, None

    async def _ask_brokers(self, notes: list[ProcessNote]) -> list[BrokerSeen]:
        wanted = self._brokers(notes)
        self._look.begin(self._log)
        try:
            client = await self.client()
        except LogError:
            return []
        consumers = self._look.ask_consumers(client) if wanted else asyncio.sleep(0)
        asked = _few_at_once(self._look.broker(client, *broker, self._log) for broker in wanted)
        brokers, _ = await asyncio.gather(asked, consumers)
        return brokers


async def _few_at_once(questions: Iterable[Coroutine[object, object, T]]) -> list[T]:
    gate = asyncio.Semaphore(AT_ONCE_MAX)

    async def ask(question: Coroutine[object, object, T]) -> T:
        async with gate:
            return await question

    return await asyncio.gather(*(ask(question) for question in questions))


def _link(address: LinkAddress, note: ProcessNote | None) -> LinkSeen:
    """A link of which nothing was heard."""
    state = SILENT if note is None or note.running else DOWN
    restarts = note.restarts if note is not None else 0
    return LinkSeen(address.link, name_of(address.link), state, address.pid, address.url, restarts)


def _broker(address: BrokerAddress, note: ProcessNote | None) -> BrokerSeen:
    state = SILENT if note is None or note.running else DOWN
    restarts = note.restarts if note is not None else 0
    where = f"{address.host}:{address.port}"
    return BrokerSeen(address.broker, name_of(address.broker), state, address.pid, where, restarts)
