"""The simulated processes: a core each, hosted on the world's clock and network instead of sockets and disks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from octoloom.core import device_effects as device_effect
from octoloom.core import device_messages as say
from octoloom.core import effects as effect
from octoloom.core import register as register_core
from octoloom.core.chain import Chain
from octoloom.core.device import DeviceCore, Phase
from octoloom.core.placement import place
from octoloom.core.register_messages import (
    Beat,
    Directory,
    Enlist,
    Leave,
    LinkAddress,
    Ready,
    Suspect,
    ToRegister,
    Whole,
)
from octoloom.simulation.disk import Disk
from octoloom.simulation.game import ProcessDied
from octoloom.simulation.network import Channel

if TYPE_CHECKING:
    from octoloom.simulation.cluster import Cluster

REDIAL_MS = 40
TRIAL_MS = 10


class RegisterNode:
    """The register on its disk: a crash loses everything but what it had persisted."""

    name = "register"

    def __init__(self, cluster: Cluster, config: register_core.RegisterConfig) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.config = config
        self.alive, self.paused, self.slow = True, False, False
        self.disk: Directory | None = None
        self.core = register_core.Register(config, None, self.world.now)
        self._channels: dict[str, Channel] = {}
        self._timer = 0

    def crash(self) -> None:
        self.alive = False
        self.cluster.network.crash(self)
        self._channels.clear()

    def restart(self) -> None:
        self.alive = True
        self.core = register_core.Register(self.config, self.disk, self.world.now)
        self._arm()

    def on_open(self, channel: Channel) -> None:
        pass

    def on_close(self, channel: Channel) -> None:
        for link, mine in list(self._channels.items()):
            if mine is channel:
                del self._channels[link]
                self._obey(self.core.on_closed(self.world.now, link))

    def on_data(self, channel: Channel, message: ToRegister) -> None:
        link, now = channel.other(self).name, self.world.now
        if isinstance(message, Enlist):
            self._channels[link] = channel
            self._obey(self.core.on_enlist(now, link, message))
        elif isinstance(message, Beat):
            self._obey(self.core.on_beat(now, link))
        elif isinstance(message, Ready):
            self._obey(self.core.on_ready(now, link, message))
        elif isinstance(message, Whole):
            self._obey(self.core.on_whole(now, link, message))
        elif isinstance(message, Suspect):
            self._obey(self.core.on_suspect(now, link, message))
        elif isinstance(message, Leave):
            self._obey(self.core.on_leave(now, link))

    def _obey(self, effects: list[register_core.Effect]) -> None:
        for each in effects:
            if isinstance(each, register_core.Persist):
                self.disk = each.directory
                self.cluster.on_view(each.directory)
            elif isinstance(each, register_core.Announce):
                for channel in list(self._channels.values()):
                    channel.send(self, each.directory)
            elif isinstance(each, register_core.Tell):
                self._channels[each.link].send(self, each.directory)
            elif each.ends and each.link in self._channels:
                self._channels.pop(each.link).close(self)
        self._arm()

    def _arm(self) -> None:
        deadline = self.core.deadline()
        if deadline is not None and deadline != self._timer:
            self._timer = deadline
            self.world.at(deadline, self._on_time, deadline)

    def _on_time(self, deadline: int) -> None:
        if self.alive and not self.paused and deadline == self._timer:
            self._timer = 0
            self._obey(self.core.on_time(self.world.now))


class LinkNode:
    """One incarnation of a link process, with a core for each chain."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name = name
        self.alive, self.paused, self.slow = True, False, False
        self.chains = {
            chain: Chain(chain, name, cluster.make_app(), cluster.limits, dice=self.world.dice.getrandbits(32))
            for chain in cluster.chain_names
        }
        for chain in self.chains.values():
            cluster.watch(self, chain)
        self.directory: Directory | None = None
        self.leaving = False
        self._register: Channel | None = None
        self._peers: dict[tuple[str, str], Channel] = {}
        self._dialled: dict[str, Channel] = {}
        self._devices: dict[int, tuple[Channel, str]] = {}
        self._turn_due = False
        self._timers: dict[str, int] = {}
        self._dial_register()

    # Life and death.

    def crash(self) -> None:
        self.world.tell(self.name, "dies")
        self.alive = False
        self.cluster.network.crash(self)

    def resume(self) -> None:
        self.paused = False
        self.world.tell(self.name, "goes on")
        self.cluster.network.release()
        self._stir()

    def leave(self) -> None:
        self.leaving = True
        if self._register is not None:
            self._register.send(self, Leave())

    # The register.

    def _dial_register(self) -> None:
        if self.alive:
            self._register = self.cluster.network.dial(self, self.cluster.register, "register")

    def _beat(self, channel: Channel) -> None:
        if self.alive and channel is self._register:
            if not self.paused:
                channel.send(self, Beat())
            self.world.after(self.cluster.register.config.beat_ms, self._beat, channel)

    # Connections.

    def on_open(self, channel: Channel) -> None:
        if channel.purpose == "register":
            member_of = {name: chain.epoch for name, chain in self.chains.items() if chain.place.is_member}
            channel.send(self, Enlist(LinkAddress(self.name, self.name, self.name), member_of))
            if self.leaving:
                channel.send(self, Leave())
            for chain in self.chains.values():
                chain.on_register_up(self.world.now)
            self.world.after(self.cluster.register.config.beat_ms, self._beat, channel)
        elif channel.purpose.startswith("peer "):
            self._open_peer(channel, channel.purpose[5:])
        self._stir()

    def _open_peer(self, channel: Channel, chain: str) -> None:
        peer = channel.other(self).name
        older = self._peers.pop((chain, peer), None)
        if older is not None:
            older.close(self)
            self.chains[chain].on_peer_down(self.world.now, peer)
        self._peers[chain, peer] = channel
        self.chains[chain].on_peer_up(self.world.now, peer)

    def on_close(self, channel: Channel) -> None:
        if channel is self._register:
            self._register = None
            self.world.after(REDIAL_MS, self._dial_register)
        elif channel.purpose.startswith("peer "):
            self._close_peer(channel, channel.purpose[5:])
        elif channel.number in self._devices:
            _, chain = self._devices.pop(channel.number)
            self.chains[chain].service.on_closed(self.world.now, channel.number)
        self._stir()

    def _close_peer(self, channel: Channel, chain: str) -> None:
        peer = channel.other(self).name
        if self._dialled.get(chain) is channel:
            self.world.after(REDIAL_MS, self._redial, chain, channel)
        if self._peers.get((chain, peer)) is channel:
            del self._peers[chain, peer]
            self.chains[chain].on_peer_down(self.world.now, peer)

    def _redial(self, chain: str, channel: Channel) -> None:
        if self._dialled.get(chain) is channel:
            del self._dialled[chain]
            self._stir()

    def _keep_dialled(self, chain: Chain) -> None:
        """Keep one connection to the upper neighbour, whoever that is."""
        mine = self._dialled.get(chain.chain)
        if mine is not None and mine.ends[1].name != chain.place.upper:
            del self._dialled[chain.chain]
            mine.close(self)
            self._close_peer(mine, chain.chain)
            mine = None
        if mine is None and chain.place.upper:
            called = self.cluster.links.get(chain.place.upper)
            channel = self.cluster.network.dial(self, called, f"peer {chain.chain}")
            if channel is not None:
                self._dialled[chain.chain] = channel

    # Input.

    def on_data(self, channel: Channel, message: Any) -> None:
        if isinstance(message, Directory):
            if self.directory is None or message.revision >= self.directory.revision:
                self.directory = message
                for chain in self.chains.values():
                    chain.on_directory(self.world.now, message)
        elif channel.purpose.startswith("peer "):
            chain = self.chains[channel.purpose[5:]]
            peer = channel.other(self).name
            if self._peers.get((chain.chain, peer)) is channel:
                chain.on_message(self.world.now, peer, message)
        else:
            self._on_device(channel, message)
        self._stir()

    def _on_device(self, channel: Channel, message: say.FromDevice) -> None:
        if isinstance(message, (say.Bootstrap, say.Observe)):
            chain = place(message.space, self.cluster.chain_names)
            self._devices[channel.number] = (channel, chain)
        known = self._devices.get(channel.number)
        if known is not None:
            self.chains[known[1]].service.on_message(self.world.now, channel.number, message)

    def congest(self) -> None:
        """Some watchers cannot keep up for a while."""
        for number, (_, chain) in list(self._devices.items()):
            if self.world.dice.random() < 0.5:
                self.chains[chain].service.on_congested(number)
                self.world.after(self.world.dice.randrange(50, 400), self._drain, number, chain)

    def _drain(self, number: int, chain: str) -> None:
        if self.alive and number in self._devices:
            self.chains[chain].service.on_drained(number)
            self._stir()

    # Turns.

    def _stir(self) -> None:
        """Something came in: end the turn soon, perhaps with more of it in the same batch."""
        if not self._turn_due:
            self._turn_due = True
            self.world.after(0 if self.world.dice.random() < 0.7 else self.world.dice.randrange(3), self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        if not self.alive or self.paused:
            return
        for chain in self.chains.values():
            try:
                effects = chain.flush(self.world.now)
            except ProcessDied:
                self.crash()
                self.cluster.on_crash(self)
                return
            self._keep_dialled(chain)
            self.cluster.after_turn(self, chain)
            for each in effects:
                if self.cluster.strikes(self):
                    return  # it died with the rest of its effects unsent
                self._obey(chain, each)
            self._arm(chain)

    def _obey(self, chain: Chain, each: effect.Effect) -> None:
        if isinstance(each, effect.ToPeer):
            channel = self._peers.get((chain.chain, each.peer))
            if channel is not None:
                channel.send(self, each.message)
        elif isinstance(each, effect.Tell):
            self._tell(each.connection, each.message, each.close)
        elif isinstance(each, effect.Fan):
            self._fan(each)
        elif isinstance(each, effect.Report):
            if self._register is not None:
                self._register.send(self, each.message)
        elif isinstance(each, effect.Trial):
            fatal = [event.chain_sequencer for event in each.events if event.name == "poison"]
            self.world.after(TRIAL_MS, self._on_trial, chain, each.space, fatal)

    def _on_trial(self, chain: Chain, space: str, fatal: list[int]) -> None:
        if self.alive:
            chain.on_trial(self.world.now, space, fatal)
            self._stir()

    def _tell(self, connection: int, message: say.ToDevice, close: bool) -> None:
        known = self._devices.get(connection)
        if known is not None:
            known[0].send(self, message)
            if close:
                known[0].close(self)
                del self._devices[connection]
                self.chains[known[1]].service.on_closed(self.world.now, connection)

    def _fan(self, fan: effect.Fan) -> None:
        state = msgspec.UNSET if fan.state is None else msgspec.Raw(fan.state)
        patches = [msgspec.Raw(patch) for patch in fan.patches]
        for connection in fan.connections:
            message = say.Changed(fan.since, fan.version, state, patches, fan.kills.get(connection, []))
            self._tell(connection, message, close=False)

    def _arm(self, chain: Chain) -> None:
        deadline = chain.deadline()
        if deadline is None:
            return
        deadline = max(deadline, self.world.now + 1)
        planned = self._timers.get(chain.chain, 0)
        if planned <= self.world.now or deadline < planned:
            self._timers[chain.chain] = deadline
            self.world.at(deadline, self._on_time)

    def _on_time(self) -> None:
        if self.alive and not self.paused:
            self._stir()


class DeviceNode:
    """One device, or an observer if it has no name, over all its lives."""

    def __init__(self, cluster: Cluster, device: str, space: str, number: int, store: Disk | None = None) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.device = device
        self.space = space
        self.name = (device or f"observer{number}") + "'" * cluster.twins_of(device)
        self.alive, self.paused, self.slow = True, False, False
        self.store = store or Disk()
        self.backups: list[Disk] = []
        self.life = 0
        self.rolled_back = store is not None
        """An older copy of its store was used: what it did is settled once, but no longer in the order it was done."""
        self.actions: dict[int, str] = {}
        """Ticket → token, of this life."""
        self._channel: Channel | None = None
        self._target = ""
        self._timer = 0
        self._start()

    def _start(self) -> None:
        self.alive = True
        self.life += 1
        self.actions = {}
        self.core = DeviceCore(self.space, self.device, saved=self.store.load())
        self._target = ""
        self._dial(self.life)

    def crash(self) -> None:
        self.world.tell(self.name, "dies")
        self.alive = False
        self.cluster.network.crash(self)
        self._channel = None

    def restart(self, how: str) -> None:
        """Come back with the store, without it, or with an older copy of it."""
        if how == "wiped":
            self.store = Disk()
        elif how == "older" and self.backups:
            self.store = self.world.dice.choice(self.backups).copy()
            self.rolled_back = True
        self.world.tell(self.name, "comes back, store: {}", how)
        self._start()

    def clone(self) -> DeviceNode:
        """The same device a second time, with a copy of the store as it is now, or as it was."""
        source = self.world.dice.choice([self.store, *self.backups])
        self.rolled_back = True
        return DeviceNode(self.cluster, self.device, self.space, 0, source.without_queue())

    def drop_connection(self) -> None:
        if self._channel is not None:
            self._channel.reset()

    def act(self, name: str, payload: bytes, token: str) -> bool:
        """Do something, unless the device is dead or full."""
        if not self.alive or self.core.phase is Phase.STOPPED:
            return False
        try:
            ticket, effects = self.core.act(name, payload)
        except device_effect.Full:
            return False
        self.actions[ticket] = token
        self._obey(effects)
        return True

    # The network.

    def _dial(self, life: int) -> None:
        if not self.alive or life != self.life or self._channel is not None or self.core.phase is Phase.STOPPED:
            return
        link = self.cluster.links.get(self._target) or self.cluster.any_link()
        self._target = ""
        self._channel = self.cluster.network.dial(self, link, "device")

    def _redial(self) -> None:
        self.world.after(self.world.dice.randrange(10, 120), self._dial, self.life)

    def on_open(self, channel: Channel) -> None:
        if channel is self._channel:
            self._obey(self.core.on_connected(self.world.now))
        else:
            channel.close(self)

    def on_data(self, channel: Channel, message: say.ToDevice) -> None:
        if channel is self._channel:
            self._obey(self.core.on_message(self.world.now, message))

    def on_close(self, channel: Channel) -> None:
        if channel is self._channel:
            self._channel = None
            self._obey(self.core.on_disconnected(self.world.now))
            self._redial()

    def _hang_up(self) -> None:
        if self._channel is not None:
            self._channel.close(self)
            self._channel = None
        self._redial()

    def _obey(self, effects: list[device_effect.Effect]) -> None:
        handlers: dict[type, Callable[[Any], None]] = {
            device_effect.Persist: self._persist,
            device_effect.Send: self._send,
            device_effect.Settled: lambda each: self.cluster.checker.on_settled(self, each),
            device_effect.Advanced: lambda _: self.cluster.checker.on_advanced(self),
            device_effect.Reset: lambda each: self.cluster.checker.on_reset(self, each.generation),
            device_effect.Dial: self._dial_elsewhere,
            device_effect.Hangup: lambda _: self._hang_up(),
            device_effect.Stopped: lambda each: self.cluster.checker.on_stopped(self, each),
        }
        for each in effects:
            if self.cluster.strikes(self):
                return
            handlers[type(each)](each)
        self._arm()

    def _persist(self, persist: device_effect.Persist) -> None:
        self.store.commit(persist)
        if self.device and self.world.dice.random() < 0.1:
            self.backups.append(self.store.copy())

    def _send(self, send: device_effect.Send) -> None:
        if self._channel is not None:
            self._channel.send(self, send.message)

    def _dial_elsewhere(self, dial: device_effect.Dial) -> None:
        if self._channel is not None:
            self._channel.close(self)
            self._channel = None
        self._target = dial.url
        self.world.after(1, self._dial, self.life)

    def _arm(self) -> None:
        deadline = self.core.deadline()
        if deadline is not None and (self._timer <= self.world.now or deadline < self._timer):
            self._timer = max(deadline, self.world.now + 1)
            self.world.at(self._timer, self._on_time, self.life)

    def _on_time(self, life: int) -> None:
        if self.alive and life == self.life:
            self._obey(self.core.on_time(self.world.now))
