"""The faults that befall a simulated cluster, drawn from the seed.

A history has a theme, so that faults which need each other meet. A fault never takes the last whole link of a chain:
without a journal that is a loss that nobody can make good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from octoloom.core.journal import Durability
from octoloom.simulation.device_node import DeviceNode
from octoloom.simulation.link_node import LinkNode

if TYPE_CHECKING:
    from octoloom.simulation.cluster import Cluster

FROM_MS = 400
UNTIL_MS = 3_000


class Faults:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.strike: dict[int, None] = {}
        """Nodes that die between two of their next effects."""

    def strikes(self, node: LinkNode | DeviceNode) -> bool:
        """Does death come between two effects of this node?"""
        if self.strike.pop(id(node), 0) == 0 or not node.alive:
            return not node.alive
        if isinstance(node, LinkNode) and not self._expendable(node):
            return False
        node.crash()
        if isinstance(node, LinkNode):
            self.cluster.on_crash(node)
        else:
            self.world.after(self.world.dice.randrange(100, 800), self._revive, node)
        return True

    def plan(self) -> None:
        """A history has a theme, so that faults which need each other meet, or a bit of everything."""
        dice = self.world.dice
        links = [self._crash_link, self._crash_head, self._strike_link, self._join, self._update, self._drop_device]
        sleep = [self._pause_link, self._pause_head, self._pause_head, self._drop_device]
        network = [
            self._cut,
            self._cut_register,
            self._slow_link,
            self._reset_channel,
            self._crash_register,
            self._die_unheard,
        ]
        devices = [self._crash_device, self._crash_device, self._strike_device, self._drop_device, self._twin]
        if self.cluster.durability is not Durability.NONE:
            links += [self._stop_journal]
        if self.cluster.durability is Durability.JOURNAL:
            links += [self._crash_all]
        crowd = [self._congest, self._reset_channel, self._drop_device, self._cut]
        everything = [*links, *sleep, *network, *devices, *crowd]
        chosen = dice.choice([links, links + devices, sleep + network, devices + sleep, crowd + links, everything])
        if self.cluster.poisonous:
            # Poison and a crash at the same time may end all whole links, and that is nobody's fault but theirs.
            chosen = [*devices, self._congest, self._reset_channel]
        for _ in range(dice.choice([0, 3, 8, 16, 24])):
            self.world.at(dice.randrange(FROM_MS, UNTIL_MS), dice.choice(chosen))

    def _victim(self) -> LinkNode | None:
        """A link that may be lost: every chain keeps another whole one that is alive, awake and within reach."""
        dice = self.world.dice
        candidates = [link for link in self.cluster.links.values() if link.alive and not link.paused]
        if not candidates:
            return None
        victim = dice.choice(candidates)
        return victim if self._expendable(victim) else None

    def _expendable(self, victim: LinkNode) -> bool:
        """Does every chain that may depend on this link keep another one that has everything?

        Once a link of a view has adopted it, its word may be under way and bring the view into force without it. A link
        that the view leaves out may be the last that holds everything, as long as the view is not in force.
        """
        if self.cluster.durability is Durability.JOURNAL:
            return True  # whatever was told is in the journal
        disk = self.cluster.register.disk
        for name, view in disk.views.items() if disk else ():
            adopted = victim.name in view.links and victim.chains[name].epoch >= view.epoch
            decided = view.in_force or adopted
            holders = view.whole if decided else [*view.whole, *view.former]
            others = [self.cluster.links.get(link) for link in holders if link != victim.name]
            needed = victim.name in view.links or victim.name in holders
            if needed and not any(link and link.alive and not link.leaving for link in others):
                return False
        return True

    def _crash_link(self) -> None:
        if (victim := self._victim()) is not None:
            victim.crash()
            self.cluster.on_crash(victim)

    def _crash_all(self) -> None:
        """Every copy in memory is lost at once."""
        self.world.tell("world", "all links die")
        for link in list(self.cluster.links.values()):
            if link.alive:
                link.crash()
                self.cluster.on_crash(link)

    def _stop_journal(self) -> None:
        self.world.tell("journal", "takes nothing for a while")
        self.cluster.journal.down = True
        self.world.after(self.world.dice.choice([100, 800]), self._start_journal)

    def _start_journal(self) -> None:
        self.cluster.journal.down = False

    def _head(self) -> LinkNode | None:
        views = list(self.cluster.register.disk.views.values()) if self.cluster.register.disk else []
        head = self.cluster.links.get(self.world.dice.choice(views).head) if views else None
        return head if head and head.alive and not head.paused and self._expendable(head) else None

    def _crash_head(self) -> None:
        if (head := self._head()) is not None:
            head.crash()
            self.cluster.on_crash(head)

    def _pause_head(self) -> None:
        if (head := self._head()) is not None:
            self._pause(head)

    def _strike_link(self) -> None:
        if (victim := self._victim()) is not None:
            self.strike[id(victim)] = None

    def _pause_link(self) -> None:
        if (victim := self._victim()) is not None:
            self._pause(victim)

    def _pause(self, link: LinkNode) -> None:
        self.world.tell(link.name, "hangs")
        link.paused = True
        self.world.after(self.world.dice.choice([100, 600, 1500, 3000]), self._resume, link)

    def _resume(self, link: LinkNode) -> None:
        if link.alive and link.paused:
            link.resume()

    def _cut(self) -> None:
        dice = self.world.dice
        names = [link.name for link in self.cluster.alive_links()] + [node.name for node in self.cluster.devices]
        if len(names) >= 2:
            self._cut_pair(*dice.sample(names, 2))

    def _cut_register(self) -> None:
        link = self.cluster.any_link()
        if link is not None:
            self._cut_pair(link.name, "register")

    def _cut_pair(self, one: str, other: str) -> None:
        self.world.tell("network", "cut between {} and {}", one, other)
        self.cluster.network.cut(one, other)
        dice = self.world.dice
        self.world.after(dice.choice([200, 900, 2500]), self._heal, one, other, dice.random() < 0.4)

    def _heal(self, one: str, other: str, reset: bool) -> None:
        self.world.tell("network", "healed between {} and {}", one, other)
        self.cluster.network.heal(one, other, reset)

    def _die_unheard(self) -> None:
        """A link dies where the register cannot see it, and another one is out of its sight for a while."""
        victim, other = self._victim(), self.cluster.any_link()
        if victim is not None and other is not None and other is not victim:
            self._cut_pair(victim.name, "register")
            self._cut_pair(other.name, "register")
            victim.crash()
            self.cluster.on_crash(victim)

    def _crash_register(self) -> None:
        if self.cluster.register.alive:
            self.world.tell("register", "dies")
            self.cluster.register.crash()
            self.world.after(self.world.dice.choice([100, 700, 2500]), self._restart_register)

    def _restart_register(self) -> None:
        if not self.cluster.register.alive:
            self.world.tell("register", "comes back")
            self.cluster.register.restart()

    def _slow_link(self) -> None:
        link = self.cluster.any_link()
        if link is not None:
            link.slow = True
            self.world.after(2000, setattr, link, "slow", False)

    def _reset_channel(self) -> None:
        link = self.cluster.any_link()
        channels = self.cluster.network.of(link) if link else []
        if channels:
            self.world.dice.choice(channels).reset()

    def _device(self) -> DeviceNode:
        return self.world.dice.choice(self.cluster.devices)

    def _crash_device(self) -> None:
        node = self._device()
        if node.alive:
            node.crash()
            self.world.after(self.world.dice.choice([1, 20, 300, 1500]), self._revive, node)

    def _twin(self) -> None:
        """The same device connects once more, from a copy of its store: the newer connection wins."""
        node = self._device()
        if node.device and node.alive and len(self.cluster.devices) < 12:
            self.world.tell(node.name, "is there twice")
            self.cluster.devices.append(node.clone())
            self.world.after(1, self.cluster.play, self.cluster.devices[-1], 200)

    def _strike_device(self) -> None:
        self.strike[id(self._device())] = None

    def _revive(self, node: DeviceNode) -> None:
        if not node.alive:
            node.restart(self.world.dice.choice(["kept", "wiped", "older", "older"]))

    def _drop_device(self) -> None:
        self._device().drop_connection()

    def _congest(self) -> None:
        link = self.cluster.any_link()
        if link is not None and link.alive:
            link.congest()

    def _join(self) -> None:
        if len(self.cluster.alive_links()) < self.cluster.replicas + 3:
            self.cluster.start_link(f"l{len(self.cluster.incarnations) + 1}")

    def _update(self) -> None:
        """A rolling update: a new link comes, an old one is asked to go."""
        old = [link for link in self.cluster.alive_links() if not link.paused]
        if len(old) >= 2 and len(old) < self.cluster.replicas + 3:
            self.cluster.start_link(f"l{len(self.cluster.incarnations) + 1}")
            self.world.dice.choice(old).leave()

    def stop(self) -> None:
        self.strike.clear()
        self.world.tell("world", "no more faults")
        self._start_journal()
        for link in self.cluster.links.values():
            self._resume(link)
            link.slow = False
        self._restart_register()
        for one, other in list(self.cluster.network.cuts):
            self._heal(one, other, reset=False)
        for node in self.cluster.devices:
            if not node.alive:
                node.restart("kept")
