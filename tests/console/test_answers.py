"""Answers turned into parts of a picture: whom to believe, what is left out."""

from __future__ import annotations

from typing import Any

from octoloom.console import answers
from octoloom.console.answers import chains_of, groups_of, in_order, led_by, link_of, spaces_of, topics_of
from octoloom.console.picture import ChainSeen, SpaceSeen
from octoloom.core.group_messages import GroupView, MemberAddress
from octoloom.core.log_messages import BrokerAddress, LogDirectory, PartitionState, TopicInfo
from octoloom.core.register_messages import Directory, View
from tests.console.scenes import chain, link


def space(name: str, version: int, chain: str = "chain1") -> dict[str, Any]:
    return {"chain": chain, "space": name, "version": version, "devices": 3, "present": 2, "live": 1}


def stats(link: str, spaces: list[dict[str, Any]], left_out: int = 0) -> dict[str, Any]:
    place = dict.fromkeys(("epoch", "generation", "spaces", "connections", "versions", "live"), 1)
    return {
        "link": link, "pid": 7, "url": "ws://127.0.0.1:1", "connections": 4, "app": "arena",
        "chains": {"chain1": {**place, "role": "head", "whole": True, "suspended": False}},
        "spaces": spaces, "spaces_left_out": left_out,
    }  # fmt: skip


def test_a_space_is_as_the_first_link_of_its_chain_that_answers_has_it() -> None:
    told = {"link1#1": stats("link1#1", [space("hall", 9)]), "link2#1": stats("link2#1", [space("hall", 7)])}
    assert spaces_of([chain()], told) == ([SpaceSeen("hall", "chain1", 9, 3, 2, 1)], 0)
    del told["link1#1"]
    assert spaces_of([chain()], told) == ([SpaceSeen("hall", "chain1", 7, 3, 2, 1)], 0)
    assert spaces_of([chain()], {}) == ([], 0)


def test_each_chain_has_its_own_witness() -> None:
    chains = [ChainSeen("a", 1, 1, ["x#1", "y#1"], []), ChainSeen("b", 1, 1, ["y#1", "x#1"], [])]
    both = [space("left", 1, "a"), space("right", 2, "b")]
    told = {"x#1": stats("x#1", both), "y#1": stats("y#1", [space("left", 0, "a"), space("right", 3, "b")])}
    assert [(each.space, each.version) for each in spaces_of(chains, told)[0]] == [("right", 3), ("left", 1)]


def test_spaces_are_bounded_and_those_left_out_counted(monkeypatch: Any) -> None:
    monkeypatch.setattr(answers, "SPACES_MAX", 2)
    told = {"link1#1": stats("link1#1", [space(str(number), number) for number in range(5)], left_out=10)}
    shown, left_out = spaces_of([chain()], told)
    assert [each.space for each in shown] == ["4", "3"]
    assert left_out == 13


def test_a_link_tells_its_places() -> None:
    seen = link_of(stats("link1#1", []), restarts=2)
    assert (seen.name, seen.state, seen.restarts, seen.connections, seen.app) == ("link1", "up", 2, 4, "arena")
    assert [(place.chain, place.role, place.whole, place.live) for place in seen.places] == [
        ("chain1", "head", True, 1)
    ]


def test_links_stand_as_in_their_chain() -> None:
    order = [chain(["link2#1", "link3#1"])]
    assert [each.name for each in in_order([link(1), link(2), link(3)], order)] == ["link2", "link3", "link1"]


def test_chains_are_what_the_register_ordered() -> None:
    view = View("chain1", 4, 1, ["a#1", "b#1"], ["a#1"], "c#1", 3)
    [seen] = chains_of(Directory(1, {}, {"chain1": view}))
    assert (seen.links, seen.whole, seen.learner, seen.replicas) == (["a#1", "b#1"], ["a#1"], "c#1", 3)
    assert not seen.is_whole


def log() -> LogDirectory:
    brokers = {"b1#2": BrokerAddress("b1#2", "127.0.0.1", 1, "x"), "b2#1": BrokerAddress("b2#1", "127.0.0.1", 2, "y")}
    states = [
        ("moves", 1, PartitionState("b1#1", 3, ["b1#1", "b2#1"], ["b1", "b2"])),
        ("moves", 0, PartitionState("b2#1", 4, ["b2#1", "b1#2"], ["b1", "b2"])),
        ("lunch-steps", 0, PartitionState("b2#1", 1, ["b2#1"], ["b2"])),
    ]
    names = ("moves", "lunch-steps")
    return LogDirectory(5, brokers, {name: TopicInfo(name, 1, {"a": "b"}) for name in names}, states)


def test_a_dead_incarnation_neither_leads_nor_is_in_sync() -> None:
    topics, left_out = topics_of(log(), {("moves", 0): 2}, {("moves", 0): 9})
    assert [topic.name for topic in topics] == ["lunch-steps", "moves"]
    zero, one = topics[1].partitions
    assert (zero.leader, zero.in_sync, zero.start, zero.high) == ("b2", ["b1", "b2"], 2, 9)
    assert (one.leader, one.in_sync, one.start, one.high) == ("", ["b2"], None, None)
    assert left_out == 0
    assert led_by(log(), "b2#1") == {("moves", 0): 4, ("lunch-steps", 0): 1}


def test_a_topic_that_is_too_large_is_left_out_and_not_the_others(monkeypatch: Any) -> None:
    monkeypatch.setattr(answers, "PARTITIONS_MAX", 1)
    topics, left_out = topics_of(log(), {}, {})
    assert ([topic.name for topic in topics], left_out) == (["lunch-steps"], 1)


def test_a_group_knows_its_steps_and_an_empty_one_is_none() -> None:
    members = [MemberAddress("ada#1", "127.0.0.1:1", "udp", 7), MemberAddress("bob#2", "127.0.0.1:2", "udp", 8)]
    views = [GroupView("tea", 9, "total", members), GroupView("lunch", 8, "causal", members), GroupView("x", 1, "", [])]
    lunch, tea = groups_of(views, log())
    assert (lunch.group, lunch.transport, lunch.steps, tea.steps) == ("lunch", "udp", "lunch-steps", "")
    assert [member.name for member in lunch.members] == ["ada", "bob"]
