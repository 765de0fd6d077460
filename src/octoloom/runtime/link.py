"""One process's link: moves bytes between devices, neighbours, the register and the cores, one core per chain.

Whatever comes in marks its chain, and one turn at the end of the loop's tick flushes all that are marked: every input
of a tick is one batch.

A broken invariant ends the link (`failed`): a core that is not sure of itself must not speak.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from typing import Any

from octoloom.core import device_messages as say
from octoloom.core.admission import Limits
from octoloom.core.app import App
from octoloom.core.chain import Chain
from octoloom.core.errors import UsageError
from octoloom.core.event import SpaceSnapshot
from octoloom.core.journal import Durability
from octoloom.core.link_messages import LinkMessage
from octoloom.core.pace import next_batch_max
from octoloom.core.placement import place
from octoloom.core.register_messages import Declined, Directory, Enlist, Leave, LinkAddress, ToRegister
from octoloom.runtime import stats
from octoloom.runtime.clock import Clock
from octoloom.runtime.doors import CONNECTIONS_MAX, Doors
from octoloom.runtime.journal import FLUSH_S, Journal, Journaled
from octoloom.runtime.outbox import Outbox
from octoloom.runtime.peers import Peers
from octoloom.runtime.register_client import RegisterClient
from octoloom.runtime.sure import Sure
from octoloom.runtime.trial import Trials
from octoloom.runtime.turns import Turns
from octoloom.wire.journal import TOPIC
from octoloom.wire.stats import StatsRequest, encode_answer

RETRY_MS = 100

_log = logging.getLogger("octoloom.link")

PARTING_MS = 500
"""How long a link that leaves waits for its devices to hear where to go."""
AT_REGISTER = "register"
"""In place of the brokers' addresses: ask the register, which knows them."""


