"""Three brokers and their register are killed, frozen and cut off while librdkafka writes and reads all the time.

The long form (`make chaos`) goes twenty rounds.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import LogError
from octoloom.wire.kafka.records import Record, build_batch
from tests.chaos import netns
from tests.chaos.log_cluster import PORT, TOPIC, LogHosts, Reader, Writer, doubts, make_topic
from tests.chaos.netns import Net
from tests.waiting import until

BROKERS = ["b1", "b2", "b3"]
PARTITIONS = 3
WRITERS = 2
FROZEN_S = 3.0
"""Longer than the lease: whoever is frozen so long loses its place."""
CUT_S = 4.0

pytestmark = pytest.mark.skipif(bool(netns.available()), reason=netns.available())


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[LogHosts]:
    with Net(["register", *BROKERS]) as net:
        hosts = LogHosts(tmp_path, net)
        try:
            for host in net.hosts:
                hosts.start(host)
            yield hosts
        finally:
            hosts.stop()


def kill(hosts: LogHosts, host: str) -> None:
    hosts.signal(host, signal.SIGKILL)
    time.sleep(random.uniform(0, 1.0))
    hosts.start(host)


def freeze(hosts: LogHosts, host: str) -> None:
    hosts.signal(host, signal.SIGSTOP)
    time.sleep(random.choice([0.3, FROZEN_S]))
    hosts.signal(host, signal.SIGCONT)


def cut_off(hosts: LogHosts, host: str) -> None:
    """Nobody of the cluster reaches it; clients do."""
    others = [other for other in hosts.net.hosts if other != host]
    for other in others:
        hosts.net.cut(host, other)
    time.sleep(random.choice([0.5, CUT_S]))
    for other in others:
        hosts.net.mend(host, other)


def cut_from_register(hosts: LogHosts, host: str) -> None:
    hosts.net.cut(host, "register")
    time.sleep(CUT_S)
    hosts.net.mend(host, "register")


Fault = tuple[Callable[[LogHosts, str], None], str]
FAULTS: list[Fault] = [
    (kill, "leader"),
    (cut_off, "leader"),
    (freeze, "leader"),
    (kill, "register"),
    (kill, "follower"),
    (cut_from_register, "leader"),
    (freeze, "register"),
    (cut_off, "follower"),
    (freeze, "follower"),
]


def victim(hosts: LogHosts, admin: AdminClient, role: str) -> str:
    if role == "register":
        return role
    leader = hosts.leader(admin, random.randrange(PARTITIONS))
    return leader if role == "leader" else random.choice([host for host in BROKERS if host != leader])


def rounds(hosts: LogHosts, faults: list[Fault]) -> None:
    admin = make_topic(hosts.bootstrap, PARTITIONS, len(BROKERS))
    writers = [Writer(f"w{n}", hosts.bootstrap, PARTITIONS, 0.002) for n in range(WRITERS)]
    readers = [Reader(f"r{n}", hosts.bootstrap, PARTITIONS) for n in range(2)]
    for thread in (*writers, *readers):
        thread.start()
    try:
        for fault, role in faults:
            hosts.until_whole(admin, len(BROKERS))
            host = victim(hosts, admin, role)
            print(f"{fault.__name__} {role} {host}")
            fault(hosts, host)
        hosts.until_whole(admin, len(BROKERS))
    finally:
        for writer in writers:
            writer.stop()
    count = sum(len(writer.acknowledged) for writer in writers)
    truth = Reader("truth", hosts.bootstrap, PARTITIONS)
    truth.start()
    for reader in (truth, *readers):
        reader.until(count)
        reader.stop()
    longest = max(writer.longest_s for writer in writers)
    print(f"{count} acknowledged in {len(faults)} rounds; the longest acknowledgement took {longest:.2f} s")
    assert count > 100 * len(faults)
    assert doubts(writers, readers, truth) == []
    assert all(len(reader.seen) >= count for reader in readers)


def test_nothing_acknowledged_is_lost_doubled_or_reordered(hosts: LogHosts) -> None:
    rounds(hosts, FAULTS[:4])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_twenty_rounds(hosts: LogHosts) -> None:
    rounds(hosts, [*FAULTS, *FAULTS, *random.sample(FAULTS, 2)])


def test_a_leader_that_is_cut_off_never_acknowledges(hosts: LogHosts) -> None:
    admin = make_topic(hosts.bootstrap, 1, len(BROKERS))
    hosts.until_whole(admin, len(BROKERS))
    leader = hosts.leader(admin)
    others = [other for other in hosts.net.hosts if other != leader]
    assert asyncio.run(_write(f"{hosts.net.address(leader)}:{PORT}", 0)) == 0
    for other in others:
        hosts.net.cut(leader, other)
    with pytest.raises((LogError, TimeoutError)):
        asyncio.run(_write(f"{hosts.net.address(leader)}:{PORT}", 1))
    other_bootstrap = ",".join(f"{hosts.net.address(host)}:{PORT}" for host in BROKERS if host != leader)
    others_admin = make_admin(other_bootstrap)
    until(lambda: hosts.leader(others_admin) not in ("", leader), "another leader", pause_s=0.1)
    assert asyncio.run(_write(other_bootstrap, 2)) == 1
    for other in others:
        hosts.net.mend(leader, other)
    hosts.until_whole(admin, len(BROKERS))
    truth = Reader("truth", hosts.bootstrap, 1)
    truth.start()
    truth.until(2)
    truth.stop()
    assert truth.seen == {(0, 0): "0", (0, 1): "2"}


def make_admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


async def _write(bootstrap: str, number: int) -> int:
    """One record, to whom this address takes for the leader; the offset that was answered."""
    async with LogClient(bootstrap, timeout_ms=5000) as client:
        record = Record(0, int(time.time() * 1000), None, str(number).encode(), ())
        return await asyncio.wait_for(client.produce(TOPIC, 0, build_batch([record])), 8)
