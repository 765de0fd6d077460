"""A simulated link process: a core for each chain, hosted on the world's clock and network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from octoloom.core import device_messages as say
from octoloom.core import effects as effect
from octoloom.core.chain import Chain
from octoloom.core.placement import place
from octoloom.core.register_messages import Beat, Directory, Enlist, Leave, LinkAddress
from octoloom.simulation.game import ProcessDied
from octoloom.simulation.network import Channel

if TYPE_CHECKING:
    from octoloom.simulation.cluster import Cluster

REDIAL_MS = 40
TRIAL_MS = 10


class LinkNode:
    """One incarnation of a link process, with a core for each chain."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name = name
        self.alive, self.paused, self.slow = True, False, False
        self.chains = {
            chain: Chain(
                chain,
                name,
                cluster.make_app(),
                cluster.limits,
                dice=self.world.dice.getrandbits(32),
                durability=cluster.durability,
            )
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
        self._trials: dict[tuple[str, str], effect.Trial] = {}
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
        self.stir()

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
        self.stir()

    def _open_peer(self, channel: Channel, chain: str) -> None:
        peer = channel.other(self).name
        older = self._peers.pop((chain, peer), None)
        if older is not None:
            older.close(self)
            self._redial_later(chain, older)
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
        self.stir()

    def _close_peer(self, channel: Channel, chain: str) -> None:
        peer = channel.other(self).name
        self._redial_later(chain, channel)
        if self._peers.get((chain, peer)) is channel:
            del self._peers[chain, peer]
            self.chains[chain].on_peer_down(self.world.now, peer)

    def _redial_later(self, chain: str, lost: Channel) -> None:
        if self._dialled.get(chain) is lost:
            self.world.after(REDIAL_MS, self._redial, chain, lost)

    def _redial(self, chain: str, channel: Channel) -> None:
        if self._dialled.get(chain) is channel:
            del self._dialled[chain]
            self.stir()

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
        self.stir()

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
            self.stir()

    # Turns.

    def stir(self) -> None:
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
            for each in effects:
                if self.cluster.faults.strikes(self):
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
        elif isinstance(each, effect.Publish):
            self.cluster.journal.publish(self, chain, each)
        elif isinstance(each, effect.Restore):
            self.cluster.journal.restore(self, chain, each.generation)
        elif isinstance(each, effect.Trial):
            fatal = [event.chain_sequencer for event in each.events if event.name == "poison"]
            self._trials[chain.chain, each.space] = each
            self.world.after(TRIAL_MS, self._on_trial, chain, each, fatal)

    def _on_trial(self, chain: Chain, trial: effect.Trial, fatal: list[int]) -> None:
        """A newer trial of the same space has ended an older one."""
        if self.alive and self._trials.get((chain.chain, trial.space)) is trial:
            chain.on_trial(self.world.now, trial.space, fatal)
            self.stir()

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
            self.stir()
