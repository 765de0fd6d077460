"""Ports for the servers of a benchmark, which are chosen long before somebody listens on them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import servers
from servers import HOST, StartError, free_ports


def test_ports_differ_and_are_none_that_the_system_gives_to_others() -> None:
    ports = free_ports(12)
    assert len(set(ports)) == 12
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if given.exists():
        first, last = map(int, given.read_text().split())
        assert not [port for port in ports if first <= port <= last]


def test_a_port_that_somebody_listens_on_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_ports(1)[0]
    monkeypatch.setattr(servers, "PORTS", range(first, first + 1))
    assert free_ports(1) == [first]
    with socket.create_server((HOST, first)), pytest.raises(StartError, match=r"1 ports from .* are not free"):
        free_ports(1)
