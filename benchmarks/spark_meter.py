"""CPU seconds of a Spark session: its Java, the Python workers below it, and the process that drives it.

Workers come and go. What they have used is then in the account of their parent, which has waited for them, so the sum
over the processes that are there, each with the children it has outlived, leaves nobody out. The brokers are children
of the same driver; they are started before the meter is made, and counted apart.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec
import psutil


class Measured(msgspec.Struct):
    """One run, in seconds."""

    cpu_s: float = 0.0
    server_cpu_s: float = 0.0
    elapsed_s: float = 0.0


class Meter:
    """Make it when the servers run, and the session does not."""

    def __init__(self) -> None:
        self._servers = psutil.Process().children(recursive=True)

    @contextmanager
    def running(self) -> Iterator[Measured]:
        """What is done inside is measured; the figures are there when it is over."""
        found = Measured()
        before, servers, began = self._session(), self._others(), time.perf_counter()
        yield found
        found.elapsed_s = time.perf_counter() - began
        found.cpu_s = self._session() - before
        found.server_cpu_s = self._others() - servers

    def _session(self) -> float:
        below = [each for each in psutil.Process().children(recursive=True) if each not in self._servers]
        return time.process_time() + used(below)

    def _others(self) -> float:
        return used(self._servers)


def used(processes: Iterable[psutil.Process]) -> float:
    """CPU seconds of these processes, and of their children that are no more."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
