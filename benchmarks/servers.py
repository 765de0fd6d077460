"""Server processes of a benchmark: on loopback and on free ports, ended by their own number, gone with their driver."""

from __future__ import annotations

import contextlib
import ctypes
import random
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from octoloom.runtime.processes import parse_ready

HOST = "127.0.0.1"
STOP_S_MAX = 10.0
PORTS = range(20_000, 32_000)
"""Below those that Linux gives to whoever connects, or listens on any port."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class StartError(RuntimeError):
    """A server did not start."""


class Servers:
    """The processes of one log. Each has a log file of its own in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pids: list[int] = []
        self._children: list[tuple[str, subprocess.Popen[str]]] = []
        folder.mkdir(parents=True)

    def start(self, name: str, command: Sequence[str]) -> None:
        with (self.folder / f"{name}.log").open("w") as log:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                start_new_session=True, preexec_fn=_end_with_driver,
            )  # fmt: skip
        self._children.append((name, child))
        self.pids.append(child.pid)

    def facts(self, number: int) -> dict[str, str]:
        """What the ready line of a child says; waits for it."""
        name, child = self._children[number]
        assert child.stdout is not None
        while line := child.stdout.readline():
            if line.startswith("ready "):
                return parse_ready(line)
        raise StartError(f"{name} did not start: {self.last_words(name)}")

    def last_words(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace").strip()[-500:] or "it said nothing"

    def check(self) -> None:
        """Raises if one has ended."""
        for name, child in self._children:
            if child.poll() is not None:
                raise StartError(f"{name} has ended: {self.last_words(name)}")

    def stop(self) -> None:
        for _, child in self._children:
            child.kill()
        for _, child in self._children:
            child.communicate(timeout=STOP_S_MAX)


def _end_with_driver() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now. The system gives none of these to others who ask for any, so they stay free."""
    ports: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with contextlib.suppress(OSError), socket.create_server((HOST, port)):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise StartError(f"{count} ports from {PORTS.start} to {PORTS.stop - 1} are not free: end what listens there")
