"""A simulated cluster: a register, links, devices and observers, and the faults that befall them.

Everything is drawn from the seed: how many of each, how fast the devices act, and which faults come when. Faults stop
in the last part of the history, so that everything can settle. A fault never takes the last whole link of a chain,
since without a journal that is a loss that nobody can make good; `may_reset` says where that is tried on purpose.
"""

from __future__ import annotations

from octoloom.core import ring
from octoloom.core.admission import Limits
from octoloom.core.chain import Chain
from octoloom.core.event import Event
from octoloom.core.placement import place
from octoloom.core.register import RegisterConfig
from octoloom.core.register_messages import Directory
from octoloom.core.space import Space, encode_json
from octoloom.simulation.checkers import Checker, WitnessedSpace
from octoloom.simulation.game import Game, make_game
from octoloom.simulation.network import Network
from octoloom.simulation.nodes import DeviceNode, LinkNode, RegisterNode
from octoloom.simulation.world import World

FAULTS_FROM_MS = 400
FAULTS_UNTIL_MS = 4_000
END_MS = 12_000

ACTIONS = ("put", "put", "put", "put", "refuse", "wait", "empty", "alarm")


class Cluster:
    def __init__(self, world: World) -> None:
        self.world = world
        dice = world.dice
        self.network = Network(world)
        self.checker = Checker(self)
        self.may_reset = False
        self.chain_names = ["c1"] if dice.random() < 0.7 else ["c1", "c2"]
        self.spaces = ["hall"] if dice.random() < 0.6 else ["hall", "den", "loft"]
        self.replicas = dice.choice([1, 2, 3, 3, 3, 4])
        self.limits = Limits(
            device_pending_max=dice.choice([4, 256]),
            rate_max=dice.choice([20, 2000]),
            leave_grace_ms=dice.choice([300, 2000]),
        )
        self.poisonous = dice.random() < 0.15 and self.replicas >= 3
        self.register = RegisterNode(
            self,
            RegisterConfig(self.chain_names, self.replicas, beat_ms=250, lease_ms=1000, suspect_ms=400, rejoin_ms=300),
        )
        self.links: dict[str, LinkNode] = {}
        self._incarnations: dict[str, int] = {}
        self._strike: dict[int, float] = {}
        for number in range(1, self.replicas + dice.choice([1, 1, 2])):
            self.start_link(f"l{number}")
        self.devices: list[DeviceNode] = []
        self.devices = [
            DeviceNode(self, f"d{number}", dice.choice(self.spaces), number) for number in range(dice.choice([1, 2, 4]))
        ]
        self.devices += [
            DeviceNode(self, "", dice.choice(self.spaces), number) for number in range(dice.choice([0, 2]))
        ]
        self._done = 0
        for node in self.devices:
            if node.device:
                self.world.after(dice.randrange(300), self._play, node, dice.choice([60, 150, 400]))

    # What the nodes ask.

    def make_app(self) -> Game:
        return make_game()

    def watch(self, link: LinkNode, chain: Chain) -> None:
        """Have the checker see each event that this link takes as a head."""
        chain.make_space = WitnessedSpace
        door = chain.head.door
        admit = door._admit

        def watched(space: Space, event: Event) -> None:
            self.checker.on_admitted(chain, space, event)
            admit(space, event)

        door._admit = watched

    def after_turn(self, link: LinkNode, chain: Chain) -> None:
        if chain.place.is_head and chain.whole:
            for space in chain.spaces.values():
                self.checker.on_committed(link, chain, space)

    def strikes(self, node: LinkNode | DeviceNode) -> bool:
        """Does death come between two effects of this node?"""
        if self._strike.pop(id(node), None) is None or not node.alive:
            return not node.alive
        if isinstance(node, LinkNode) and not self._expendable(node):
            return False
        node.crash()
        if isinstance(node, LinkNode):
            self.on_crash(node)
        else:
            self.world.after(self.world.dice.randrange(100, 800), self._revive, node)
        return True

    def on_crash(self, node: LinkNode) -> None:
        self.world.after(self.world.dice.randrange(100, 1500), self.start_link, node.name.split("#")[0])

    def on_view(self, directory: Directory) -> None:
        for name, view in directory.views.items():
            self.world.tell(
                "register",
                "{} epoch {}: {} whole {} learner {}",
                name,
                view.epoch,
                view.links,
                view.whole,
                view.learner,
            )

    def twins_of(self, device: str) -> int:
        return sum(node.device == device for node in self.devices) if device else 0

    def rolled_back(self, name: str) -> bool:
        return any(node.rolled_back for node in self.devices if node.name == name)

    def any_link(self) -> LinkNode | None:
        links = list(self.links.values())
        return self.world.dice.choice(links) if links else None

    def generation_of(self, space: str) -> int:
        return self.register.core.directory().views[place(space, self.chain_names)].generation

    def alive_links(self) -> list[LinkNode]:
        return [link for link in self.links.values() if link.alive and not link.leaving]

    def start_link(self, name: str) -> None:
        number = self._incarnations[name] = self._incarnations.get(name, 0) + 1
        link = f"{name}#{number}"
        self.links = {old: node for old, node in self.links.items() if node.alive or number < 3}
        self.links[link] = LinkNode(self, link)

    # What devices do.

    def _play(self, node: DeviceNode, pause_ms: int) -> None:
        dice = self.world.dice
        if self.world.now < FAULTS_UNTIL_MS + 500:
            self.world.after(1 + int(dice.random() * 2 * pause_ms), self._play, node, pause_ms)
            for _ in range(dice.choice([1, 1, 1, 3])):
                self._act(node)
        else:
            # A last action of everyone moves on what was deferred.
            for _ in range(6):
                self._act(node, "put")

    def _act(self, node: DeviceNode, name: str = "") -> None:
        dice = self.world.dice
        name = name or dice.choice(ACTIONS)
        if name == "wait" and self.limits.device_pending_max < 10:
            name = "put"  # a few that wait would fill the device's bound, and nothing could ever move them on
        if self.poisonous and dice.random() < 0.01:
            name = "poison"
        self._done += 1
        token = f"{node.name}.{self._done}"
        payload = {"token": token}
        if name == "wait":
            payload["until"] = dice.randrange(1, 40)  # type: ignore[assignment]
        elif name == "alarm":
            payload["ms"] = dice.randrange(10, 1500)  # type: ignore[assignment]
        node.act(name, encode_json(payload), token)

    # Faults.

    def plan_faults(self) -> None:
        """A history has a theme, so that faults which need each other meet, or a bit of everything."""
        dice = self.world.dice
        links = [self._crash_link, self._crash_head, self._strike_link, self._join, self._update, self._drop_device]
        sleep = [self._pause_link, self._pause_head, self._pause_head, self._drop_device]
        network = [self._cut, self._cut_register, self._slow_link, self._reset_channel, self._crash_register]
        devices = [self._crash_device, self._crash_device, self._strike_device, self._drop_device, self._twin]
        crowd = [self._congest, self._reset_channel, self._drop_device, self._cut]
        everything = [*links, *sleep, *network, *devices, *crowd]
        chosen = dice.choice([links, links + devices, sleep + network, devices + sleep, crowd + links, everything])
        if self.poisonous:
            # Poison and a crash at the same time may end all whole links, and that is nobody's fault but theirs.
            chosen = [*devices, self._congest, self._reset_channel]
        for _ in range(dice.choice([0, 3, 8, 16, 24])):
            self.world.at(dice.randrange(FAULTS_FROM_MS, FAULTS_UNTIL_MS), dice.choice(chosen))

    def _victim(self) -> LinkNode | None:
        """A link that may be lost: every chain keeps another whole one that is alive, awake and within reach."""
        dice = self.world.dice
        candidates = [link for link in self.links.values() if link.alive and not link.paused]
        if not candidates:
            return None
        victim = dice.choice(candidates)
        return victim if self._expendable(victim) else None

    def _expendable(self, victim: LinkNode) -> bool:
        for view in (self.register.disk.views if self.register.disk else {}).values():
            others = [self.links.get(link) for link in view.whole if link != victim.name]
            if victim.name in view.links and not any(link and link.alive and not link.leaving for link in others):
                return False
        return True

    def _crash_link(self) -> None:
        if (victim := self._victim()) is not None:
            victim.crash()
            self.on_crash(victim)

    def _head(self) -> LinkNode | None:
        views = list(self.register.disk.views.values()) if self.register.disk else []
        head = self.links.get(self.world.dice.choice(views).head) if views else None
        return head if head and head.alive and not head.paused and self._expendable(head) else None

    def _crash_head(self) -> None:
        if (head := self._head()) is not None:
            head.crash()
            self.on_crash(head)

    def _pause_head(self) -> None:
        if (head := self._head()) is not None:
            self._pause(head)

    def _strike_link(self) -> None:
        if (victim := self._victim()) is not None:
            self._strike[id(victim)] = 1.0

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
        names = [link.name for link in self.alive_links()] + [node.name for node in self.devices]
        if len(names) >= 2:
            self._cut_pair(*dice.sample(names, 2))

    def _cut_register(self) -> None:
        link = self.any_link()
        if link is not None:
            self._cut_pair(link.name, "register")

    def _cut_pair(self, one: str, other: str) -> None:
        self.world.tell("network", "cut between {} and {}", one, other)
        self.network.cut(one, other)
        dice = self.world.dice
        self.world.after(dice.choice([200, 900, 2500]), self._heal, one, other, dice.random() < 0.4)

    def _heal(self, one: str, other: str, reset: bool) -> None:
        self.world.tell("network", "healed between {} and {}", one, other)
        self.network.heal(one, other, reset)

    def _crash_register(self) -> None:
        if self.register.alive:
            self.world.tell("register", "dies")
            self.register.crash()
            self.world.after(self.world.dice.choice([100, 700, 2500]), self._restart_register)

    def _restart_register(self) -> None:
        self.world.tell("register", "comes back")
        self.register.restart()

    def _slow_link(self) -> None:
        link = self.any_link()
        if link is not None:
            link.slow = True
            self.world.after(2000, setattr, link, "slow", False)

    def _reset_channel(self) -> None:
        link = self.any_link()
        channels = self.network.of(link) if link else []
        if channels:
            self.world.dice.choice(channels).reset()

    def _device(self) -> DeviceNode:
        return self.world.dice.choice(self.devices)

    def _crash_device(self) -> None:
        node = self._device()
        if node.alive:
            node.crash()
            self.world.after(self.world.dice.choice([1, 20, 300, 1500]), self._revive, node)

    def _twin(self) -> None:
        """The same device connects once more, from a copy of its store: the newer connection wins."""
        node = self._device()
        if node.device and node.alive and len(self.devices) < 12:
            self.world.tell(node.name, "is there twice")
            self.devices.append(node.clone())
            self.world.after(1, self._play, self.devices[-1], 200)

    def _strike_device(self) -> None:
        self._strike[id(self._device())] = 1.0

    def _revive(self, node: DeviceNode) -> None:
        if not node.alive:
            node.restart(self.world.dice.choice(["kept", "wiped", "older", "older"]))

    def _drop_device(self) -> None:
        self._device().drop_connection()

    def _congest(self) -> None:
        link = self.any_link()
        if link is not None and link.alive:
            link.congest()

    def _join(self) -> None:
        if len(self.alive_links()) < self.replicas + 3:
            self.start_link(f"l{len(self._incarnations) + 1}")

    def _update(self) -> None:
        """A rolling update: a new link comes, an old one is asked to go."""
        old = [link for link in self.alive_links() if not link.paused]
        if len(old) >= 2 and len(old) < self.replicas + 3:
            self.start_link(f"l{len(self._incarnations) + 1}")
            self.world.dice.choice(old).leave()

    def stop_faults(self) -> None:
        self._strike.clear()
        self.world.tell("world", "no more faults")
        for link in self.links.values():
            self._resume(link)
            link.slow = False
        if not self.register.alive:
            self.register.restart()
        for one, other in list(self.network.cuts):
            self._heal(one, other, reset=False)
        for node in self.devices:
            if not node.alive:
                node.restart("kept")


def simulate(seed: int, transcript: list[str] | None = None) -> World:
    """Play one history; raises `Broken` if a promise is broken."""
    world = World(seed, transcript)
    ring_max = ring.CHANGES_MAX
    ring.CHANGES_MAX = world.dice.choice([2, 8, 1024])
    WitnessedSpace.handed_on.clear()
    WitnessedSpace.consumed.clear()
    try:
        cluster = Cluster(world)
        cluster.plan_faults()
        world.run(FAULTS_UNTIL_MS)
        cluster.stop_faults()
        world.run(END_MS)
        cluster.checker.at_rest()
    finally:
        ring.CHANGES_MAX = ring_max
    return world
