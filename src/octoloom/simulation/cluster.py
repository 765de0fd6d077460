"""A simulated cluster: a register, links, devices and observers, all drawn from the seed, and what the devices do.

Faults stop in the last part of the history, so that everything can settle.
"""

from __future__ import annotations

from octoloom.core import ring
from octoloom.core.admission import Limits
from octoloom.core.chain import Chain
from octoloom.core.event import Event
from octoloom.core.journal import Durability
from octoloom.core.placement import place
from octoloom.core.register import RegisterConfig
from octoloom.core.register_messages import Directory
from octoloom.core.space import Space, encode_json
from octoloom.simulation.checkers import Checker, WitnessedSpace
from octoloom.simulation.device_node import DeviceNode
from octoloom.simulation.faults import UNTIL_MS, Faults
from octoloom.simulation.game import Game, make_game
from octoloom.simulation.journal_store import JournalStore
from octoloom.simulation.link_node import LinkNode
from octoloom.simulation.network import Network
from octoloom.simulation.register_node import RegisterNode
from octoloom.simulation.world import Broken, World

LOOKS_MS = (3_900, 4_500, 5_500, 7_000, 11_000)

ACTIONS = ("put", "put", "put", "put", "refuse", "wait", "empty", "alarm")


class Cluster:
    def __init__(self, world: World) -> None:
        self.world = world
        dice = world.dice
        self.network = Network(world)
        self.checker = Checker(self)
        self.faults = Faults(self)
        self.chain_names = ["c1"] if dice.random() < 0.7 else ["c1", "c2"]
        self.spaces = ["hall"] if dice.random() < 0.6 else ["hall", "den", "loft"]
        self.replicas = dice.choice([1, 2, 3, 3, 3, 4])
        self.limits = Limits(
            device_pending_max=dice.choice([4, 256]),
            rate_max=dice.choice([20, 2000]),
            leave_grace_ms=dice.choice([300, 2000]),
        )
        self.poisonous = dice.random() < 0.15 and self.replicas >= 3
        self.durability = dice.choice([Durability.NONE, Durability.NONE, Durability.CHAIN, Durability.JOURNAL])
        self.journal = JournalStore(self)
        self.may_reset = self.durability is Durability.JOURNAL
        self.register = RegisterNode(
            self,
            RegisterConfig(self.chain_names, self.replicas, beat_ms=200, lease_ms=700, suspect_ms=400, rejoin_ms=300),
        )
        self.links: dict[str, LinkNode] = {}
        self.incarnations: dict[str, int] = {}
        for number in range(1, self.replicas + dice.choice([1, 1, 2])):
            self.start_link(f"l{number}")
        self.devices: list[DeviceNode] = []
        self.devices = [
            DeviceNode(self, f"d{number}", dice.choice(self.spaces), number) for number in range(dice.choice([1, 2, 3]))
        ]
        self.devices += [
            DeviceNode(self, "", dice.choice(self.spaces), number) for number in range(dice.choice([0, 0, 1, 2]))
        ]
        self._done = 0
        for node in self.devices:
            if node.device:
                self.world.after(dice.randrange(300), self.play, node, dice.choice([120, 250, 600]))

    # What the nodes ask.

    def make_app(self) -> Game:
        return make_game()

    def watch(self, link: LinkNode, chain: Chain) -> None:
        """Have the checker see what this link takes and commits as a head, at the moment that it does."""
        chain.make_space = WitnessedSpace
        door = chain.head.door
        admit, commit = door._admit, chain._commit_at_head

        def watched_admit(space: Space, events: list[Event]) -> None:
            for event in events:
                self.checker.on_admitted(chain, space, event)
            admit(space, events)

        def watched_commit(space: Space) -> None:
            before = space.committed
            commit(space)
            if space.committed > before:
                self.checker.on_committed(link, chain, space)

        door._admit = watched_admit
        chain._commit_at_head = watched_commit  # type: ignore[method-assign]

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

    def live_numbers(self, device: str, space: str) -> dict[int, int]:
        """The device's numbers that are live at the head: at rest, those of deferred events."""
        chain = place(space, self.chain_names)
        head = self.links[self.register.core.directory().views[chain].head].chains[chain]
        return head.spaces[space].device(device).live if space in head.spaces else {}

    def wipes_before(self, name: str, action: int) -> int:
        """How often a device had lost its store when it did this."""
        return sum(wiped < action for node in self.devices if node.name == name for wiped in node.wiped_after)

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
        number = self.incarnations[name] = self.incarnations.get(name, 0) + 1
        link = f"{name}#{number}"
        self.links = {old: node for old, node in self.links.items() if node.alive or number < 3}
        self.links[link] = LinkNode(self, link)

    # What devices do.

    def play(self, node: DeviceNode, pause_ms: int) -> None:
        dice = self.world.dice
        if self.world.now < UNTIL_MS + 500:
            self.world.after(1 + int(dice.random() * 2 * pause_ms), self.play, node, pause_ms)
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
        if name == "put":
            name = {2: "hush", 4: "snooze"}.get(self._done % 7, name)
        token = f"{node.name}.{self._done}"
        payload = {"token": token}
        if name == "wait":
            payload["until"] = dice.randrange(1, 40)  # type: ignore[assignment]
            payload["refused"] = self._done % 4 == 0  # type: ignore[assignment]
        elif name == "alarm":
            payload["ms"] = dice.randrange(10, 1500)  # type: ignore[assignment]
        if node.act(name, encode_json(payload), token):
            self.world.tell(node.name, "does {} ({})", token, name)


def simulate(seed: int, transcript: list[str] | None = None) -> World:
    """Play one history; raises `Broken` if a promise is broken."""
    world = World(seed, transcript)
    ring_max = ring.CHANGES_MAX
    ring.CHANGES_MAX = world.dice.choice([2, 8, 1024])
    WitnessedSpace.handed_on.clear()
    WitnessedSpace.consumed.clear()
    try:
        cluster = Cluster(world)
        cluster.faults.plan()
        world.run(UNTIL_MS)
        cluster.faults.stop()
        _settle(world, cluster)
    finally:
        ring.CHANGES_MAX = ring_max
    return world


def _settle(world: World, cluster: Cluster) -> None:
    """Run until everything is at rest; only what has not come to rest by the end breaks a promise."""
    for look_ms in LOOKS_MS:
        world.run(look_ms)
        try:
            cluster.checker.at_rest()
        except Broken:
            if look_ms == LOOKS_MS[-1]:
                raise
        else:
            return
