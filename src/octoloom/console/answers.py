"""What links, brokers and the register answered, turned into the parts of a picture. Nothing is asked here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from octoloom.console.picture import (
    PARTITIONS_MAX,
    SPACES_MAX,
    STEPS_SUFFIX,
    TOPICS_MAX,
    UP,
    ChainSeen,
    GroupSeen,
    LinkSeen,
    MemberSeen,
    PartitionSeen,
    PlaceSeen,
    SpaceSeen,
    TopicSeen,
)
from octoloom.core.group_messages import GroupView
from octoloom.core.log_messages import LogDirectory, PartitionState, TopicPartition
from octoloom.core.register_messages import Directory
from octoloom.core.roster import name_of

Offsets = Mapping[TopicPartition, int]
Stats = dict[str, Any]
"""What a link tells of itself (`runtime/stats.py`)."""


def link_of(told: Stats, restarts: int = 0) -> LinkSeen:
    """A link that answered."""
    places = [_place(chain, of_chain) for chain, of_chain in sorted(told["chains"].items())]
    name = name_of(told["link"])
    return LinkSeen(
        told["link"], name, UP, told["pid"], told["url"], restarts, told["connections"], told["app"], places
    )


def _place(chain: str, told: Stats) -> PlaceSeen:
    fields = ("role", "epoch", "generation", "whole", "suspended", "spaces", "connections", "versions", "live")
    return PlaceSeen(chain, *(told[field] for field in fields))


def in_order(links: Sequence[LinkSeen], chains: Sequence[ChainSeen]) -> list[LinkSeen]:
    """Head first, as the first chain has them; whoever has no place comes last."""
    order = {link: at for chain in reversed(chains) for at, link in enumerate(chain.links)}
    return sorted(links, key=lambda link: (order.get(link.id, len(order) + 1), len(link.name), link.name))


def chains_of(directory: Directory) -> list[ChainSeen]:
    return [
        ChainSeen(view.chain, view.epoch, view.generation, view.links, view.whole, view.learner, view.replicas)
        for view in directory.views.values()
    ]


def spaces_of(chains: Sequence[ChainSeen], told: Mapping[str, Stats]) -> tuple[list[SpaceSeen], int]:
    """The spaces of each chain, as its first link that answered has them, and how many there are beyond."""
    witnesses: dict[str, list[str]] = {}
    for chain in chains:
        witness = next((link for link in (*chain.links, chain.learner) if link in told), None)
        if witness is not None:
            witnesses.setdefault(witness, []).append(chain.chain)
    spaces = [
        SpaceSeen(each["space"], each["chain"], each["version"], each["devices"], each["present"], each["live"])
        for witness, its in witnesses.items()
        for each in told[witness]["spaces"]
        if each["chain"] in its
    ]
    # A link leaves out spaces without saying of which chain, and links of the same chains leave out the same.
    left_out = max((told[witness]["spaces_left_out"] for witness in witnesses), default=0)
    shown = sorted(spaces, key=lambda space: (-space.version, space.space))[:SPACES_MAX]
    return shown, left_out + len(spaces) - len(shown)


def topics_of(log: LogDirectory, starts: Offsets, highs: Offsets) -> tuple[list[TopicSeen], int]:
    """The topics in the order of their names, and how many there are beyond."""
    parts: dict[str, list[PartitionSeen]] = {}
    for topic, number, state in log.partitions:
        place = topic, number
        parts.setdefault(topic, []).append(_partition(number, state, log, starts.get(place), highs.get(place)))
    shown: list[TopicSeen] = []
    count = 0
    for name, info in sorted(log.topics.items()):
        its = sorted(parts.get(name, []), key=lambda part: part.partition)
        if len(shown) < TOPICS_MAX and count + len(its) <= PARTITIONS_MAX:
            count += len(its)
            shown.append(TopicSeen(name, info.config, its))
    return shown, len(log.topics) - len(shown)


def _partition(
    number: int, state: PartitionState, log: LogDirectory, start: int | None, high: int | None
) -> PartitionSeen:
    leader = name_of(state.leader) if state.leader in log.brokers else ""
    in_sync = sorted(name_of(member) for member in state.in_sync if member in log.brokers)
    return PartitionSeen(number, leader, state.epoch, in_sync, state.replicas, start, high)


def led_by(log: LogDirectory, broker: str) -> dict[TopicPartition, int]:
    """The partitions that this broker leads, with their epochs; not more than are shown."""
    led = [(topic, number, state.epoch) for topic, number, state in log.partitions if state.leader == broker]
    return {(topic, number): epoch for topic, number, epoch in led[:PARTITIONS_MAX]}


def groups_of(views: Sequence[GroupView], log: LogDirectory) -> list[GroupSeen]:
    return [
        GroupSeen(
            view.group,
            view.order,
            view.epoch,
            view.members[0].transport,
            [MemberSeen(each.member, name_of(each.member), each.peer, each.pid) for each in view.members],
            f"{view.group}{STEPS_SUFFIX}" if f"{view.group}{STEPS_SUFFIX}" in log.topics else "",
        )
        for view in sorted(views, key=lambda view: view.group)
        if view.members
    ]
