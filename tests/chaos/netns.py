"""Hosts of our own on this machine: a network namespace for each process, joined by a bridge, and cables to cut.

It needs root and Debian's iproute2; where it cannot be had `available` says why not. Names carry this process's number,
so several runs do not meet; everything is taken down at the end.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


def available() -> str:
    """Empty, or why there are no network namespaces here."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces need root and the command `ip` (Debian's iproute2)"
    try:
        _run("ip", "netns", "add", f"octotry{os.getpid()}")
        _run("ip", "netns", "del", f"octotry{os.getpid()}")
    except OSError as error:
        return f"this machine allows no network namespaces: {error}"
    return ""


_nets = itertools.count()


class Net:
    """Hosts 10.x.y.2 and following; we ourselves are .1 and reach all of them."""

    def __init__(self, hosts: list[str]) -> None:
        number = os.getpid() % 60_000
        # A namespace's cables outlive it for a moment, so no name is used twice.
        self._id = f"{number:x}{next(_nets)}n"
        self._prefix = f"10.{100 + number // 256 % 100}.{number % 256}"
        self._bridge = f"octob{self._id}"
        self.hosts = hosts

    def __enter__(self) -> Net:
        try:
            _run("ip", "link", "add", self._bridge, "type", "bridge")
            _run("ip", "addr", "add", f"{self._prefix}.1/24", "dev", self._bridge)
            _run("ip", "link", "set", self._bridge, "up")
            for host in self.hosts:
                self._add(host)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts:
            subprocess.run(["ip", "link", "del", self._outer(host)], capture_output=True, check=False)
            subprocess.run(["ip", "netns", "del", self._name(host)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._bridge], capture_output=True, check=False)

    def _name(self, host: str) -> str:
        return f"octo{self._id}{host}"

    def _outer(self, host: str) -> str:
        return f"ov{self._id}{self.hosts.index(host)}"

    def address(self, host: str) -> str:
        return f"{self._prefix}.{self.hosts.index(host) + 2}"

    def command(self, host: str) -> list[str]:
        """What to put before a command to have it run on a host."""
        return ["ip", "netns", "exec", self._name(host)]

    def _add(self, host: str) -> None:
        name, outer = self._name(host), self._outer(host)
        inner = f"ow{outer[2:]}"
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner)
        _run("ip", "link", "set", inner, "netns", name)
        _run("ip", "link", "set", outer, "master", self._bridge, "up")
        inside = ("ip", "-n", name)
        _run(*inside, "addr", "add", f"{self.address(host)}/24", "dev", inner)
        _run(*inside, "link", "set", inner, "up")
        _run(*inside, "link", "set", "lo", "up")

    def cut(self, one: str, other: str) -> None:
        """Nothing passes between the two, in either direction; who is connected learns nothing of it."""
        for here, there in ((one, other), (other, one)):
            _run("ip", "-n", self._name(here), "route", "add", "blackhole", f"{self.address(there)}/32")

    def mend(self, one: str, other: str) -> None:
        for here, there in ((one, other), (other, one)):
            _run("ip", "-n", self._name(here), "route", "del", "blackhole", f"{self.address(there)}/32")