class LinkServer:
    def __init__(
        self,
        name: str,
        register_address: str,
        app: App,
        host: str = "127.0.0.1",
        device_port: int = 0,
        peer_port: int = 0,
        limits: Limits | None = None,
        connections_max: int = CONNECTIONS_MAX,
        token: str = "",
        advertise: str = "",
        journal: str = "",
        durability: Durability = Durability.CHAIN,
        journal_topic: str = TOPIC,
        trials: Trials | None = None,
    ) -> None:
        """`token` is what the links of one chain show each other; `advertise` is the host that others dial.

        `journal` are the addresses of the brokers that keep it, or "register"; without any there is none.
        `trials` finds the events that would end this process; without it they do.
        """
        if durability is Durability.JOURNAL and not journal:
            raise UsageError("durability 'journal' needs a journal: say with --journal where its brokers are")
        self.clock = Clock()
        self.id = f"{name}#{self.clock.started_ms}"
        self.app = app
        self.chains: dict[str, Chain] = {}
        self.directory: Directory | None = None
        self.doors = Doors(self, connections_max)
        self.peers = Peers(self.id, self, token)
        self.failed: asyncio.Future[None] | None = None
        """Fails with the error that broke this link."""
        self._register_address = register_address
        self._host, self._device_port, self._peer_port = host, device_port, peer_port
        self._advertise = advertise or host
        self._limits = limits or Limits()
        self._register: RegisterClient | None = None
        self._homes: dict[int, Chain] = {}
        """The chain that each connection belongs to since it was first let in."""
        self._drained: dict[int, None] = {}
        self._turns = Turns(self.chains, self.clock, self._turn)
        self._durability = durability if journal else Durability.NONE
        self._journal: Journal | None = None
        if self._durability is not Durability.NONE:
            brokers = register_address if journal == AT_REGISTER else journal
            self._journal = self._open_journal(brokers, journal_topic)
        self._outbox = Outbox(app, self.doors, self.peers, self._report, self._on_judged, self._journal, trials)
        self._digests = stats.Digests()
        self._news = asyncio.Event()
        self._stopped = False
        self._sure = Sure(self._break)

    @property
    def url(self) -> str:
        return f"ws://{self._advertise}:{self.doors.port}"

    @property
    def peer_address(self) -> str:
        return f"{self._advertise}:{self.peers.port}"

    # Starting and ending.

    async def start(self) -> None:
        self.failed = asyncio.get_running_loop().create_future()
        await self.doors.open(self._host, self._device_port)
        try:
            await self.peers.open(self._host, self._peer_port)
        except BaseException:
            self.doors.close()
            raise
        self._register = RegisterClient(self._register_address, self._on_directory, self._enlist, self._on_declined)
        self._register.start()
        _log.info("%s listens for devices on %s and for links on %s", self.id, self.url, self.peer_address)

    async def stop(self) -> None:
        """Hangs up on everybody, as the end of the process would."""
        self._hang_up()
        if self._register is not None:
            await self._register.stop()
        await self._outbox.close()
        if self._journal is not None:
            await self._journal.flush(FLUSH_S)
            await self._journal.close()

    async def leave(self, timeout_ms: int = 5_000) -> bool:
        """Asks the register to do without this link, waits until it does, and stops; False if it took too long."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self._in_some_view():
                    self._news.clear()
                    if self._register is not None:
                        self._register.say(Leave())
                    await self._news.wait()
        except TimeoutError:
            _log.warning("%s stops while it still has a place in a chain", self.id)
        gone = not self._in_some_view()
        if gone:
            await self._part()
        await self.stop()
        return gone

    async def _part(self) -> None:
        """Let everybody hear where to go before the connections end."""
        for chain in self.chains.values():
            self._flush(chain)
        waited_ms = 0
        while len(self.doors) and waited_ms < PARTING_MS:
            await asyncio.sleep(0.01)
            waited_ms += 10

    def _in_some_view(self) -> bool:
        views = self.directory.views.values() if self.directory is not None else ()
        return any(self.id in view.links or self.id == view.learner for view in views)

    def _hang_up(self) -> None:
        self._stopped = True
        self._turns.close()
        self.doors.close()
        self.peers.close()

    def _break(self, error: Exception) -> None:
        _log.critical("%s broke: %s", self.id, error, exc_info=error)
        self._hang_up()
        if self.failed is not None and not self.failed.done():
            self.failed.set_exception(error)

    # The register.

    def _enlist(self) -> Enlist:
        """Called for each new connection to the register: what it may have missed is said again behind this."""
        now = self.clock.now()
        for chain in self.chains.values():
            chain.on_register_up(now)
            self._turns.mark(chain)
        address = LinkAddress(self.id, self.peer_address, self.url, os.getpid(), self.app.name)
        return Enlist(address, {name: chain.epoch for name, chain in self.chains.items() if chain.place.is_member})

    def _on_declined(self, declined: Declined) -> None:
        _log.warning("the register declines %s: %s (%s)", self.id, declined.detail, declined.code)

    def _on_directory(self, directory: Directory) -> None:
        if self._stopped:
            return
        with self._sure:
            self.directory = directory
            for name, view in directory.views.items():
                chain = self.chains.get(name)
                if chain is None:
                    dice = int.from_bytes(os.urandom(8), "big")
                    chain = Chain(name, self.id, self.app, self._limits, dice, self._durability)
                    self.chains[name] = chain
                before = chain.epoch
                chain.on_directory(self.clock.now(), directory)
                self._turns.mark(chain)
                self.peers.call(name, chain.place.upper)
                if chain.epoch != before:
                    role = stats.role_of(chain)
                    _log.info("%s is %s of %s in epoch %d: %s", self.id, role, name, view.epoch, " ".join(view.links))
        self._news.set()

    # Neighbours.

    def on_peer_up(self, chain: str, peer: str) -> None:
        core = self.chains[chain]
        core.on_peer_up(self.clock.now(), peer)
        self._turns.mark(core)

    def on_peer_down(self, chain: str, peer: str) -> None:
        if self._stopped:
            return
        core = self.chains[chain]
        with self._sure:
            # What was meant for the connection that is gone must not go out on the next one.
            self._flush(core)
            core.on_peer_down(self.clock.now(), peer)
        self._turns.mark(core)

    def on_peer_messages(self, chain: str, peer: str, messages: list[LinkMessage]) -> None:
        core, now = self.chains[chain], self.clock.now()
        with self._sure:
            for message in messages:
                core.on_message(now, peer, message)
        self._turns.mark(core)

    def address_of(self, peer: str) -> str:
        address = self.directory.links.get(peer) if self.directory is not None else None
        return "" if address is None else address.peer

    def hosts(self, chain: str) -> bool:
        return chain in self.chains

    # Devices.

    def on_device_message(self, connection: int, message: say.FromDevice) -> None:
        chain = self._homes.get(connection)
        if isinstance(message, say.Ping):
            self.doors.tell(connection, say.Pong())
            return
        if isinstance(message, say.Send):
            if chain is None:
                self.doors.refuse(connection, "bootstrap-first", "send a bootstrap before events")
                return
        else:
            chain = self._home(connection, message.space)
            if chain is None:
                return
        with self._sure:
            chain.service.on_message(self.clock.now(), connection, message)
        # Only a link below can start on a part of the tick; without one, parts would only be told one by one.
        self._turns.mark(chain, len(message.events) if isinstance(message, say.Send) and chain.place.lower else 0)

    def _home(self, connection: int, space: str) -> Chain | None:
        """The chain that serves a space; None if the connection was sent away instead."""
        if not self.chains or self.directory is None:
            self.doors.tell(connection, say.Redirect("", RETRY_MS), close=True)
            return None
        chain = self.chains[place(space, sorted(self.directory.views))]
        if self._homes.setdefault(connection, chain) is not chain:
            self.doors.refuse(connection, "other-space", "a connection stays with one space: open another one")
            return None
        return chain

    def on_device_closed(self, connection: int) -> None:
        self._drained.pop(connection, None)
        chain = self._homes.pop(connection, None)
        if chain is not None and not self._stopped:
            with self._sure:
                chain.service.on_closed(self.clock.now(), connection)
            self._turns.mark(chain)

    def on_device_congested(self, connection: int) -> None:
        self._drained.pop(connection, None)
        if connection in self._homes:
            self._homes[connection].service.on_congested(connection)

    def on_device_drained(self, connection: int) -> None:
        if connection in self._homes:
            self._drained[connection] = None
            self._turns.mark(self._homes[connection])

    # Turns.

    def _turn(self, chains: list[Chain]) -> None:
        with self._sure:
            for chain in chains:
                self._flush(chain)
            self._catch_up()

    def _catch_up(self) -> None:
        """Those who have room again, once the turn's changes are told to the others."""
        drained, self._drained = self._drained, {}
        for connection in drained:
            chain = self._homes.get(connection)
            if chain is not None:
                chain.service.on_drained(connection)
                self._turns.mark(chain)

    def _flush(self, chain: Chain) -> None:
        start_ns = time.perf_counter_ns()
        effects = chain.flush(self.clock.now())
        if chain.place.is_tail:
            took_us = (time.perf_counter_ns() - start_ns) // 1000
            chain.tail.batch_max = next_batch_max(chain.tail.batch_max, took_us)
        took_us = self._outbox.obey(chain, effects)
        chain.pace.spent(self.clock.now(), took_us)

    def _report(self, message: ToRegister) -> None:
        if self._register is not None:
            self._register.say(message)

    def _on_judged(self, chain: Chain, space: str, fatal: list[int]) -> None:
        with self._sure:
            chain.on_trial(self.clock.now(), space, fatal)
        self._turns.mark(chain)

    # The journal.

    def _open_journal(self, brokers: str, topic: str) -> Journal:
        return Journal(
            brokers,
            self._on_journaled,
            self._on_restored,
            self._break,
            topic=topic,
            client_id=self.id,
            chain_names=lambda: sorted(self.directory.views) if self.directory is not None else (),
            now_ms=self.clock.now,
        )

    def _on_journaled(self, told: list[Journaled]) -> None:
        if self._stopped:
            return
        now = self.clock.now()
        with self._sure:
            for name, space, generation, version in told:
                chain = self.chains[name]
                chain.on_journaled(now, space, generation, version)
                self._turns.mark(chain)

    def _on_restored(self, name: str, generation: int, snapshots: list[SpaceSnapshot]) -> None:
        if self._stopped:
            return
        chain = self.chains[name]
        with self._sure:
            chain.on_restored(self.clock.now(), generation, snapshots)
        self._turns.mark(chain)

    # Telling of itself.

    def counters(self) -> Counter[str]:
        """All faults of others, by code."""
        total = self.doors.counters + self.peers.counters
        for chain in self.chains.values():
            total += chain.service.refused
        return total

    def stats(self, digests: bool = True) -> dict[str, Any]:
        return stats.of_link(self, self._digests if digests else None)

    def answer(self, request: StatsRequest) -> bytes:
        return encode_answer(stats.answer(self, request, self._digests))
