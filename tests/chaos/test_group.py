"""Ordered groups on real processes: coordinators are killed, hung and cut off while everybody sends.

Each member writes down what it is handed. Who lived must have all, in one order, with changes of the group in the same
places; who died or was expelled a piece of that (`runtime/group_proof.py`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from octoloom.runtime.causal_proof import causal_doubts
from octoloom.runtime.group_lives import Life, longest_pause_ms
from octoloom.runtime.group_proof import one_order_doubts, unsure_doubts
from octoloom.runtime.group_speaker import now_ms
from tests.chaos import netns
from tests.chaos.group_cluster import GroupCluster, Member
from tests.chaos.netns import Net

BETWEEN = 200
"""So many messages come between two faults."""


@contextmanager
def cluster(folder: Path, net: Net | None = None, **speaking: object) -> Iterator[GroupCluster]:
    made = GroupCluster(folder, {"order": "total", "pause_ms": 40, **speaking}, net)
    try:
        yield made
    finally:
        made.stop()


Fault = Callable[[GroupCluster], None]


def kill_and_return(cluster: GroupCluster) -> None:
    """It comes back under its name, as somebody new."""
    victim = cluster.coordinator
    kill(cluster, victim, cluster.loaded(victim.name))


def kill_and_replace(cluster: GroupCluster) -> None:
    """Somebody else comes."""
    kill(cluster, cluster.coordinator, cluster.loaded(f"n{len(cluster.members)}"))


def kill(cluster: GroupCluster, victim: Member, newcomer: Member) -> None:
    cluster.begin_fault("kill", BETWEEN)
    cluster.kill(victim)
    cluster.admit(newcomer)


def hang(cluster: GroupCluster) -> None:
    """The others go on without it; when it wakes up it finds out, and comes back as somebody new."""
    victim = cluster.coordinator
    newcomer = cluster.loaded(victim.name)
    cluster.begin_fault("hang", BETWEEN)
    victim.process.send_signal(signal.SIGSTOP)
    cluster.until_expelled(victim)
    victim.process.send_signal(signal.SIGCONT)
    cluster.until_gone(victim)
    cluster.admit(newcomer)


def cut_from_others(cluster: GroupCluster) -> None:
    """The coordinator reaches the register, and nobody of the group: the others complain of it."""
    victim = cluster.coordinator
    cut_off(cluster, victim, [member.name for member in cluster.alive() if member is not victim])


def cut_from_register(cluster: GroupCluster) -> None:
    """The others still hear from the coordinator, and do not heed it any more."""
    cut_off(cluster, cluster.coordinator, ["register"])


def cut_in_two_places(cluster: GroupCluster) -> None:
    """The coordinator and the next do not reach each other. The younger has to go."""
    first, second = cluster.alive()[:2]
    cut_off(cluster, second, [first.name])


def kill_unheard(cluster: GroupCluster) -> None:
    """The coordinator dies when the next has long not heard it: what the others have must become everybody's."""
    assert cluster.net is not None
    first, second = cluster.alive()[:2]
    newcomer = cluster.loaded(first.name)
    cluster.net.cut(first.name, second.name)
    cluster.begin_fault("kill unheard", BETWEEN)
    cluster.kill(first)
    cluster.net.mend(first.name, second.name)
    cluster.admit(newcomer)


def cut_off(cluster: GroupCluster, victim: Member, others: list[str]) -> None:
    assert cluster.net is not None
    newcomer = cluster.loaded(victim.name)
    cluster.begin_fault(f"cut from {', '.join(others)}", BETWEEN)
    for other in others:
        cluster.net.cut(victim.name, other)
    cluster.until_expelled(victim)
    for other in others:
        cluster.net.mend(victim.name, other)
    cluster.until_gone(victim)
    cluster.admit(newcomer)


def report(cluster: GroupCluster) -> None:
    living = [member.life for member in cluster.alive()]
    ends = [at_ms for _, at_ms in cluster.faults[1:]] + [now_ms()]
    for (kind, at_ms), end_ms in zip(cluster.faults, ends, strict=True):
        print(f"{kind}: the longest pause of a survivor was {longest_pause_ms(living, at_ms, end_ms):.0f} ms")
    print(f"{len(cluster.reference.life.heard)} messages, {len(cluster.members)} lives, {len(living)} lived")


def rounds(cluster: GroupCluster, members: int, faults: Sequence[Fault]) -> list[Life]:
    cluster.found([f"m{number}" for number in range(1, members + 1)])
    for fault in faults:
        fault(cluster)
    lives = cluster.finish()
    report(cluster)
    assert sum(life.lived for life in lives) == members
    return lives


def test_one_order_whoever_dies(tmp_path: Path) -> None:
    with cluster(tmp_path, count=300) as made:
        lives = rounds(made, 5, [kill_and_return, hang, kill_and_replace])
        assert list(one_order_doubts(lives)) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_five_coordinators_killed_and_one_hung(tmp_path: Path) -> None:
    faults = [kill_and_return, kill_and_replace, hang, kill_and_return, kill_and_replace, kill_and_return]
    with cluster(tmp_path, count=1000) as made:
        assert list(one_order_doubts(rounds(made, 7, faults))) == []


def test_who_is_expelled_is_told_what_is_in_doubt(tmp_path: Path) -> None:
    with cluster(tmp_path, count=100, pause_ms=5) as made:
        lives = rounds(made, 3, [hang])
        assert list(unsure_doubts(lives)) == []


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_no_message_before_its_causes_whoever_dies(tmp_path: Path, transport: str) -> None:
    with cluster(tmp_path, order="causal", transport=transport, count=300, lost=0.05) as made:
        lives = rounds(made, 4, [kill_and_return, kill_and_replace])
        assert list(causal_doubts(lives)) == []


@pytest.mark.slow
def test_one_order_over_datagrams_that_get_lost(tmp_path: Path) -> None:
    with cluster(tmp_path, transport="udp", count=300, lost=0.2) as made:
        assert list(one_order_doubts(rounds(made, 4, [kill_and_replace, kill_and_return]))) == []


@pytest.mark.slow
@pytest.mark.skipif(bool(netns.available()), reason=netns.available())
def test_one_order_whatever_cable_is_cut(tmp_path: Path) -> None:
    with (
        Net(["register", *(f"m{number}" for number in range(1, 6))]) as net,
        cluster(tmp_path, net, count=300) as made,
    ):
        lives = rounds(made, 5, [kill_unheard, cut_from_others, cut_from_register, cut_in_two_places])
        assert list(one_order_doubts(lives)) == []
