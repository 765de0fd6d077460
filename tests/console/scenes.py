"""Pictures for tests: a cluster of three links and three brokers, whole, and what can become of it."""

from __future__ import annotations

from typing import Any

import msgspec

from octoloom.console.picture import (
    BrokerSeen,
    ChainSeen,
    GroupSeen,
    LinkSeen,
    MemberSeen,
    PartitionSeen,
    Picture,
    RegisterSeen,
    TopicSeen,
)

LINKS = ["link1#1", "link2#1", "link3#1"]
BROKERS = ["broker1", "broker2", "broker3"]


def chain(links: list[str] | None = None, **fields: Any) -> ChainSeen:
    order = LINKS if links is None else links
    known: dict[str, Any] = {"epoch": 3, "generation": 1, "whole": order, "replicas": 3}
    return ChainSeen("chain1", links=order, **{**known, **fields})


def partition(number: int, leader: str = "broker1", in_sync: list[str] | None = None) -> PartitionSeen:
    return PartitionSeen(number, leader, 1, BROKERS if in_sync is None else in_sync, BROKERS, 0, 10)


def topic(*partitions: PartitionSeen, name: str = "journal") -> TopicSeen:
    return TopicSeen(name, {}, list(partitions))


def group(members: list[str], epoch: int = 5, order: str = "causal") -> GroupSeen:
    seen = [MemberSeen(each, each.split("#")[0], "127.0.0.1:1", 7) for each in members]
    return GroupSeen("lunch", order, epoch, "tcp", seen)


def link(number: int, state: str = "up", pid: int = 0) -> LinkSeen:
    return LinkSeen(f"link{number}#1", f"link{number}", state, pid or 100 + number, f"ws://127.0.0.1:{number}")


def broker(number: int, state: str = "up") -> BrokerSeen:
    return BrokerSeen(f"broker{number}#1", f"broker{number}", state, 200 + number, f"127.0.0.1:{number}")


WHOLE = Picture(
    number=1,
    at_ms=1_000,
    took_ms=5,
    register=RegisterSeen("127.0.0.1:7070", "up", 99, 0, 1_000),
    links=[link(1), link(2), link(3)],
    brokers=[broker(1), broker(2), broker(3)],
    chains=[chain()],
    topics=[topic(partition(0), partition(1), partition(2))],
    groups=[group(["ada#1", "bob#1"])],
)


def later(picture: Picture = WHOLE, told: bool = True, **fields: Any) -> Picture:
    """The picture of a second later, in which something is different."""
    at_ms = picture.at_ms + 1_000
    register = fields.pop("register", picture.register)
    if told:
        register = msgspec.structs.replace(register, told_ms=at_ms)
    return msgspec.structs.replace(picture, number=picture.number + 1, at_ms=at_ms, register=register, **fields)
