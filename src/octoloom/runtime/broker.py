"""One process's broker: moves bytes between Kafka clients, other brokers, the register, the logs and the core.

Whatever comes in is told to the core or queued for a log, and one turn at the end of the loop's tick does what follows
from all of it (`broker_turns`). The parts: `broker_sockets` and `broker_connection` (bytes), `broker_produce`,
`broker_fetch`, `broker_offsets`, `broker_metadata`, `broker_producers` (Kafka's APIs), `broker_followers` and
`broker_leaders` (replication), `broker_logs` and `broker_sync` (files), `broker_upkeep` (now and then).

Damage to a log that shows while it is read ends this life of the broker, not the process: the log is cut there, all
connections end, and it enlists anew under another incarnation, saying what was damaged. Clients connect again.

A broken invariant, or a sync that failed, ends the broker (`failed`): a core that is not sure of itself must not speak.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from octoloom.core.broker import Broker, BrokerConfig
from octoloom.core.errors import StoreError, UsageError
from octoloom.core.log_messages import (
    BrokerAddress,
    BrokerToRegister,
    EnlistBroker,
    LogDirectory,
    MakeTopic,
    RegisterToBroker,
)
from octoloom.core.register_messages import Declined, Leave
from octoloom.core.roster import name_of
from octoloom.runtime.broker_admin import BrokerAdmin
from octoloom.runtime.broker_apis import Handlers
from octoloom.runtime.broker_dispatch import Dispatch
from octoloom.runtime.broker_fetch import Fetch
from octoloom.runtime.broker_followers import Followers
from octoloom.runtime.broker_groups import BrokerGroups
from octoloom.runtime.broker_guard import Guard
from octoloom.runtime.broker_identity import Identity
from octoloom.runtime.broker_leaders import Leaders
from octoloom.runtime.broker_logs import Logs
from octoloom.runtime.broker_metadata import Metadata
from octoloom.runtime.broker_news import hear
from octoloom.runtime.broker_offsets import Offsets
from octoloom.runtime.broker_produce import Produce
from octoloom.runtime.broker_producers import ProducerIds
from octoloom.runtime.broker_register import BrokerRegisterClient
from octoloom.runtime.broker_services import Services
from octoloom.runtime.broker_settings import BrokerSettings
from octoloom.runtime.broker_sockets import Sockets
from octoloom.runtime.broker_state import BrokerState
from octoloom.runtime.broker_sync import Syncer
from octoloom.runtime.broker_turns import Turns
from octoloom.runtime.broker_upkeep import Upkeep
from octoloom.runtime.clock import Clock
from octoloom.runtime.frames import split_address
from octoloom.runtime.register_line import FINAL
from octoloom.storage.log_damage import DamagedLog
from octoloom.wire.kafka.apis import REPLICATE, Api

LEAVE_AGAIN_S = 0.5
LOGS = "logs"
FROM_DIRECTORY = (Api.METADATA, Api.DESCRIBE_CONFIGS, Api.DESCRIBE_CLUSTER, Api.FIND_COORDINATOR, Api.ALTER_CONFIGS)
"""What is answered from what the register told about topics, which has to be new."""

_log = logging.getLogger("octoloom.broker")


class BrokerServer:
    def __init__(
        self,
        name: str,
        register_address: str,
        data_dir: str | os.PathLike[str],
        host: str = "127.0.0.1",
        port: int = 0,
        advertise: str = "",
        settings: BrokerSettings | None = None,
    ) -> None:
        """`advertise` is the host, or host:port, that others dial. Without a name the data directory's is used."""
        self.settings = settings or BrokerSettings()
        self.failed: asyncio.Future[None] | None = None
        """Fails with the error that broke this broker."""
        self._name, self._data_dir = name, Path(data_dir)
        split_address(register_address)
        self._register_address = register_address
        self._host, self._port, self._advertise = host, port, advertise
        self._stopped = self._is_closed = False
        self._rebirth: asyncio.Task[None] | None = None

    # Starting and ending.

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.failed = loop.create_future()
        self._identity = Identity(self._data_dir, self._name)
        try:
            await self._open()
        except BaseException:
            self._identity.close()
            raise
        self._register.start()
        self._upkeep.start()
        _log.info("%s listens on %s", self.id, self.address)

    async def _open(self) -> None:
        logs = Logs(str(self._data_dir / LOGS), self.settings.message_bytes_max)
        self._identity.note_damage(logs.open_all())
        self._identity.begin_life()
        self.state = state = BrokerState(self.settings, Clock(), logs, self._new_core())
        self._sockets = Sockets(
            state.soon,
            state.promptly,
            self._on_broken,
            self.settings.connections_max,
            self.settings.request_bytes_max,
        )
        self._syncer = Syncer(lambda synced: self._sure(lambda: self._turns.on_synced(synced)), self._break)
        self._register = self._new_register()
        self._produce, self._fetch, self._offsets = Produce(state), Fetch(state), Offsets(state)
        self._metadata, self._guard = Metadata(state, self._make_topic), Guard(state)
        self._producers = ProducerIds(state, lambda count: self._register.allot(count))
        self.services = Services(state, self._produce, lambda: self.id, lambda: self._register, self._on_damaged)
        self._admin, self._groups = BrokerAdmin(self.services), BrokerGroups(self.services)
        self._followers = Followers(state, self.id)
        self._leaders = Leaders(state, self._sockets, self.id)
        self._turns = Turns(
            state,
            self._sockets,
            self._syncer,
            self._produce,
            self._fetch,
            self._followers,
            self._leaders,
            self._report,
        )
        self._upkeep = Upkeep(state, self._produce, self._turns, self._syncer, self._sure)
        state.take_turn = partial(self._sure, self._turns.take)
        state.may_speak = lambda: state.directory.revision >= 0 and self._register.may_speak()
        try:
            await self._sockets.listen(self._host, self._port, Dispatch(self._handlers()).take)
        except BaseException:
            self._syncer.close()
            logs.close()
            raise

    def _handlers(self) -> Handlers:
        handlers: Handlers = {
            Api.PRODUCE: self._produce.on_produce,
            Api.FETCH: self._fetch.on_fetch,
            Api.LIST_OFFSETS: self._offsets.on_list_offsets,
            Api.OFFSET_FOR_LEADER_EPOCH: self._offsets.on_epoch_end,
            Api.METADATA: self._metadata.on_metadata,
            Api.INIT_PRODUCER_ID: self._producers.on_init,
            REPLICATE: self._followers.on_intro,
            **self._admin.handlers(),
            **self._groups.handlers(),
        }
        return {**handlers, **self._guard.around({api: handlers[api] for api in FROM_DIRECTORY})}

    async def stop(self) -> None:
        """Hangs up on everybody and closes the logs."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._rebirth is not None:
            self._rebirth.cancel()
        self._hang_up()
        await self._register.stop()
        self._syncer.close()
        self.state.logs.close()
        self._identity.close()

    async def leave(self, timeout_ms: int = 5_000) -> bool:
        """Asks the register to let others lead, waits until they do, and stops; False if it took too long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_ms / 1000
        said_at = 0.0
        while self._is_needed() and loop.time() < until:
            if loop.time() - said_at > LEAVE_AGAIN_S:
                said_at = loop.time()
                self._register.say(Leave())
            await asyncio.sleep(0.02)
        gone = not self._is_needed()
        if not gone:
            _log.warning("%s stops while it still leads partitions", self.id)
        await self.stop()
        return gone

    def _is_needed(self) -> bool:
        """Whether this broker leads where somebody else could, now or once it has caught up."""
        alive = [name_of(broker) for broker in self.state.directory.brokers if broker != self.id]
        led = [each for each in self.core.partitions.values() if each.leading is not None]
        return any(replica in alive for partition in led for replica in partition.state.replicas)

    def _hang_up(self) -> None:
        self._stopped = True
        self._upkeep.close()
        self._guard.close()
        self._metadata.close()
        self._producers.close()
        self._admin.close()
        self._groups.close()
        self._turns.close()
        self._leaders.forget(self.id)
        self._sockets.close()

    def _break(self, error: Exception) -> None:
        if self._stopped:
            return
        _log.critical("%s broke: %s", self.id, error, exc_info=error)
        self._hang_up()
        if self.failed is not None and not self.failed.done():
            self.failed.set_exception(error)

    def _sure(self, call: Callable[[], None]) -> None:
        """Around everything that may touch the core or a log outside of a request."""
        if self._stopped:
            return
        try:
            call()
        except Exception as error:
            self._on_broken(error)

    def _on_broken(self, error: Exception) -> None:
        if isinstance(error, DamagedLog):
            self._on_damaged(error)
        else:
            self._break(error)

    # What it says of itself.

    @property
    def core(self) -> Broker:
        return self.state.core

    @property
    def id(self) -> str:
        return self._identity.id

    @property
    def address(self) -> str:
        host, port = self._place()
        return f"{host}:{port}"

    def _place(self) -> tuple[str, int]:
        """What others dial."""
        host, _, port = self._advertise.rpartition(":")
        if host and port.isdigit():
            return host.removeprefix("[").removesuffix("]"), int(port)
        return self._advertise or self._host, self._sockets.port

    # The register.

    def _new_core(self) -> Broker:
        return Broker(BrokerConfig(self.id, lag_ms=self.settings.lag_ms))

    def _new_register(self) -> BrokerRegisterClient:
        return BrokerRegisterClient(self._register_address, self._enlist, self._on_told, self._on_declined)

    def _enlist(self) -> EnlistBroker:
        host, port = self._place()
        address = BrokerAddress(self.id, host, port, self._identity.storage, os.getpid())
        return EnlistBroker(address, max(self.core.revision, 0), self._identity.damaged)

    def _report(self, message: BrokerToRegister) -> None:
        self._register.say(message)

    def _on_declined(self, declined: Declined) -> None:
        _log.warning("the register declines %s: %s (%s)", self.id, declined.detail, declined.code)
        if declined.code in FINAL:
            # Another process goes by this name now. This one can do nothing but mislead.
            self._break(UsageError(f"the register will not have {self.id}: {declined.detail}"))

    def _on_told(self, message: RegisterToBroker) -> None:
        if isinstance(message, LogDirectory):
            self._sure(self._identity.forget_damage)
        self._sure(lambda: hear(self.state, message))

    async def _make_topic(self, topic: str) -> int:
        return (await self._register.request(MakeTopic(0, topic))).error

    # Damage.

    def _on_damaged(self, damage: DamagedLog) -> None:
        """Ends this life: cuts the log, hangs up on everybody, and begins another."""
        if self._stopped:
            return
        _log.error("%s: %s", self.id, damage)
        state, before = self.state, self.id
        log = state.logs.find(damage)
        if log is None or self._rebirth is not None:
            # A log that nobody knows, or damage found by what is left of the old life.
            return
        led = [name for name, partition in self.core.partitions.items() if partition.leading is not None]
        state.logs.forget_replicas()
        state.dirty.clear()
        self._syncer.forget()
        name = state.logs.name_of(log)
        try:
            # Should this process die before the register hears of it, the next one says it.
            self._identity.note_damage([name] if name is not None else [])
            log.truncate(damage.offset)
            self._identity.begin_life()
        except StoreError as error:
            self._break(error)
            return
        state.core = self._new_core()
        self._leaders.forget(self.id)
        self._followers.me = self.id
        self._sockets.hang_up()
        self._produce.forget()
        for listener in state.listeners:
            for each in led:
                listener.on_leadership_lost(each)
        _log.warning("%s goes on as %s", before, self.id)
        self._rebirth = state.loop.create_task(self._enlist_anew())

    async def _enlist_anew(self) -> None:
        await self._register.stop()
        self._register = self._new_register()
        self._register.start()
        self._rebirth = None
