"""The verdict in plain sentences."""

from __future__ import annotations

from octoloom.console.picture import RegisterSeen
from octoloom.console.verdict import TROUBLES_MAX, troubles_of
from tests.console.scenes import LINKS, WHOLE, broker, chain, later, link, partition, topic


def test_what_is_whole_is_not_complained_about() -> None:
    assert troubles_of(WHOLE) == []


def test_what_is_not_is_named_the_worst_first() -> None:
    broken = later(
        register=RegisterSeen("127.0.0.1:7070", "silent"),
        links=[link(1, "down"), link(2, "silent"), link(3)],
        brokers=[broker(1, "down")],
        chains=[chain(LINKS[1:])],
        topics=[topic(partition(0, "", []), partition(1, in_sync=["broker2"]), partition(2, in_sync=[]))],
    )
    assert troubles_of(broken) == [
        "the register at 127.0.0.1:7070 does not answer",
        "link1 is down",
        "link2 does not answer",
        "broker1 is down",
        "chain1 has 2 of 3 links",
        "1 partition has no leader",
        "2 partitions have fewer replicas in sync than they should",
    ]


def test_a_chain_that_learns_and_one_that_is_empty() -> None:
    assert troubles_of(later(chains=[chain(LINKS[1:], learner="link1#2")])) == [
        "chain1 has 2 of 3 links, and one is learning"
    ]
    assert troubles_of(later(chains=[chain(LINKS, whole=LINKS[:2])])) == ["chain1 has 2 of 3 links"]
    assert troubles_of(later(chains=[chain([])])) == ["chain1 has no links"]


def test_a_cluster_that_is_not_there_is_said_instead_of_its_register() -> None:
    gone = later(register=RegisterSeen("", "down"), complaint="no cluster runs in x: start one with `octoloom up`")
    assert troubles_of(gone) == ["no cluster runs in x: start one with `octoloom up`"]


def test_many_troubles_are_cut_and_counted() -> None:
    found = troubles_of(later(links=[link(number, "down") for number in range(30)]))
    assert len(found) == TROUBLES_MAX
    assert found[-1] == "11 more things are not as they should be"
